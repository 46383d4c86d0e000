import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.datasets import demo, records, shapes
from model_fns.structures import images, label_map
from protos import pipeline_pb2

tf1 = tf.compat.v1

SMALL = {
    'classification': demo.Subset(
        48, 1, (0.4, 0.6), 0.5, {'train': 16, 'val': 8}, {'train': 2, 'val': 1}
    ),
    'scenes': demo.Subset(
        64, 4, (0.2, 0.4), math.pi, {'train': 6, 'val': 2}, {'train': 1, 'val': 1}
    ),
}


@pytest.fixture(scope='module')
def dataset(tmp_path_factory):
    dataset = demo.DemoDataset(tmp_path_factory.mktemp('demo'))
    demo.write(dataset, SMALL)
    return dataset


def _serialized(dataset, subset, split):
    paths = sorted(tf.io.gfile.glob(dataset.pattern(subset, split)))
    return [record for path in paths for record in tf1.io.tf_record_iterator(path)]


def _features(serialized):
    """Values by key: arrays of numbers, lists of bytes."""
    values = {}
    for key, feature in tf.train.Example.FromString(serialized).features.feature.items():
        kind = feature.WhichOneof('kind')
        value = getattr(feature, kind).value
        values[key] = list(value) if kind == 'bytes_list' else np.array(value)
    return values


@pytest.fixture(scope='module')
def scenes(dataset):
    return [_features(record) for record in _serialized(dataset, 'scenes', 'train')]


@pytest.fixture(scope='module')
def decode_png():
    with tf.Graph().as_default() as graph:
        encoded = tf1.placeholder(tf.string, [])
        decoded = {dtype: tf.io.decode_png(encoded, dtype=dtype) for dtype in (tf.uint8, tf.uint16)}
    with tf1.Session(graph=graph) as session:
        yield lambda data, dtype=tf.uint8: session.run(decoded[dtype], {encoded: data})[:, :, 0]


def test_numbers_of_examples(dataset):
    for name, subset in SMALL.items():
        for split in ('train', 'val'):
            assert len(_serialized(dataset, name, split)) == subset.num_examples[split]


def test_the_classes_of_the_classification_subset_are_equally_frequent(dataset):
    examples = [_features(record) for record in _serialized(dataset, 'classification', 'train')]
    labels = [int(example['image/class/label'][0]) for example in examples]
    assert sorted(labels) == sorted(2 * list(range(1, 9)))
    names = label_map.LabelMap.read(dataset.label_map).names
    assert [names[label].encode() for label in labels] == [
        example['image/class/text'][0] for example in examples
    ]
    assert all(len(example['image/object/class/label']) == 1 for example in examples)
    assert len({example['image/source_id'][0] for example in examples}) == 16


def test_keys_of_every_task(scenes):
    objects = [
        *(f'image/object/bbox/{side}' for side in ('xmin', 'xmax', 'ymin', 'ymax')),
        *(f'image/object/rbbox/{side}' for side in ('cy', 'cx', 'h', 'w', 'ang')),
        *(f'image/object/class/{key}' for key in ('label', 'text')),
        *(
            f'image/object/{key}'
            for key in ('difficult', 'is_crowd', 'group_of', 'area', 'weight', 'mask')
        ),
    ]
    for example in scenes:
        counts = {key: len(example[key]) for key in objects}
        assert len(set(counts.values())) == 1, counts
        header = images.image_header(example['image/encoded'][0])
        assert header == ('jpeg', 64, 64)
        assert example['image/format'] == [b'jpeg']
        assert (example['image/height'][0], example['image/width'][0]) == (64, 64)
        assert {'image/filename', 'image/source_id', 'image/key/sha256'} < set(example)
    assert max(len(example['image/object/mask']) for example in scenes) > 1


