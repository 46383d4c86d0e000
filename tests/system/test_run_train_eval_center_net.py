"""CenterNet through the front door: trained, evaluated, exported, served."""

import json

import numpy as np
import pytest

from tests import learning, served, sessions, tiny_center_net, tiny_detection
from tests.test_run_train_eval import estimator_predictions, front_door, latest

MAP = 'DetectionBoxes_Precision/mAP@.50IOU'
# One evaluation. What analyzes boxes is seen in `test_run_train_eval_detection`.
SETTINGS = (
    '--set=train_config.checkpoints.save_every_n_steps=60',
    '--set=eval_config.analyze=false',
)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('center_net')
    config = tiny_center_net.write_all(folder)
    model_dir = folder / 'run'
    flags = [f'--model_dir={model_dir}', f'--pipeline_config_path={config}']
    with sessions.with_rewrites():
        assert front_door(*flags, *SETTINGS) == 0
    return model_dir


def test_it_learns(trained):
    learning.require_falling_loss(trained)
    metrics = json.loads((trained / 'metrics.json').read_text())['0']
    assert metrics[MAP] >= 0
    assert metrics['Loss/object_center'] > 0
    assert {'Loss/box/scale', 'Loss/box/offset'} <= set(metrics)


def test_an_export_detects_what_the_estimator_does(trained, tmp_path):
    flags = [f'--model_dir={trained}', f'--export_dir={tmp_path}', '--input_type=image_tensor']
    assert front_door('--mode=export', *flags) == 0
    random = np.random.RandomState(9)
    images = np.stack([tiny_detection.scene(random)[0] for _ in range(2)])
    got = served.answers(latest(tmp_path), images)
    assert set(got) == {
        'detection_boxes',
        'detection_boxes_strided',
        'detection_classes',
        'detection_multiclass_scores',
        'detection_scores',
        'num_detections',
    }
    assert got['num_detections'].min() > 0
    served.require_close(got, estimator_predictions(trained, images))
    served.require_clients(latest(tmp_path), images, got)
