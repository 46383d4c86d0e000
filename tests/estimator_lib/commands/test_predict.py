"""A model run over images: batches, reading ahead, bad images."""

import json
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image

from estimator_lib import errors
from estimator_lib.commands import predict
from estimator_lib.commands.prediction_files import PREDICTIONS_FILE
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import exported_model, exporting, saved_model
from estimator_lib.processes import preemption
from estimator_lib.task import Description, Region, Shown
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task


class Drawing(tiny_task.Presented, tiny_task.TinyTask):
    """Draws one pixel, writes a file, and describes an image by its sides."""

    def describe(self, features, outputs, shown=None):
        height, width, _ = features['image'].shape
        values = {'size': [height, width], 'class': outputs['classes'], **shown._asdict()}
        return Description(values, (), features['image'][:1, :1], {'.txt': b'hello'})


class Recording:
    """A predictor that computes means, and remembers the shapes of its batches."""

    path = 'model.tflite'

    def __init__(self, max_batch_size=None, refuses=None):
        self.max_batch_size = max_batch_size
        self.shapes = []
        self._refuses = refuses

    def predict(self, images):
        if self._refuses is not None and (images == self._refuses).any():
            raise tf.errors.InvalidArgumentError(None, None, 'too dark\nand more')
        self.shapes.append(images.shape)
        return {'mean': images.mean(axis=(1, 2, 3))}


