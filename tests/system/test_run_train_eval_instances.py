"""Masks and keypoints of a two-stage detector with a feature pyramid, through the front door."""

import json

import numpy as np
import pytest
from PIL import Image

from tests import served, tiny_two_stage
from tests.system.test_run_train_eval_detection import OUTPUTS, images
from tests.test_run_train_eval import NO_EXPORT, estimator_predictions, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

NAMES = ('detection_masks', 'detection_keypoints', 'detection_keypoint_scores')


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder, model_dir = tmp_path_factory.mktemp('data'), tmp_path_factory.mktemp('run')
    config = tiny_two_stage.write_instances(folder)
    flags = [f'--model_dir={model_dir}', f'--pipeline_config_path={config}', NO_EXPORT]
    assert front_door(*flags, '--num_train_steps=10') == 0
    return model_dir, folder


def test_evaluations_have_the_losses_and_metrics_of_both(trained):
    metrics = json.loads((trained[0] / 'metrics.json').read_text())['0']
    # A heat map of 24 x 24 cells; after so few steps it has learned next to nothing. Where no
    # proposal matches an object, which few steps do not decide, both losses are 0.
    assert 0 <= metrics['Loss/BoxClassifierLoss/keypoint_loss'] < 1.5 * np.log(24 * 24)
    assert 0 <= metrics['Loss/BoxClassifierLoss/mask_loss'] < 2.0
    assert 'DetectionMasks_Precision/mAP@.50IOU' in metrics
    assert 'Keypoints_Precision/mAP ByCategory/green' in metrics
    assert 'Keypoints_Precision/mAP ByCategory/blue' not in metrics


def test_pictures_are_drawn(trained):
    assert list((trained[1] / 'pictures').rglob('*.png'))


@pytest.fixture(scope='module')
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp('export')
    flags = [f'--model_dir={trained[0]}', f'--export_dir={folder}', '--input_type=image_tensor']
    assert front_door('--mode=export', *flags) == 0
    return latest(folder)


def test_an_export_detects_what_the_estimator_does(trained, exported):
    got = served.answers(exported, images())
    assert set(got) == OUTPUTS | set(NAMES)
    served.require_close(got, estimator_predictions(trained[0], images()))
    served.require_clients(exported, images(), got)
    valid = np.arange(6) < got['num_detections'][:, np.newaxis]
    assert valid.any()
    near, far = np.split(got['detection_boxes'][:, :, np.newaxis], 2, axis=-1)
    points = got['detection_keypoints']
    assert points.shape == (3, 6, 3, 2)
    assert ((points >= near) & (points <= far))[valid].all()
    assert (got['detection_keypoint_scores'][valid] > 0).all()
    assert not points[~valid].any() and not got['detection_keypoint_scores'][~valid].any()


def test_predictions_have_keypoints(exported, tmp_path):
    Image.fromarray(images(1)[0]).save(tmp_path / 'image.png')
    flags = [f'--images={tmp_path}/image.png', f'--output_dir={tmp_path}/out']
    flags += [f'--saved_model_dir={exported}', '--score_threshold=0.0']
    assert front_door('--mode=predict', *flags) == 0
    (found,) = json.loads((tmp_path / 'out' / 'predictions.json').read_text()).values()
    assert found['detections']
    for detection in found['detections']:
        assert len(detection['keypoints']) == 3
        for y, x in detection['keypoints']:
            assert detection['ymin'] - 0.01 <= y <= detection['ymax'] + 0.01
            assert detection['xmin'] - 0.01 <= x <= detection['xmax'] + 0.01
