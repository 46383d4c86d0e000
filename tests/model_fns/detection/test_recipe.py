"""Decisions of detectors, by hand."""

import types

import numpy as np
import pytest
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.detection import recipe
from model_fns.detection.networks import torchvision_weights
from model_fns.recipes import writing
from protos import pipeline_pb2
from tests import tiny_detection, tiny_rotated, tiny_two_stage
from tests.model_fns.recipes.test_tiles import facts_of

pytestmark = pytest.mark.usefixtures('shallow_networks')


@pytest.mark.parametrize(
    ('objects', 'affordable', 'side', 'reason'),
    [
        # All objects have 0.5 of the side: 32 pixels of them need 64.
        (0.5, 512.0, 256.0, 'The usual area, of 256 x 256 pixels; 95 % of the objects have more'),
        # 32 pixels of 0.1 need 320, for which there is time, or not.
        (0.1, 512.0, 320.0, '95 % of the objects have 32 pixels or more with 320 x 320 pixels'),
        (0.1, 300.0, 300.0, 'The time pays for 300 x 300 pixels; 95 % of the objects have more'),
        (0.1, None, 256.0, 'The usual area'),
        # 8 pixels of 0.02 need 400, whatever the time.
        (0.02, None, 400.0, '400 pixels give 95 % of the objects 8 or more'),
        (0.002, None, 640.0, '4000 pixels give 95 % of the objects 8 or more; 640 is the most'),
    ],
)
def test_the_input_shows_the_objects(objects, affordable, side, reason):
    found, why = recipe.input_side(np.full([40], objects), 256.0, affordable, (1080, 1920))
    assert found == pytest.approx(side) and why.startswith(reason)


def test_small_images_are_enlarged_at_most_to_twice_their_sides():
    side, _ = recipe.input_side(np.full([4], 0.01), 256.0, None, (200, 200))
    assert side == 400.0


def test_without_objects_the_time_decides():
    assert recipe.input_side(np.zeros([0]), 256.0, 400.0, (900, 900))[0] == 256.0


@pytest.mark.parametrize(
    'number, task, config',
    [
        (0, 'detection', 'torchvision_retinanet_resnet50'),
        (1, 'keypoints', 'torchvision_keypoint_rcnn_resnet50'),
        (2, 'detection', 'torchvision_faster_rcnn_resnet50'),
    ],
)
def test_weights_of_torchvision_have_configs(number, task, config, monkeypatch):
    start = types.SimpleNamespace(family=torchvision_weights.families('a.pth')[number])
    monkeypatch.setattr(recipe.checkpoint_files, 'resolve_start', lambda path, where: path)
    monkeypatch.setattr(recipe.checkpoint_files, 'open_checkpoint', lambda path: start)
    assert recipe.base_config(task, 'a.pth') == config
    with pytest.raises(errors.UserError, match=f'a.pth: those of .* are for --task={task}'):
        recipe.base_config('segmentation', 'a.pth')


def set_eval_tiles(config):
    config.eval_input_reader[0].tiles.size = 320


def set_keypoints(config):
    config.eval_input_reader[0].num_keypoints = 3


def stop_by_loss(config):
    config.train_config.early_stopping.metric = 'loss'


def choose_by_loss(config):
    config.export_config.best.metric = 'Loss/total_loss'


def choose_by_precision(config):
    config.export_config.best.metric = 'DetectionBoxes_Precision/mAP'


def rotate(config):
    text = tiny_rotated.config_text('')
    config.model.CopyFrom(text_format.Parse(text, type(config)()).model)


def remember(config):
    text = tiny_two_stage.CONTEXT.format(stages=2)
    config.model.CopyFrom(text_format.Parse(text, type(config)()).model)


def tile_already(config):
    config.eval_config.tiles.size, config.eval_config.tiles.whole_image = 1024, True


@pytest.mark.parametrize(
    ('change', 'are_cut'),
    [
        (choose_by_precision, True),
        (set_eval_tiles, False),
        (set_keypoints, False),
        (stop_by_loss, False),
        (choose_by_loss, False),
        (rotate, False),
        (remember, False),
        (tile_already, False),
    ],
)
def test_a_users_config_gets_tiles_where_it_may_have_them(change, are_cut, tmp_path):
    """The median object has 1.3 pixels of 64."""
    text = tiny_detection.config_text(tmp_path)
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    config.train_input_reader.voc_input_reader.image_path.append('images')
    change(config)
    before = type(config.eval_config.tiles)()
    before.CopyFrom(config.eval_config.tiles)
    model = getattr(config.model, config.model.WhichOneof('model'))
    resizer = model.image_resizer.fixed_shape_resizer
    resizer.height = resizer.width = 64
    changed = writing.Recipe(config)
    facts = facts_of(0.02)
    if change is rotate:
        rows = np.array([[0.5, 0.5, 0.02, 0.02, 0.1]] * 10)
        facts = facts._replace(train=[image._replace(rotated=rows) for image in facts.train])
    recipe.improve(changed, facts)
    assert (changed.config.eval_config.tiles != before) == are_cut
    assert bool(changed.config.train_input_reader.tiles.size) == are_cut
    # Nothing is advised that is refused.
    if change in (set_keypoints, remember):
        assert not any('tile' in warning for warning in changed.warnings)


def test_no_size_is_assumed_of_inputs_that_have_none(tmp_path):
    text = tiny_detection.config_text(tmp_path)
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    model = getattr(config.model, config.model.WhichOneof('model'))
    model.image_resizer.identity_resizer.SetInParent()
    assert not recipe.list_warnings(writing.Recipe(config), facts_of(0.001))
