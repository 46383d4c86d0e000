"""Two-stage detection through the front door: trained, evaluated, exported, served."""

import contextlib
import json

import numpy as np
import pycocotools.mask
import pytest
import tensorflow as tf

from model_fns.datasets import codecs
from model_fns.detection.detections import masks
from tests import served, sessions, tiny_two_stage
from tests.system.test_run_train_eval_detection import OUTPUTS, check_analysis, images
from tests.test_run_train_eval import NO_EXPORT, estimator_predictions, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
# Enough to leave the loss of an untrained model.
STEPS = 30


# The third stage stands on the second, whose parts are looked at by themselves elsewhere.
@pytest.fixture(scope='module', params=[1, 3], ids=['one stage', 'masks'])
def trained(request, tmp_path_factory):
    folder, model_dir = tmp_path_factory.mktemp('data'), tmp_path_factory.mktemp('run')
    config = tiny_two_stage.write_all(folder, request.param)
    # The run itself exports nothing: what is compared below is exported by command.
    config.write_text(config.read_text().partition('export_config')[0])
    flags = [f'--model_dir={model_dir}', f'--pipeline_config_path={config}', NO_EXPORT]
    # Three stages, whose graphs have all that one stage has, rewrite them as for users.
    with sessions.with_rewrites() if request.param == 3 else contextlib.nullcontext():
        assert front_door(*flags, f'--num_train_steps={STEPS}') == 0
    return model_dir, request.param


def outputs_of(stages):
    return {
        1: OUTPUTS - {'detection_anchor_indices'},
        3: OUTPUTS | {'detection_masks', 'detection_masks_reframed', 'detection_features'},
    }[stages]


def test_evaluations_have_the_losses_of_the_stages(trained):
    model_dir, stages = trained
    metrics = json.loads((model_dir / 'metrics.json').read_text())['0']
    losses = {name for name in metrics if name.startswith('Loss/')}
    expected = {'Loss/RPNLoss/localization_loss', 'Loss/RPNLoss/objectness_loss'}
    if stages > 1:
        expected |= {
            'Loss/BoxClassifierLoss/localization_loss',
            'Loss/BoxClassifierLoss/classification_loss',
        }
    if stages > 2:
        expected.add('Loss/BoxClassifierLoss/mask_loss')
    assert losses == {*expected, 'Loss/total_loss'}
    # Of an untrained model it is the logarithm of 2. After so few steps processors differ by a
    # tenth of that.
    assert 0 < metrics['Loss/RPNLoss/objectness_loss'] < 0.8 * np.log(2)
    assert 'DetectionBoxes_Precision/mAP@.50IOU' in metrics
    assert ('DetectionMasks_Precision/mAP@.50IOU' in metrics) == (stages == 3)
    # -1 where no masks were compared.
    assert metrics.get('DetectionMasks_Recall/AR@100 (small)', 0.0) >= 0.0


def test_the_last_evaluation_is_analyzed(trained):
    model_dir, stages = trained
    metrics = json.loads((model_dir / 'metrics.json').read_text())['0']
    prefix = 'DetectionMasks_' if stages == 3 else 'DetectionBoxes_'
    check_analysis(model_dir / 'analysis' / str(STEPS), metrics, prefix)


def test_tiles_of_a_large_image_are_merged_with_their_masks(trained, tmp_path):
    model_dir, stages = trained
    image = np.concatenate([np.concatenate(list(images()[:2]), axis=1)] * 2)
    (tmp_path / 'large.png').write_bytes(codecs.encode_png(image))
    flags = [f'--images={tmp_path}/large.png', f'--output_dir={tmp_path / "out"}']
    flags += ['--tile=64', '--overlap=24', '--whole_image', '--output_format=coco']
    assert front_door('--mode=predict', f'--model_dir={model_dir}', *flags) == 0
    results = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    assert results and all(('segmentation' in one) == (stages == 3) for one in results)
    if stages == 3:
        for one in results:
            mask = pycocotools.mask.decode(one['segmentation'])
            left, top, width, height = one['bbox']
            assert mask.shape == image.shape[:2]
            # Masks stay in their boxes; see `masks.paste_masks` for the pixel.
            mask[
                max(int(top) - 1, 0) : int(top + height) + 2,
                max(int(left) - 1, 0) : int(left + width) + 2,
            ] = 0
            assert not mask.any()


def test_an_export_detects_what_the_estimator_does(trained, tmp_path):
    model_dir, stages = trained
    assert front_door('--mode=export', f'--model_dir={model_dir}', f'--export_dir={tmp_path}') == 0
    got = served.answers(latest(tmp_path), images())
    assert set(got) == outputs_of(stages)
    served.require_close(got, estimator_predictions(model_dir, images()))
    valid = np.arange(got['detection_scores'].shape[1]) < got['num_detections'][:, np.newaxis]
    classes = {1.0} if stages == 1 else {1.0, 2.0}
    assert set(got['detection_classes'][valid]) <= classes
    assert got['detection_boxes'].min() >= 0 and got['detection_boxes'].max() <= 1
    if stages == 3:
        ours = masks.paste_masks(got['detection_masks'], got['detection_boxes'], 64, 64, 0.5)
        np.testing.assert_array_equal(got['detection_masks_reframed'], ours)
        assert got['detection_masks'].shape[2:] == (7, 9)
        assert got['detection_features'].shape[:2] == valid.shape
        assert not got['detection_features'][~valid].any()


def test_both_extractors_start_from_the_backbone_of_a_single_shot_detector(trained, tmp_path):
    model_dir, stages = trained
    if stages == 1:
        pytest.skip('three stages have the extractors of all')
    reader = tf.train.load_checkpoint(str(model_dir / f'model.ckpt-{STEPS}'))
    scopes = ('FirstStageFeatureExtractor', 'SecondStageFeatureExtractor')
    # The second stage's layers stand behind the first's: one network, in a single-shot detector.
    wholes = {}
    for name in reader.get_variable_to_shape_map():
        scope, _, rest = name.partition('/')
        if scope in scopes and not name.endswith('/Momentum'):
            wholes[f'FeatureExtractor/{rest}'] = reader.get_tensor(name) + 1.0
    with tf.Graph().as_default(), tf1.Session() as session:
        made = {name: tf1.Variable(value) for name, value in wholes.items()}
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver(made).save(session, str(tmp_path / 'ssd'), write_meta_graph=False)
    names = ''.join(
        f'checkpoint_names {{ variable: "{scope}/*" name: "FeatureExtractor/*" }}'
        for scope in scopes
    )
    status = front_door(
        f'--model_dir={tmp_path / "run"}',
        f'--pipeline_config_path={model_dir / "pipeline.config"}',
        '--mode=train',
        NO_EXPORT,
        '--num_train_steps=1',
        f'--set=train_config.fine_tune_checkpoint={tmp_path / "ssd"}',
        '--set=train_config.fine_tune_checkpoint_type=detection',
        '--set=train_config.optimizer.momentum_optimizer.learning_rate.constant_learning_rate'
        '.learning_rate=1e-9',
        f'--config_override=train_config {{ {names} min_restored_fraction: 0.2 }}',
    )
    assert status == 0
    found = tf.train.load_checkpoint(str(tmp_path / 'run'))
    for scope in scopes:
        name = next(
            one
            for one in sorted(found.get_variable_to_shape_map())
            if one.startswith(f'{scope}/') and one.endswith('weights')
        )
        expected = wholes[name.replace(scope, 'FeatureExtractor')]
        np.testing.assert_allclose(found.get_tensor(name), expected, atol=1e-5)