def test_boxes_masks_and_segmentations_agree(scenes, decode_png):
    for example in scenes:
        classes = decode_png(example['image/segmentation/class/encoded'][0])
        instances = decode_png(example['image/segmentation/instance/encoded'][0], tf.uint16)
        ids = example['image/object/class/label']
        assert set(np.unique(instances)) == set(range(len(ids) + 1))
        np.testing.assert_array_equal(classes, np.concatenate([[0], ids])[instances])
        for i, encoded in enumerate(example['image/object/mask']):
            mask = decode_png(encoded)
            np.testing.assert_array_equal(mask, instances == i + 1)
            assert example['image/object/area'][i] == mask.sum()
            rows, columns = np.nonzero(mask)
            box = [example[f'image/object/bbox/{s}'][i] for s in ('ymin', 'xmin', 'ymax', 'xmax')]
            tight = [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
            np.testing.assert_allclose(np.array(box) * 64, tight, atol=1e-4)
        main = np.argmax(example['image/object/area'])
        assert example['image/class/label'][0] == ids[main]


def test_keypoints_are_extreme_points_of_the_masks(scenes, dataset, decode_png):
    (names,) = {item.keypoints for item in label_map.LabelMap.read(dataset.label_map).items}
    assert names == ((0, 'top'), (1, 'left'), (2, 'bottom'), (3, 'right'))
    for example in scenes:
        masks = example['image/object/mask']
        assert list(example['image/object/keypoint/num']) == [4] * len(masks)
        assert set(example['image/object/keypoint/visibility']) == {2}
        points = np.stack([example[f'image/object/keypoint/{axis}'] for axis in 'yx'], -1) * 64
        for (top, left, bottom, right), encoded in zip(points.reshape([-1, 4, 2]), masks):
            rows, columns = np.nonzero(decode_png(encoded))
            near_far = rows.min(), columns.min(), rows.max(), columns.max()
            found = [top[0] - 0.5, left[1] - 0.5, bottom[0] - 0.5, right[1] - 0.5]
            np.testing.assert_allclose(found, near_far, atol=1e-4)
            # In the other direction each is on the mask's outermost row or column.
            assert columns[rows == rows.min()].min() <= top[1] - 0.5 <= columns.max()
            assert rows[columns == columns.max()].max() >= right[0] - 0.5 >= rows.min()


def test_rotated_boxes_hold_the_masks(scenes, decode_png):
    for example in scenes:
        for i, encoded in enumerate(example['image/object/mask']):
            cy, cx, h, w, angle = (
                example[f'image/object/rbbox/{key}'][i] for key in ('cy', 'cx', 'h', 'w', 'ang')
            )
            assert -math.pi / 2 <= angle <= math.pi / 2
            rows, columns = np.nonzero(decode_png(encoded))
            dy, dx = (rows + 0.5) / 64 - cy, (columns + 0.5) / 64 - cx
            along_w = dx * math.cos(angle) + dy * math.sin(angle)
            along_h = dy * math.cos(angle) - dx * math.sin(angle)
            assert np.abs(along_w).max() <= w / 2 + 0.5 / 64
            assert np.abs(along_h).max() <= h / 2 + 0.5 / 64


def test_the_same_seed_draws_the_same_pictures_and_splits_differ(dataset, tmp_path):
    again = demo.DemoDataset(tmp_path)
    demo.write(again, {'scenes': SMALL['scenes']})
    train = _serialized(dataset, 'scenes', 'train')
    assert _serialized(again, 'scenes', 'train') == train
    assert not set(_serialized(dataset, 'scenes', 'val')) & set(train)


def test_the_cache_is_filled_once(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, 'SUBSETS', {'scenes': SMALL['scenes']})
    monkeypatch.setenv(demo.CACHE_VARIABLE, str(tmp_path / 'cache'))
    first = demo.demo_dataset()
    assert first.folder == tmp_path / 'cache' / f'demo-v{demo.VERSION}'
    assert [path.name for path in (tmp_path / 'cache').iterdir()] == [first.folder.name]
    monkeypatch.setattr(demo, 'write', lambda *_: pytest.fail('written again'))
    assert demo.demo_dataset() == first
    assert demo.demo_dataset(tmp_path / 'cache') == first


def test_an_interrupted_first_call_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(dataset, subsets):
        (dataset.folder / 'half').write_text('')
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, 'write', interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.demo_dataset(tmp_path)
    assert not list(tmp_path.iterdir())


def test_two_processes_may_fill_the_cache_at_once(tmp_path, monkeypatch):
    def slow(dataset, subsets):
        (tmp_path / f'demo-v{demo.VERSION}').mkdir()
        (tmp_path / f'demo-v{demo.VERSION}' / 'theirs').write_text('')
        (dataset.folder / 'ours').write_text('')

    monkeypatch.setattr(demo, 'write', slow)
    dataset = demo.demo_dataset(tmp_path)
    assert [path.name for path in dataset.folder.iterdir()] == ['theirs']
    assert list(tmp_path.iterdir()) == [dataset.folder]


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(errors.DataError, match=f'file: .*{demo.CACHE_VARIABLE}'):
        demo.demo_dataset(tmp_path / 'file')


def test_the_cache_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    assert demo._user_cache() == tmp_path / 'run_train_eval'
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    assert demo._user_cache() == tmp_path / 'home' / '.cache' / 'run_train_eval'


def readers_fit(config, dataset, subset):
    for reader, split in (
        (config.train_input_reader, 'train'),
        (config.eval_input_reader[0], 'val'),
    ):
        (pattern,) = reader.tf_record_input_reader.input_path
        assert pattern == records.shard_pattern(dataset.prefix(subset, split))
        assert tf.io.gfile.glob(pattern)
        assert reader.label_map_path == dataset.label_map


def test_the_classification_pipeline_fits_the_data(dataset):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(demo.demo_pipeline_text('classification', dataset), config)
    model = config.model.classification
    assert model.num_classes == len(shapes.NAMES)
    assert model.labels_offset == label_map.FIRST_ID
    assert model.image_height == model.image_width == demo.SUBSETS['classification'].size
    schedule = config.train_config.optimizer.momentum_optimizer.learning_rate
    assert not schedule.cosine_decay_learning_rate.HasField('total_steps')  # that of the run
    readers_fit(config, dataset, 'classification')


def test_the_detection_pipeline_fits_the_data(dataset):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(demo.demo_pipeline_text(paths=dataset), config)
    model = config.model.ssd
    assert model.num_classes == len(shapes.NAMES)
    assert model.image_resizer.fixed_shape_resizer.height == demo.SUBSETS['scenes'].size
    schedule = config.train_config.optimizer.adam_optimizer.learning_rate
    assert not schedule.cosine_decay_learning_rate.HasField('total_steps')  # that of the run
    readers_fit(config, dataset, 'scenes')


def test_an_unknown_demo_is_named(dataset):
    with pytest.raises(errors.ConfigError, match="'clasification'; did you mean 'classification'"):
        demo.demo_pipeline_text('clasification', dataset)