@pytest.fixture(scope='module')
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp('exported')
    checkpoint = tiny_task.save(folder / 'model.ckpt-7', tiny_task.values())
    config = text_format.Parse(
        "model { classification { num_classes: 2 backbone { name: 'mobilenet_v1' } } } "
        "train_input_reader { tf_record_input_reader { input_path: 'unused' } }",
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    return exported_model.Predictor(
        exporting.export(
            tiny_task.TinyTask(),
            config,
            checkpoint,
            str(folder / 'export'),
            saved_model.SavedModelWriter(),
        )
    )


def pixels(seed, height=5, width=7):
    random = np.random.RandomState(seed)
    return random.randint(0, 255, [height, width, 3]).astype(np.uint8)


def image(name, array):
    return predict.Image(name, name, len(name), lambda: array)


def bad(name):
    def read():
        raise errors.DataError(f'{name}: it is bad.')

    return predict.Image(name, name, len(name), read)


def read_json(out):
    return json.loads((out / PREDICTIONS_FILE).read_text())


def test_it_is_said_that_nothing_was_found(predictor, tmp_path, caplog):
    class Finding(Drawing):
        def describe(self, features, outputs, shown=None):
            return super().describe(features, outputs, shown)._replace(rows=self.rows)

        def nothing_found(self, shown, worth_showing):
            return f'nothing reached {shown.or_else(worth_showing).least_score}'

    options = predict.Options(worth_showing=Shown(least_score=0.25))
    for rows in ([], [{'class': 'cat'}]):
        Finding.rows = rows
        caplog.clear()
        images = [image('a', pixels(0))]
        predict.predict_images(predictor, Finding(), images, str(tmp_path), options)
        assert ('nothing reached 0.25' in caplog.text) == (not rows)


def test_each_image_is_described_and_drawn(predictor, tmp_path):
    arrays = {'a': pixels(0), 'b': pixels(1, 9, 6), 'c': pixels(2)}
    images = [image(*each) for each in arrays.items()]
    options = predict.Options(Shown(top_k=3), worth_showing=Shown(least_score=0.25, top_k=1))
    assert predict.predict_images(predictor, Drawing(), images, str(tmp_path), options) == []
    said = read_json(tmp_path)
    assert list(said) == ['a', 'b', 'c']
    for name, array in arrays.items():
        logits = tiny_task.expected_logits(array[np.newaxis], tiny_task.values())
        assert said[name] == {
            'size': list(array.shape[:2]),
            'class': int(np.argmax(logits)),
            'least_score': 0.25,
            'top_k': 3,
            'class_indices': None,
        }
        assert np.array_equal(np.asarray(Image.open(tmp_path / f'{name}.png')), array[:1, :1])
        assert (tmp_path / f'{name}.txt').read_bytes() == b'hello'


class Cutting(Drawing):
    """Finds two objects: one inside of the image, one that reaches over its border."""

    class_names = ('a/b', 'c')

    def regions(self, features, outputs, shown=None):
        return [Region(0, [1.2, 2.0, 2.8, 4.0]), Region(1, [3.0, -2.0, 9.0, 2.5])]


@pytest.mark.parametrize('kind, ending', [('png', 'png'), ('jpeg', 'jpg'), ('none', None)])
def test_kinds_of_pictures_and_crops(tmp_path, kind, ending):
    array = pixels(0)
    path = tmp_path / 'an image.png'
    Image.fromarray(array).save(path)
    one = predict.Image(str(path), 'a', 1, lambda: array)
    options = predict.Options(pictures=kind, crops=True)
    out = tmp_path / 'out'
    predict.predict_images(Classes(), Cutting(), [one], str(out), options)
    crop_ending = ending or 'jpg'
    names = {str(each.relative_to(out)) for each in out.rglob('*') if each.is_file()}
    pictures = set() if ending is None else {f'a.{ending}'}
    assert names == pictures | {
        'a.txt',
        'predictions.json',
        'predictions.html',
        f'crops/a_b/a_0.{crop_ending}',
        f'crops/c/a_1.{crop_ending}',
    }
    crops = [Image.open(out / 'crops' / f'{one}.{crop_ending}') for one in ('a_b/a_0', 'c/a_1')]
    assert [crop.size for crop in crops] == [(2, 2), (3, 2)]
    if ending == 'png':
        assert np.array_equal(np.asarray(crops[0]), array[1:3, 2:4])
    page = (out / 'predictions.html').read_text()
    assert ('"../an%20image.png"' if ending is None else f'"a.{ending}"') in page


class Classes(Recording):
    def predict(self, images):
        return {'classes': np.zeros([len(images)])}


def test_crops_of_a_task_without_objects_are_refused(tmp_path):
    options = predict.Options(crops=True)
    with pytest.raises(errors.UserError, match='--crops: it has objects in images, and tiny'):
        predict.predict_images(
            Classes(), Drawing(), [image('a', pixels(0))], str(tmp_path), options
        )


def test_without_a_description_all_outputs_are_listed(predictor, tmp_path):
    array = pixels(0)
    predict.predict_images(
        predictor, tiny_task.TinyTask(), [image('a', array)], str(tmp_path / 'task')
    )
    predict.predict_images(predictor, None, [image('a', array)], str(tmp_path / 'none'))
    expected = tiny_task.expected_logits(array[np.newaxis], tiny_task.values())[0]
    for folder in ('task', 'none'):
        (one,) = read_json(tmp_path / folder).values()
        np.testing.assert_allclose(one['logits'], expected, rtol=1e-5)
        assert sorted(one) == ['classes', 'logits']


def test_raw_outputs_are_added(predictor, tmp_path):
    array = pixels(0)
    options = predict.Options(raw=True)
    predict.predict_images(predictor, Drawing(), [image('a', array)], str(tmp_path), options)
    (one,) = read_json(tmp_path).values()
    expected = tiny_task.expected_logits(array[np.newaxis], tiny_task.values())[0]
    np.testing.assert_allclose(one['raw']['logits'], expected, rtol=1e-5)


def test_images_of_equal_size_go_together(tmp_path):
    recording = Recording()
    images = [image(f'{n:02}', np.full([4, 4 + n % 2, 3], n, np.uint8)) for n in range(10)]
    options = predict.Options(batch_size=4)
    predict.predict_images(recording, None, images, str(tmp_path), options)
    assert sorted(recording.shapes) == [
        (1, 4, 4, 3),
        (1, 4, 5, 3),
        (4, 4, 4, 3),
        (4, 4, 5, 3),
    ]
    assert {name: one['mean'] for name, one in read_json(tmp_path).items()} == {
        f'{n:02}': n for n in range(10)
    }


@pytest.mark.parametrize(
    'side, max_batch_size, expected',
    [
        (4, 1, [1, 1, 1]),
        (4, 2, [2, 1]),
        (1600, None, [3]),
        (2000, None, [2, 1]),
        (3000, 8, [1] * 3),
    ],
)
def test_batches_are_as_large_as_model_and_memory_allow(tmp_path, side, max_batch_size, expected):
    """Limit a batch to eight million pixels: three images of 1600 x 1600, two of 2000 x 2000."""
    recording = Recording(max_batch_size)
    array = np.zeros([side, side, 3], np.uint8)
    predict.predict_images(recording, None, [image(n, array) for n in 'abc'], str(tmp_path))
    assert [shape[0] for shape in recording.shapes] == expected


def test_bad_images_are_reported_in_order_and_all_others_are_written(tmp_path):
    images = [bad('1'), image('2', pixels(0)), bad('33'), image('444', pixels(1))]
    skipped = predict.predict_images(Recording(), None, images, str(tmp_path))
    assert skipped == ['1: it is bad.', '33: it is bad.']
    assert list(read_json(tmp_path)) == ['2', '444']


def test_an_image_that_the_model_fails_on_is_a_bad_one_and_its_batch_is_not(tmp_path):
    images = [image(str(n), np.full([4, 4, 3], n, np.uint8)) for n in range(8)]
    skipped = predict.predict_images(Recording(refuses=5), None, images, str(tmp_path))
    assert skipped == ['5: the model fails on it: too dark']
    assert list(read_json(tmp_path)) == ['0', '1', '2', '3', '4', '6', '7']


def test_a_bad_image_ends_it_where_that_is_asked(tmp_path):
    images = [image('1', pixels(0)), bad('22')]
    with pytest.raises(errors.DataError, match='22: it is bad'):
        predict.predict_images(
            Recording(), None, images, str(tmp_path), predict.Options(skips=False)
        )
    assert not (tmp_path / PREDICTIONS_FILE).exists()


def stopped(name, folder, count):
    """An image at whose turn a signal comes, when so many others are done."""
    journal = folder / 'predictions.partial'

    def read():
        for _ in range(1000):  # 10 s: images are described in other threads
            if journal.read_text().count('\n') > count:
                break
            time.sleep(0.01)
        raise preemption.Preempted(signal.SIGTERM)

    return predict.Image(name, name, len(name), read)


def test_a_prediction_that_a_signal_has_ended_continues(tmp_path, caplog):
    options = predict.Options(batch_size=1)

    def run(predictor, images, identity):
        return predict.predict_images(
            predictor, None, images, str(tmp_path), options, len(images), identity
        )

    names = '1', '22', '333', '4444'
    images = [image(name, pixels(seed)) for seed, name in enumerate(names)]
    with pytest.raises(preemption.Preempted):
        run(Recording(), [*images[:2], stopped('333', tmp_path, 2), images[3]], ['model 1'])
    assert not (tmp_path / PREDICTIONS_FILE).exists()
    assert f'2 are done ({tmp_path}/predictions.partial): the same command continues' in caplog.text
    again = Recording()
    assert run(again, images, ['model 1']) == []
    assert len(again.shapes) == 2  # the others are kept
    continued = read_json(tmp_path)
    assert not (tmp_path / 'predictions.partial').exists()
    run(Recording(), images, ['model 1'])
    assert read_json(tmp_path) == continued and list(continued) == sorted(names)


def test_what_another_model_has_done_is_not_kept(tmp_path):
    images = [image('1', pixels(0)), stopped('22', tmp_path, 1)]
    for identity in (['model 1'], ['model 2']):
        options = predict.Options(batch_size=1)
        predictor = Recording()
        with pytest.raises(preemption.Preempted):
            predict.predict_images(predictor, None, images, str(tmp_path), options, None, identity)
        assert len(predictor.shapes) == 1


def test_an_image_that_has_changed_is_predicted_again(tmp_path):
    path = tmp_path / 'a.png'
    path.write_bytes(b'x')
    options = predict.Options(batch_size=1)
    for content, count in ((b'x', 1), (b'x', 0), (b'changed', 1)):
        if content != path.read_bytes():
            path.write_bytes(content)
        predictor = Recording()
        images = [image(str(path), pixels(0)), stopped('22', tmp_path, 1)]
        with pytest.raises(preemption.Preempted):
            predict.predict_images(predictor, None, images, str(tmp_path), options, None, [1])
        assert len(predictor.shapes) == count


def test_no_image_at_all_is_an_error(tmp_path):
    with pytest.raises(errors.DataError, match=r'none of the images can be read: 1: it is bad'):
        predict.predict_images(Recording(), None, [bad('1')], str(tmp_path))


def test_images_are_read_at_the_same_time(tmp_path):
    """Let two reads wait for each other: one at a time they would never end."""
    both = threading.Barrier(2, timeout=20)

    def read():
        both.wait()
        return pixels(0)

    images = [predict.Image(name, name, 1, read) for name in 'ab']
    assert predict.predict_images(Recording(), None, images, str(tmp_path)) == []
    assert list(read_json(tmp_path)) == ['a', 'b']


@pytest.mark.parametrize(
    'options',
    [
        predict.Options(Shown(top_k=1)),
        predict.Options(output_format='csv'),
        predict.Options(crops=True),
    ],
    ids=['top_k', 'csv', 'crops'],
)
def test_what_a_model_without_a_config_cannot_do_is_said(tmp_path, options):
    with pytest.raises(errors.UserError, match='--pipeline_config_path is needed'):
        predict.predict_images(Recording(), None, [image('a', pixels(0))], str(tmp_path), options)


def test_the_page_of_a_model_without_a_config_has_the_images(tmp_path):
    array = pixels(0)
    Image.fromarray(array).save(tmp_path / 'a.png')
    one = predict.Image(str(tmp_path / 'a.png'), 'a', 1, lambda: array)
    predict.predict_images(Recording(), None, [one], str(tmp_path / 'out'))
    assert '"../a.png"' in (tmp_path / 'out' / 'predictions.html').read_text()


def test_a_task_without_coco_results_says_so(predictor, tmp_path):
    options = predict.Options(output_format='coco')
    with pytest.raises(errors.UserError, match='COCO has no results of tiny; expected json or'):
        predict.predict_images(
            predictor, Drawing(), [image('a', pixels(0))], str(tmp_path), options
        )


class Merging(Drawing):
    """Adds the means of tiles up, and writes one line an image."""

    def merge_tiles(self, tiles, size):
        tiles = list(tiles)
        windows = [tuple(window) for window, _ in tiles]
        total = sum(float(outputs['mean']) for _, outputs in tiles)
        return {'classes': total, 'windows': windows, 'size': size}

    def describe(self, features, outputs, shown=None):
        return Description({'total': outputs['classes'], 'windows': outputs['windows']})

    def submission_lines(self, stem, features, outputs, shown=None):
        return {'all.txt': [f'{stem} {outputs["classes"]:g}']}


def test_large_images_are_run_in_tiles(tmp_path):
    array = np.zeros([60, 90, 3], np.uint8)
    array[:, 50:] = 30
    recording = Recording()
    options = predict.Options(tiling=Tiling(50, 10))
    images = [image('a', array), image('b', array[:40, :40])]
    assert predict.predict_images(recording, Merging(), images, str(tmp_path), options) == []
    predictions = json.loads((tmp_path / PREDICTIONS_FILE).read_text())
    assert predictions['a']['windows'] == [
        [0, 0, 50, 50],
        [0, 40, 50, 50],
        [10, 0, 50, 50],
        [10, 40, 50, 50],
    ]
    # Of each right tile 40 of 50 columns have 30.
    assert predictions['a']['total'] == pytest.approx(2 * 24)
    assert predictions['b']['windows'] == [[0, 0, 40, 40]]
    assert recording.shapes == [(4, 50, 50, 3), (1, 40, 40, 3)]


def test_the_whole_image_may_follow_its_tiles(tmp_path):
    recording = Recording()
    options = predict.Options(tiling=Tiling(50, 10, whole=True))
    images = [image('a', np.zeros([40, 90, 3], np.uint8)), image('b', pixels(0, 40, 40))]
    assert predict.predict_images(recording, Merging(), images, str(tmp_path), options) == []
    predictions = json.loads((tmp_path / PREDICTIONS_FILE).read_text())
    assert predictions['a']['windows'] == [[0, 0, 40, 50], [0, 40, 40, 50], [0, 0, 40, 90]]
    assert predictions['b']['windows'] == [[0, 0, 40, 40]]
    assert recording.shapes == [(2, 40, 50, 3), (1, 40, 90, 3), (1, 40, 40, 3)]


class Lazy(Merging):
    """Counts how many tiles have been run when each is handed over."""

    def __init__(self, recording):
        super().__init__()
        self.recording, self.counts = recording, []

    def merge_tiles(self, tiles, size):
        kept = []
        for tile in tiles:
            self.counts.append(len(self.recording.shapes))
            kept.append(tile)
        return super().merge_tiles(kept, size)


def test_outputs_of_tiles_are_handed_over_one_after_the_other(tmp_path):
    task = Lazy(Recording())
    options = predict.Options(tiling=Tiling(50, 10), batch_size=1)
    images = [image('a', np.zeros([60, 90, 3], np.uint8))]
    assert predict.predict_images(task.recording, task, images, str(tmp_path), options) == []
    assert task.counts == [1, 2, 3, 4]


def test_tiles_that_a_task_cannot_put_together(tmp_path):
    options = predict.Options(tiling=Tiling(50, 10))
    images = [image('a', np.zeros([60, 90, 3], np.uint8))]
    with pytest.raises(errors.UserError, match='cannot be put together'):
        predict.predict_images(Recording(), Drawing(), images, str(tmp_path), options)
    with pytest.raises(errors.UserError, match='--pipeline_config_path is needed'):
        predict.predict_images(Recording(), None, images, str(tmp_path), options)


def test_a_submission_has_the_lines_of_all_images(tmp_path):
    options = predict.Options(output_format='submission', tiling=Tiling(50, 10))
    images = [image(f'x/{name}.png', np.full([40, 40, 3], 7, np.uint8)) for name in 'ba']
    predict.predict_images(Recording(), Merging(), images, str(tmp_path), options)
    assert (tmp_path / 'all.txt').read_text() == 'a 7\nb 7\n'


def test_tasks_without_a_submission(tmp_path):
    class Silent(Drawing):
        def describe(self, features, outputs, shown=None):
            return Description(outputs)

    images = [image('a', np.zeros([4, 4, 3], np.uint8))]
    options = predict.Options(output_format='submission')
    with pytest.raises(errors.UserError, match='has none with this model'):
        predict.predict_images(Recording(), Silent(), images, str(tmp_path), options)


def test_an_image_that_memory_does_not_hold_is_a_bad_one(tmp_path):
    """It may be too large to read, to run, to describe and to draw."""

    def unreadable():
        raise MemoryError

    class Small(Recording):
        def predict(self, images):
            if (images == 1).all(axis=(1, 2, 3)).any():
                raise MemoryError
            return {'classes': images.mean(axis=(1, 2, 3))}

    class Describes(Drawing):
        def describe(self, features, outputs, shown=None):
            if (features['image'] == 2).all():
                raise MemoryError
            return super().describe(features, outputs, shown)

    images = [image(str(n), np.full([4, 4, 3], n, np.uint8)) for n in range(4)]
    images[3] = images[3]._replace(read=unreadable)
    skipped = predict.predict_images(Small(), Describes(), images, str(tmp_path))
    text = 'there is too little memory for it; expected a smaller image, or --tile.'
    assert sorted(skipped) == [f'{n}: {text}' for n in (1, 2, 3)]
    assert list(read_json(tmp_path)) == ['0']


def test_an_image_whose_picture_fails_is_a_bad_one(tmp_path):
    class Fails(Drawing):
        def describe(self, features, outputs, shown=None):
            if (features['image'] == 1).all():
                raise ZeroDivisionError('a line of no width')
            return super().describe(features, outputs, shown)

    class Classes(Recording):
        def predict(self, images):
            return {'classes': images.mean(axis=(1, 2, 3))}

    images = [image(str(n), np.full([4, 4, 3], n, np.uint8)) for n in range(3)]
    said = '1: its outputs cannot be described: ZeroDivisionError: a line of no width'
    skipped = predict.predict_images(Classes(), Fails(), images, str(tmp_path / 'a'))
    assert skipped == [said]
    assert list(read_json(tmp_path / 'a')) == ['0', '2']
    with pytest.raises(errors.DataError, match='ZeroDivisionError'):
        predict.predict_images(
            Classes(), Fails(), images, str(tmp_path / 'b'), predict.Options(skips=False)
        )


def test_a_model_without_an_output_of_its_config_is_refused():
    with pytest.raises(errors.UserError, match="no output 'classes', which tiny of the config has"):
        predict.describe(Drawing(), predict.Options(), pixels(0), {'mean': np.zeros(1)})
