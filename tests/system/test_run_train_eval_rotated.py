"""Rotated detection through the front door: trained, evaluated, exported, served."""

import contextlib
import csv
import json
import math

import numpy as np
import pytest

from model_fns.datasets import codecs
from model_fns.structures import rotated_overlaps, rotated_rectangles
from tests import learning, served, sessions, tiny_rotated
from tests.system.test_run_train_eval_detection import check_files
from tests.test_run_train_eval import estimator_predictions, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

MAP = 'RotatedBoxes_Precision/mAP@0.5IOU'
STEPS = 60
# Anchors of one size for each place and angle: they compute half of what those of two do.
ONE_SIZE = 'model.ssd.anchor_generator.multiscale_anchor_generator.scales_per_octave=1'


def run_of(folder, stages, steps, *settings):
    """The folder of a run that has been trained and evaluated."""
    config = tiny_rotated.write_all(folder, stages)
    if stages:  # exported by command alone
        config.write_text(config.read_text().partition('export_config')[0])
        settings = [*settings, 'export_config.final.enabled=false', 'eval_config.analyze=false']
    flags = [f'--model_dir={folder / "run"}', f'--pipeline_config_path={config}']
    settings = [f'train_config.checkpoints.save_every_n_steps={steps}', *settings]
    flags += [f'--num_train_steps={steps}', *(f'--set={setting}' for setting in settings)]
    # One stage rewrites its graphs as for users. What two stages add does so without rotation, in
    # `test_run_train_eval_two_stage`.
    with contextlib.nullcontext() if stages else sessions.with_rewrites():
        assert front_door(*flags) == 0
    return folder / 'run'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp('rotated'), 0, STEPS, ONE_SIZE)


@pytest.fixture(scope='module')
def two_stages(tmp_path_factory):
    # At a tenth of the rate of one stage: at that the losses of two grow. And all boxes are shown,
    # whatever scores so few steps give them.
    rate = 'train_config.optimizer.adam_optimizer.learning_rate.constant_learning_rate'
    suppression = 'second_stage_post_processing.batch_non_max_suppression'
    return run_of(
        tmp_path_factory.mktemp('two_stages'),
        2,
        30,
        f'{rate}.learning_rate=0.001',
        f'model.faster_rcnn.{suppression}.score_threshold=0',
    )


def images(count=2, seed=9):
    random = np.random.RandomState(seed)
    return np.stack([tiny_rotated.scene(random)[0] for _ in range(count)])


def test_it_learns(trained):
    learning.require_falling_loss(trained)
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    assert metrics[MAP] >= 0
    assert 'RotatedBoxes_PerformanceByCategory/AP11@0.5IOU/green' in metrics


def test_the_last_evaluation_is_analyzed(trained):
    folder = trained / 'analysis' / str(STEPS)
    with open(folder / 'classes.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    # COCO's rule and Pascal VOC's differ, by less than this where many objects are found.
    found = [float(row['AP50']) for row in rows if row['AP50']]
    assert np.mean(found) == pytest.approx(metrics[MAP], abs=0.1)
    check_files(folder)


def test_an_export_detects_what_the_estimator_does(trained, tmp_path):
    check_export(trained, tmp_path, most=10)


def test_two_stages_learn_and_export_what_the_estimator_detects(two_stages, tmp_path):
    metrics = json.loads((two_stages / 'metrics.json').read_text())['0']
    losses = {name for name in metrics if name.startswith('Loss/BoxClassifierLoss/')}
    assert len(losses) == 2 and MAP in metrics
    # Of an untrained model it is the logarithm of 2.
    assert 0 < metrics['Loss/RPNLoss/objectness_loss'] < 0.8 * math.log(2)
    check_export(two_stages, tmp_path, most=6)


def check_export(model_dir, tmp_path, most):
    """An export's answers are the Estimator's, and boxes are those around their corners."""
    assert front_door('--mode=export', f'--model_dir={model_dir}', f'--export_dir={tmp_path}') == 0
    got = served.answers(latest(tmp_path), images())
    assert got['detection_boxes'].shape == (2, most, 5)
    assert got['detection_corners'].shape == (2, most, 8)
    assert got['num_detections'].min() > 0
    served.require_close(got, estimator_predictions(model_dir, images()))
    served.require_clients(latest(tmp_path), images(), got)
    # The numbers, with the sides of the image as it came, are the smallest box around the corners,
    # which other proportions of the input have made a parallelogram.
    size = tiny_rotated.HEIGHT, tiny_rotated.WIDTH
    for boxes, corners, count in zip(
        got['detection_boxes'], got['detection_corners'], got['num_detections'].astype(int)
    ):
        found = rotated_rectangles.from_record(boxes[:count], *size)
        points = corners[:count].reshape([-1, 4, 2]) * size
        expected_boxes = np.array([rotated_rectangles.smallest_around(one) for one in points])
        overlaps = rotated_overlaps.iou(
            rotated_rectangles.corners(found), rotated_rectangles.corners(expected_boxes)
        )
        np.testing.assert_allclose(np.diag(overlaps), np.ones(count), atol=1e-3)
        assert np.all(np.abs(boxes[:, 4]) <= math.pi / 2 + 1e-6)


def test_predict_writes_corners_and_pictures(trained, tmp_path):
    for index, image in enumerate(images()):
        (tmp_path / f'{index}.png').write_bytes(codecs.encode_png(image))
    flags = [
        '--mode=predict',
        f'--saved_model_dir={trained / "export" / "best"}',
        f'--images={tmp_path}/*.png',
        f'--output_dir={tmp_path / "out"}',
        '--score_threshold=0.01',
    ]
    assert front_door(*flags) == 0
    predictions = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    of_first = next(iter(predictions.values()))['detections'][0]
    box = [of_first[name] for name in ('cy', 'cx', 'h', 'w', 'angle')]
    written = [of_first[f'{axis}{place}'] for place in range(1, 5) for axis in 'xy']
    around = rotated_rectangles.smallest_around(np.reshape(written, [4, 2])[:, ::-1])
    np.testing.assert_allclose(
        rotated_overlaps.iou(
            rotated_rectangles.corners(np.array([box])), rotated_rectangles.corners(around[None])
        ),
        [[1]],
        atol=0.02,
    )
    assert len(list((tmp_path / 'out').glob('*.png'))) == 2
    assert front_door(*flags, '--output_format=csv') == 0
    header = next((tmp_path / 'out').glob('*.csv')).read_text().splitlines()[0]
    assert header.endswith('cy,cx,h,w,angle,x1,y1,x2,y2,x3,y3,x4,y4')
    assert front_door(*flags, '--output_format=coco') == 0
