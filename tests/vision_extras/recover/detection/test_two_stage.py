"""Round trips of two-stage detectors: artifact -> config and checkpoint."""

import pathlib

import pytest

from estimator_lib import errors
from protos import input_reader_pb2
from tests import tiny_two_stage
from tests.vision_extras.recover import recovered

ANCHORS = 'scales: [0.25, 0.5, 1, 2] aspect_ratios: [0.5, 1, 2]'
# Of losses and training.
UNTOLD = (
    'regularizer', 'initializer', 'first_stage_localization_loss_weight',
    'first_stage_objectness_loss_weight', 'second_stage_localization_loss_weight',
    'second_stage_classification_loss_weight', 'second_stage_batch_size',
    'second_stage_balance_fraction', 'first_stage_minibatch_size', 'batch_norm_trainable',
    'clip_anchors_to_image', 'use_dropout', 'dropout_keep_probability',
    'first_stage_anchor_generator', 'second_stage_mask_prediction_loss_weight',
)  # fmt: skip


# Outputs that masks may have besides.
OUTPUTS = ('output_reframed_masks', 'output_final_box_features')


def told(config, without=()):
    fields = recovered.plain(recovered.with_defaults(config.model), without=(*UNTOLD, *without))
    return recovered.flat(fields)


@pytest.fixture(scope='module')
def round_trip(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('two_stage'))
    config, path = recovered.freeze(tiny_two_stage.MODEL.format(stages=2), folder)
    return config, *recovered.recover(path, folder)


def test_recovered_config_equals_the_original(round_trip):
    config, _, found = round_trip
    assert told(found) == told(config)


def test_anchors_are_those_of_the_original(round_trip):
    _, _, found = round_trip
    grid = found.model.faster_rcnn.first_stage_anchor_generator.grid_anchor_generator
    sides = [round(256 * scale, 3) for scale in grid.scales]
    assert sides == [14.001, 20.001] or sides == [14.0, 20.0]
    assert (grid.height_stride, grid.height_offset) == (16, 8)


def test_masks_equal_the_original(tmp_path):
    text = tiny_two_stage.MASKS.format(stages=3)
    text = text.replace(
        'mask_prediction_conv_depth',
        'mask_prediction_num_conv_layers: 3 mask_prediction_conv_depth',
    )
    config, path = recovered.freeze(text, str(tmp_path))
    files, found = recovered.recover(path, str(tmp_path))
    assert told(found, OUTPUTS) == told(config, OUTPUTS)
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert '* detection_masks: ' in report and '* raw_detection_scores: ' in report


@pytest.fixture(scope='module')
def pyramid(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('pyramid'))
    text = tiny_two_stage.INSTANCES.format(stages=3)
    config, path = recovered.freeze(text, folder, deviation=0.2)
    return config, *recovered.recover(path, folder)


def test_pyramid_with_masks_and_keypoints_equals_the_original(pyramid):
    config, files, found = pyramid
    assert told(found, ('decay',)) == told(config, ('decay',))
    assert found.train_input_reader.num_keypoints == 3
    anchors = [each.model.faster_rcnn.first_stage_anchor_generator for each in (found, config)]
    assert recovered.plain(anchors[0]) == recovered.plain(anchors[1])
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    for output in ('raw_detection_scores', 'detection_masks', 'detection_keypoint_scores'):
        assert f'* {output}: ' in report


def test_position_sensitive_heads_equal_the_original(tmp_path):
    text = tiny_two_stage.POSITION_SENSITIVE.format(stages=2)
    config, path = recovered.freeze(text, str(tmp_path))
    found = recovered.recover(path, str(tmp_path))[1]
    crops = ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride')
    assert told(found, crops) == told(config, crops)


def test_heads_of_another_kind_are_refused(tmp_path):
    text = tiny_two_stage.MODEL.format(stages=1)
    prefix = recovered.write_checkpoint(text, str(tmp_path))[-1]
    with pytest.raises(errors.UserError, match='its second stage is neither that of Faster R-CNN'):
        recovered.recover(prefix, str(tmp_path))


@pytest.fixture(scope='module')
def masks_checkpoint(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('masks'))
    text = tiny_two_stage.MASKS.format(stages=3)
    text = text.replace('scales: 0.7 scales: 1.0 aspect_ratios: 1.0', ANCHORS)
    config, _, prefix = recovered.write_checkpoint(text, folder)
    return config, prefix, *recovered.recover(prefix, folder)


def test_checkpoint_has_the_published_sizes(masks_checkpoint):
    config, _, _, found = masks_checkpoint
    model = found.model.faster_rcnn
    assert model.feature_extractor.type == config.model.faster_rcnn.feature_extractor.type
    assert (model.initial_crop_size, model.maxpool_kernel_size) == (14, 2)
    assert model.image_resizer.keep_aspect_ratio_resizer.min_dimension == 800
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    assert (head.mask_height, head.mask_prediction_conv_depth) == (33, 8)


def test_readers_load_masks(masks_checkpoint):
    *_, found = masks_checkpoint
    readers = [found.train_input_reader, *found.eval_input_reader]
    told = [(reader.load_instance_masks, reader.mask_type) for reader in readers]
    assert told == [(True, input_reader_pb2.PNG_MASKS)] * 2


def test_checkpoint_keeps_its_variables(masks_checkpoint):
    _, prefix, files, _ = masks_checkpoint
    values, original = map(recovered.read_checkpoint, (files.checkpoint, prefix))
    assert set(values) - {'global_step'} == set(original) - {'global_step'}


def test_checkpoint_with_other_anchors_is_refused(tmp_path):
    prefix = recovered.write_checkpoint(tiny_two_stage.MODEL.format(stages=2), str(tmp_path))[-1]
    with pytest.raises(errors.UserError, match='its 2 anchors of a cell are not the published 12'):
        recovered.recover(prefix, str(tmp_path))
