"""Round trips of two-stage detectors: artifact -> config and checkpoint."""

import pytest

from estimator_lib import errors
from tests import recovered, tiny_two_stage

# Of losses and training.
UNTOLD = (
    'regularizer', 'initializer', 'first_stage_localization_loss_weight',
    'first_stage_objectness_loss_weight', 'second_stage_localization_loss_weight',
    'second_stage_classification_loss_weight', 'second_stage_batch_size',
    'second_stage_balance_fraction', 'first_stage_minibatch_size', 'batch_norm_trainable',
    'clip_anchors_to_image', 'use_dropout', 'dropout_keep_probability',
    'first_stage_anchor_generator',
)  # fmt: skip


@pytest.fixture(scope='module')
def round_trip(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('two_stage'))
    config, path = recovered.freeze(tiny_two_stage.MODEL.format(stages=2), folder)
    return config, *recovered.recover(path, folder)


def test_recovered_config_equals_the_original(round_trip):
    config, _, found = round_trip
    expected, told = (
        recovered.flat(recovered.plain(recovered.with_defaults(each.model), without=UNTOLD))
        for each in (config, found)
    )
    assert told == expected


def test_anchors_are_those_of_the_original(round_trip):
    _, _, found = round_trip
    grid = found.model.faster_rcnn.first_stage_anchor_generator.grid_anchor_generator
    sides = [round(256 * scale, 3) for scale in grid.scales]
    assert sides == [14.001, 20.001] or sides == [14.0, 20.0]
    assert (grid.height_stride, grid.height_offset) == (16, 8)


def test_masks_are_refused(tmp_path):
    text = tiny_two_stage.MASKS.format(stages=3)
    _, path = recovered.freeze(text, str(tmp_path))
    with pytest.raises(errors.UserError, match='predicts masks, which is not supported'):
        recovered.recover(path, str(tmp_path))
