"""Segmentation through the front door: trained, evaluated, exported, served, fine-tuned."""

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import tf_estimator
from estimator_lib.drawing.tiling import Tiling
from model_fns import build_task
from model_fns.datasets import codecs
from model_fns.segmentation.networks import backbones
from model_fns.structures import id_images
from tests import learning, served, sessions, shallow, tiny_data, tiny_segmentation
from tests.model_fns.datasets.id_files import png
from tests.test_run_train_eval import csv_rows, estimator_predictions, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

OUTPUTS = {
    'SemanticPredictions',
    'SemanticProbabilities',
    'InstanceCenters',
    'CenterOffsets',
    'EdgePredictions',
    'InstancePredictions',
    'PanopticPredictions',
}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Records, and the config of a network with a semantic head."""
    folder = tmp_path_factory.mktemp('data')
    tiny_segmentation.write_all(folder)
    return folder


@pytest.fixture(scope='module')
def trained(data, tmp_path_factory):
    """A model with all heads, after a run of the front door."""
    model_dir = tmp_path_factory.mktemp('run')
    config = data / 'all_heads.config'
    text = tiny_segmentation.CONFIG.format(folder=data, heads=tiny_segmentation.ALL_HEADS)
    config.write_text(text)
    with sessions.with_rewrites():
        assert front_door(f'--model_dir={model_dir}', f'--pipeline_config_path={config}') == 0
    return model_dir


def run(data, model_dir, *flags, mode='train', steps=1):
    return front_door(
        f'--mode={mode}',
        f'--model_dir={model_dir}',
        f'--pipeline_config_path={data / "pipeline.config"}',
        f'--num_train_steps={steps}',
        *flags,
    )


def tags_of(folder):
    return {
        value.tag
        for path in folder.glob('events*')
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }


# A run with all heads.


def test_it_learns_classes_and_instances(trained):
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    learning.require_falling_loss(trained)
    assert metrics['miou_1.0_overall'] > 0 and metrics['center_f_score'] >= 0
    assert {
        'miou_1.0_class_2',
        'pixel_accuracy',
        'mean_accuracy',
        'panoptic_quality',
        'boundary_f_score',
        'center_f_score',
        'offset_error',
        'Loss/total_loss',
    } <= set(metrics)
    assert 0.0 <= metrics['panoptic_quality'] <= 1.0


def test_the_analysis_agrees_with_the_metrics(trained):
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    folder = trained / 'analysis' / '60'
    classes, mistakes = (csv_rows(folder / f'{name}.csv') for name in ('classes', 'errors'))
    assert [row['class'] for row in classes] == ['background', 'green', 'blue']
    for index, row in enumerate(classes):
        assert float(row['IoU']) == pytest.approx(metrics[f'miou_1.0_class_{index}'], abs=1e-5)
        assert float(row['boundary F']) >= 0.0
    for row in mistakes:
        assert row['image'] == f'val_{row["record"]}.png' and float(row['iou']) < 0.5
        assert row['error'] in ('missed', 'false', 'low overlap')
    assert (folder / 'report.html').exists() and (folder / 'confusion_matrix.png').exists()
    assert len(list((folder / 'worst').iterdir())) == len({row['image'] for row in mistakes})


def test_pictures_raw_files_and_training_metrics(data, trained):
    assert {'examples/0', 'panoptic_quality'} <= tags_of(trained / 'eval_0')
    assert any('miou' in tag for tag in tags_of(trained))
    names = [path.name for path in (data / 'pictures').iterdir()]
    raw = [name for name in names if name.endswith('_raw.png')]
    assert len(raw) == 2 and len(names) == 4
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        encoded = (data / 'pictures' / raw[0]).read_bytes()
        classes = session.run(tf.io.decode_png(encoded))
    assert classes.shape == (48, 48, 1) and classes.max() <= 2


@pytest.fixture(scope='module')
def predicted(trained):
    """Images, and what the Estimator predicts of them."""
    random = np.random.RandomState(3)
    sent = np.stack([tiny_segmentation.scene(random)[0][:40] for _ in range(2)])
    return sent, estimator_predictions(trained, sent)


def test_an_export_predicts_what_the_estimator_does(trained, predicted, tmp_path):
    assert front_door('--mode=export', f'--model_dir={trained}', f'--export_dir={tmp_path}') == 0
    sent, expected = predicted
    got = served.answers(latest(tmp_path), sent)
    assert set(got) == OUTPUTS
    served.require_clients(latest(tmp_path), sent, got)
    for name in OUTPUTS:
        if got[name].dtype == np.float32:
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-3, atol=1e-3)
        else:  # Equal but for pixels on the border of two classes.
            assert np.mean(got[name] != expected[name]) < 0.01, name


def test_a_frozen_graph_has_the_names_of_deeplab(trained, predicted, tmp_path):
    flags = [f'--model_dir={trained}', f'--export_dir={tmp_path}', '--format=frozen_graph']
    assert front_door('--mode=export', *flags) == 0
    sent, expected = predicted
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph_def = tf.compat.v1.GraphDef()
        graph_def.ParseFromString((latest(tmp_path) / 'frozen_inference_graph.pb').read_bytes())
        tf.import_graph_def(graph_def, name='')
        classes = session.run('SemanticPredictions:0', {'ImageTensor:0': sent[:1]})
    assert np.mean(classes != expected['SemanticPredictions'][:1]) < 0.01


def test_predict_writes_numbers_pictures_and_ids(trained, tmp_path):
    random = np.random.RandomState(4)
    for index, size in enumerate(((48, 48), (30, 41))):
        image = tiny_segmentation.scene(random)[0][: size[0], : size[1]]
        (tmp_path / f'{index}.png').write_bytes(codecs.encode_png(image))
    status = front_door(
        '--mode=predict',
        f'--saved_model_dir={trained / "export" / "best"}',
        f'--images={tmp_path}/*.png',
        f'--output_dir={tmp_path / "out"}',
    )
    assert status == 0
    predictions = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    first, second = (predictions[str(tmp_path / f'{index}.png')] for index in range(2))
    names = {0: 'background', 1: 'green', 2: 'blue'}
    for one, size in ((first, (48, 48)), (second, (30, 41))):
        assert (one['height'], one['width']) == size
        assert sum(found['pixels'] for found in one['classes']) == size[0] * size[1]
        assert all(found['class'] == names[found['id']] for found in one['classes'])
    assert isinstance(first['instances'], int)
    assert {path.name for path in (tmp_path / 'out').glob('0*')} == {
        '0.png',
        '0_classes.png',
        '0_instances.png',
    }


def test_tiles_of_a_large_image_are_merged(trained, tmp_path, capsys):
    random = np.random.RandomState(5)
    scenes = [[tiny_segmentation.scene(random)[0] for _ in range(3)] for _ in range(2)]
    image = np.concatenate([np.concatenate(row, axis=1) for row in scenes])
    (tmp_path / 'large.png').write_bytes(codecs.encode_png(image))
    flags = [
        '--mode=predict',
        f'--saved_model_dir={trained / "export" / "best"}',
        f'--images={tmp_path}/large.png',
        f'--output_dir={tmp_path / "out"}',
        '--tile=64',
        '--overlap=24',
    ]
    assert front_door(*flags, '--whole_image') == 2
    assert '--whole_image: segmentation has a result' in capsys.readouterr().err
    assert front_door(*flags) == 0
    predictions = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    (found,) = predictions.values()
    assert (found['height'], found['width']) == (96, 144)
    assert sum(one['pixels'] for one in found['classes']) == 96 * 144
    classes = id_images.read((tmp_path / 'out' / 'large_classes.png').read_bytes())
    ids = id_images.read((tmp_path / 'out' / 'large_instances.png').read_bytes())
    assert np.unique(ids[ids > 0]).size == found['instances'] == ids.max()
    assert not ids[classes == 0].any()
    # As the mean of what the tiles say, one by one.
    parts = [
        np.s_[window.top : window.top + 64, window.left : window.left + 64]
        for window in Tiling(64, 24).windows(96, 144)
    ]
    tiles = np.stack([image[part] for part in parts])
    got = served.answers(latest(trained / 'export' / 'best'), tiles)
    sums = np.zeros([96, 144, 3])
    for part, probabilities in zip(parts, got['SemanticProbabilities']):
        sums[part] += probabilities
    assert np.mean(classes != sums.argmax(-1)) < 0.001


# Options.


def test_options_of_training_and_evaluation(data, tmp_path, capfd):
    options = """model { segmentation {
      image_pyramid: 0.5 image_pyramid: 1.0 merge_method: MERGE_AVERAGE
      fine_tune_batch_norm: false
      loss {
        class_weighting: MEDIAN_FREQUENCY top_k_percent_pixels: 0.25 hard_example_mining_step: 2
      }
      evaluation { scales: 0.5 scales: 1.0 add_flipped_images: true }
      export { output_stride: 16 scales: 1.0 scales: 1.5 }
    } } export_config { best { metric: "miou_0.5_1.0_flipped_overall" } }"""
    override = f'--config_override={options}'
    assert run(data, tmp_path, override, mode='train_and_evaluate', steps=3) == 0
    assert 'class weights: background' in capfd.readouterr().err
    metrics = json.loads((tmp_path / 'metrics.json').read_text())['0']
    assert 'miou_0.5_1.0_flipped_overall' in metrics and 'miou_1.0_overall' not in metrics
    losses = {name for name in metrics if name.startswith('Loss/')}
    assert {name for name in losses if '0.50' in name} and {n for n in losses if '1.00' in n}
    # Frozen: the statistics are those of a fresh network, gamma is trained.
    read = tf.train.load_variable
    assert not read(str(tmp_path), 'tiny/conv1/BatchNorm/moving_mean').any()
    assert (read(str(tmp_path), 'tiny/conv1/BatchNorm/gamma') != 1.0).any()
    got = served.answers(latest(tmp_path / 'export' / 'final'), np.zeros([1, 60, 50, 3], np.uint8))
    assert got['SemanticPredictions'].shape == (1, 60, 50)


# Fine-tuning.


def initial_values(config, folder):
    """A checkpoint of the values that the variables of a config's model start from."""
    config = config_lib.load_pipeline_config(str(config))
    task = build_task(config)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = task.serving_features(tf.zeros([1, 64, 64, 3], tf.uint8))
        task.predict(features, tf_estimator.ModeKeys.TRAIN)
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, str(folder / 'first' / 'model.ckpt'))


