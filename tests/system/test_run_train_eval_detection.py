"""Detection through the front door: trained, evaluated, exported, served, fine-tuned."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from model_fns.datasets import codecs
from tests import learning, served, sessions, tiny_detection
from tests.test_run_train_eval import NO_EXPORT, estimator_predictions, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

OUTPUTS = {
    'detection_boxes',
    'detection_scores',
    'detection_classes',
    'num_detections',
    'raw_detection_boxes',
    'raw_detection_scores',
    'detection_multiclass_scores',
    'detection_anchor_indices',
}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    tiny_detection.write_all(folder)
    return folder


@pytest.fixture(scope='module')
def trained(data, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp('run')
    with sessions.with_rewrites():
        config = f'--pipeline_config_path={data / "pipeline.config"}'
        assert front_door(f'--model_dir={model_dir}', config) == 0
    return model_dir


def images(count=3, seed=9):
    random = np.random.RandomState(seed)
    return np.stack([tiny_detection.scene(random)[0] for _ in range(count)])


def test_it_learns(trained):
    learning.require_falling_loss(trained)
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    assert metrics['DetectionBoxes_Precision/mAP@.50IOU'] >= 0
    assert {'Loss/localization_loss', 'Loss/classification_loss', 'Loss/total_loss'} <= set(metrics)


def check_analysis(folder, metrics, prefix='DetectionBoxes_'):
    """The analysis of a run agrees with its metrics, and names the record of each error."""
    with open(folder / 'classes.csv', newline='') as file:
        classes = list(csv.DictReader(file))
    for row in classes:
        expected = metrics.get(f'{prefix}PerformanceByCategory/mAP/{row["class"]}', np.nan)
        assert float(row['AP'] or 'nan') == pytest.approx(expected, abs=1e-5, nan_ok=True)
    known = [float(row['AP50']) for row in classes if row['AP50']]
    assert np.mean(known) == pytest.approx(metrics[f'{prefix}Precision/mAP@.50IOU'], abs=1e-5)
    check_files(folder)


def check_files(folder):
    """All files are there, and each error has the record of its image."""
    with open(folder / 'errors.csv', newline='') as file:
        errors = list(csv.DictReader(file))
    assert all(row['image'] == f'val_{row["record"]}' for row in errors)
    assert all(row['file'].endswith('val.tfrecord') for row in errors)
    names = {path.name for path in folder.iterdir()}
    assert {'report.html', 'error_types.csv', 'f1_score.png', 'labels.png', 'worst'} <= names
    worst = {path.stem.partition('_')[2] for path in (folder / 'worst').iterdir()}
    assert worst == {row['image'] for row in errors}


def test_the_last_evaluation_is_analyzed(trained):
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    assert [path.name for path in (trained / 'analysis').iterdir()] == ['100']
    check_analysis(trained / 'analysis' / '100', metrics)


def test_pictures_are_in_the_events_and_in_the_folder(data, trained):
    tags = set()
    for path in (trained / 'eval_0').glob('events*'):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags |= {value.tag for value in event.summary.value}
    assert {'examples/0', 'DetectionBoxes_Precision/mAP'} <= tags
    assert len(list((data / 'pictures').glob('*.png'))) == 2


@pytest.fixture(scope='module')
def predicted(trained):
    return estimator_predictions(trained, images())


def test_exports_detect_what_the_estimator_does(trained, predicted, tmp_path):
    """In the form that has most around the network; `tests.test_run_train_eval` has the others."""
    flags = [f'--model_dir={trained}', f'--export_dir={tmp_path}', '--input_type=tf_example']
    assert front_door('--mode=export', *flags) == 0
    got = served.answers(latest(tmp_path), images(), 'tf_example')
    assert set(got) == OUTPUTS
    served.require_close(got, predicted, 1e-4)
    assert set(got['detection_classes'].ravel()) <= {0.0, 1.0, 2.0}


def test_a_frozen_graph_detects_by_the_published_names(trained, tmp_path):
    flags = [f'--model_dir={trained}', f'--export_dir={tmp_path}', '--format=frozen_graph']
    assert front_door('--mode=export', *flags) == 0
    folder = latest(tmp_path)
    assert (folder / 'labels.txt').read_text().split() == ['green', 'blue']
    sent = images()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph_def = tf.compat.v1.GraphDef()
        graph_def.ParseFromString((folder / 'frozen_inference_graph.pb').read_bytes())
        tf.import_graph_def(graph_def, name='')
        names = ('boxes', 'classes', 'scores')
        fetches = [f'detection_{name}:0' for name in names] + ['num_detections:0']
        *found, counts = session.run(fetches, {'image_tensor:0': sent})
    expected = estimator_predictions(trained, sent)
    for name, value in zip(names, found):
        wanted = expected[f'detection_{name}']
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)
    assert counts.shape == (len(sent),)


def test_a_tflite_file_finds_what_the_estimator_does(trained, tmp_path):
    model = [f'--model_dir={trained}', f'--export_dir={tmp_path}', '--format=tflite']
    assert front_door('--mode=export', *model, '--quantize=int8', '--max_detections=4') == 0
    folder = latest(tmp_path)
    about = json.loads((folder / 'export.json').read_text())
    assert about['agreement']['outputs']['detections from 0.3 on'] > 0.8
    runner = tf.lite.Interpreter(str(folder / 'model.tflite')).get_signature_runner()
    expected = estimator_predictions(trained, images())
    for index, image in enumerate(images()):
        found = runner(image=image[np.newaxis])  # of the network's size, as it is
        assert found['detection_boxes'].shape == (1, 4, 4)
        # With 8 bits detections of nearly equal scores change places: the best one is one of the
        # estimator's.
        same = expected['detection_classes'][index] == found['detection_classes'][0, 0] + 1
        box = np.clip(found['detection_boxes'][0, 0], 0, 1)
        assert max(overlap(box, other) for other in expected['detection_boxes'][index][same]) > 0.6


def overlap(box, other):
    """Return the intersection over union of two boxes (ymin, xmin, ymax, xmax)."""
    sides = np.maximum(np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2]), 0)
    areas = [np.prod(one[2:] - one[:2]) for one in (box, other)]
    return np.prod(sides) / (sum(areas) - np.prod(sides))


def test_what_is_shown_is_what_the_evaluation_found_best(trained, tmp_path, caplog):
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    threshold = metrics['BestF1@.50IOU/score_threshold']
    assert 0 < threshold < 1
    for index, image in enumerate(images(6)):
        (tmp_path / f'{index}.png').write_bytes(codecs.encode_png(image))

    def scores(name, *flags):
        out = tmp_path / name
        flags = [f'--images={tmp_path}/*.png', f'--output_dir={out}', *flags]
        assert front_door('--mode=predict', *flags) == 0
        found = json.loads((out / 'predictions.json').read_text())
        return [row['score'] for image in found.values() for row in image['detections']]

    export = f'--saved_model_dir={latest(trained / "export" / "final")}'
    every = scores('all', export, '--score_threshold=0')
    best = [score for score in every if score >= threshold]
    assert 0 < len(best) < len(every)
    assert scores('exported', export) == best
    # What the run and the copy of its best checkpoint have beside the weights.
    of_run = f'--model_dir={trained}'
    assert len(scores('run', of_run)) == len(best)
    assert len(scores('best', of_run, f'--checkpoint_path={trained / "best"}')) == len(best)
    # A config's own threshold comes first.
    own = scores('own', of_run, '--set=eval_config.min_score_threshold=0')
    assert len(own) == len(every)


def test_predict_finds_the_squares_and_draws_them(trained, tmp_path):
    for index, image in enumerate(images(2)):
        (tmp_path / f'{index}.png').write_bytes(codecs.encode_png(image))
    status = front_door(
        '--mode=predict',
        f'--saved_model_dir={trained / "export" / "best"}',
        f'--images={tmp_path}/*.png',
        f'--output_dir={tmp_path / "out"}',
        '--score_threshold=0.01',
    )
    assert status == 0
    predictions = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    assert len(predictions) == 2
    for one in predictions.values():
        assert (one['height'], one['width']) == (64, 64)
        assert one['detections'][0]['score'] > 0.2
        assert {found['class'] for found in one['detections']} <= {'green', 'blue'}
    assert len(list((tmp_path / 'out').glob('*.png'))) == 2


@pytest.mark.parametrize(
    'checkpoint_type, loaded', [('detection', True), ('classification', False)]
)
def test_fine_tuning_onto_other_classes(data, trained, tmp_path, checkpoint_type, loaded, capfd):
    status = front_door(
        '--mode=train',
        f'--model_dir={tmp_path}',
        f'--pipeline_config_path={data / "pipeline.config"}',
        '--num_train_steps=1',
        '--set=model.ssd.num_classes=5',
        NO_EXPORT,
        '--set=train_input_reader.label_map_path=',
        f'--set=train_config.fine_tune_checkpoint={trained / "model.ckpt-100"}',
        f'--set=train_config.fine_tune_checkpoint_type={checkpoint_type}',
    )
    said = capfd.readouterr().err
    if loaded:
        assert status == 0, said
        before = tf.train.load_variable(
            str(trained / 'model.ckpt-100'), 'FeatureExtractor/MobilenetV1/Conv2d_0/weights'
        )
        after = tf.train.load_variable(
            str(tmp_path), 'FeatureExtractor/MobilenetV1/Conv2d_0/weights'
        )
        # One step of Adam moves a weight by at most its learning rate.
        assert np.abs(after - before).max() < 0.02
    else:
        # A detector's checkpoint has no variables without the extractor's scope.
        assert status == 2 and 'FeatureExtractor' in said


def test_what_the_label_map_and_the_model_disagree_on_is_said(data, tmp_path, capsys):
    status = front_door(
        f'--model_dir={tmp_path}',
        f'--pipeline_config_path={data / "pipeline.config"}',
        '--set=model.ssd.num_classes=1',
    )
    said = capsys.readouterr().err
    assert status == 2 and 'blue' in said and 'Traceback' not in said


def test_check_refuses_training_on_images_without_objects(data, tmp_path, capsys):
    path = tmp_path / 'empty.tfrecord'
    with tf.io.TFRecordWriter(str(path)) as writer:
        (records,) = data.glob('val*.tfrecord')
        for record in tf.compat.v1.io.tf_record_iterator(str(records)):
            example = tf.train.Example.FromString(record)
            for name in list(example.features.feature):
                if name.startswith('image/object/'):
                    del example.features.feature[name]
            writer.write(example.SerializeToString())
    field = 'train_input_reader.tf_record_input_reader.input_path'
    flags = [f'--pipeline_config_path={data / "pipeline.config"}', f'--set={field}=["{path}"]']
    assert front_door('--mode=check', *flags) == 2
    said = capsys.readouterr()
    assert 'train_input_reader: there are no objects of any of the 2 classes' in said.err
    assert 'augmentation in training: random_horizontal_flip\n' in said.out