def totals_of(report):
    """Numbers of variables in a report of what is restored, by group."""
    return {
        group: int(line.split()[-2].replace(',', ''))
        for line in report.splitlines()
        for group in ('loaded', 'missing in', 'of another shape', 'excluded')
        if line.startswith(f'  {group}')
    }


def test_check_restores_the_published_backbone_of_a_classifier(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(backbones, 'get_backbone', shallow.PUBLISHED_BACKBONE)
    path = tiny_data.write_all(tmp_path)
    path.write_text(path.read_text().replace('mobilenet_v1', 'mobilenet_v2'))
    checkpoint = initial_values(path, tmp_path)
    flags = [
        f'--set=train_config.fine_tune_checkpoint={checkpoint}',
        '--set=train_config.fine_tune_checkpoint_type=classification',
    ]
    assert run(data, tmp_path / 'run', *flags, mode='check') == 0
    said = capsys.readouterr().out
    assert 'no problem found' in said and 'train_input_reader: 24 examples' in said
    names = [name for name, _ in tf.train.list_variables(checkpoint)]
    # The last two layers are the classifier's own.
    last = ('MobilenetV2/Logits/', 'MobilenetV2/Conv_1/')
    own = [name for name in names if not name.startswith(last)]
    assert f'Restore from {checkpoint}' in said and totals_of(said)['loaded'] == len(own) > 200
    assert 'MobilenetV2/Logits/Conv2d_1c_1x1/weights' in said[said.index('unused in the che') :]


def test_other_classes_need_new_last_layers(data, trained, tmp_path, capfd):
    flags = [
        f'--set=train_config.fine_tune_checkpoint={trained / "model.ckpt-60"}',
        '--set=model.segmentation.num_classes=5',
        '--set=train_config.initialize_last_layer=false',
    ]
    assert run(data, tmp_path, *flags, mode='check') == 0
    said = capfd.readouterr().out
    totals = totals_of(said)
    # The logits alone have another shape; all that is behind the backbone is new.
    assert totals['excluded'] > 0 and totals['loaded'] > 8
    assert totals['missing in'] == totals['of another shape'] == 0
    assert 'concat_projection/weights' in said[said.index('excluded (') :]


# Bad input.


RECORDS = {
    'label': ({'class/encoded': png(np.full([48, 48], 7))}, ['odd.png', '7', 'from 0 to 2']),
    'key': ({'class/encoded': None}, ['image/segmentation/class/encoded']),
}


@pytest.mark.parametrize('kind', sorted(RECORDS))
def test_a_bad_record_is_named(data, tmp_path, kind, capfd):
    changes, expected = RECORDS[kind]
    path = tmp_path / 'bad.tfrecord'
    with tf.io.TFRecordWriter(str(path)) as writer:
        image = tiny_segmentation.scene(np.random.RandomState(0))
        writer.write(tiny_segmentation.record(*image, 'odd.png', **changes))
    reader = f'--set=train_input_reader.tf_record_input_reader.input_path={path}'
    capfd.readouterr()
    assert run(data, tmp_path / 'run', reader) == 2
    said = capfd.readouterr().err
    assert all(text in said for text in [*expected, str(path)]), said
    assert 'Traceback' not in said


def test_a_bad_config_is_refused(data, tmp_path, capsys):
    field = 'model.segmentation.backbone.channel_divisor'
    assert run(data, tmp_path, f'--set={field}=0') == 2
    said = capsys.readouterr().err
    assert field in said and 'at least 1' in said and 'Traceback' not in said


def test_an_image_larger_than_the_evaluation_asks_for(data, tmp_path, capsys):
    crop = 'model { segmentation { evaluation { crop_height: 33 crop_width: 49 } } }'
    override = f'--config_override={crop}'
    assert run(data, tmp_path, override, mode='train_and_evaluate') == 2
    assert not list(tmp_path.glob('model.ckpt*'))  # before hours of training
    said = capsys.readouterr().err
    assert 'val_0.png' in said and '48 x 48 pixels' in said and 'crop_height: 49' in said
    assert 'Traceback' not in said
