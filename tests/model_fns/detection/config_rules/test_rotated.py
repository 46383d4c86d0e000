import collections

import pytest
from google.protobuf import text_format

import model_fns
from estimator_lib import errors
from estimator_lib.config import message_checks
from estimator_lib.config.section import Section
from model_fns.detection import rules
from protos import pipeline_pb2
from tests import tiny_detection, tiny_rotated

ROTATED = tiny_rotated.config_text('folder')
AXIS_ALIGNED = tiny_detection.config_text('folder')


def config_of(text, more=''):
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    return text_format.Merge(more, config)


def find_problems(config):
    return message_checks.find_problems(rules.select_rules(config.model), Section(config))


def problems(text, more):
    found = collections.defaultdict(str)
    for one in find_problems(config_of(text, more)):
        found[one.path.replace('model.ssd.', '')] += one.text
    return found


def test_fitting_parts():
    assert problems(ROTATED, '') == {} and problems(AXIS_ALIGNED, '') == {}


@pytest.mark.parametrize(
    'part, path, text',
    [
        ('box_coder { faster_rcnn_box_coder {} }', 'box_coder', 'expected rotated_box_coder'),
        (
            'loss { localization_loss { weighted_giou {} } }',
            'loss.localization_loss',
            'expected gaussian_wasserstein',
        ),
        (
            'similarity_calculator { neg_sq_dist_similarity {} }',
            'similarity_calculator',
            'expected iou_similarity',
        ),
        (
            'post_processing { batch_non_max_suppression { use_combined_nms: true } }',
            'post_processing',
            'axis-aligned boxes only',
        ),
        (
            'post_processing { batch_non_max_suppression { change_coordinate_frame: false } }',
            'post_processing',
            'always relative to the image',
        ),
    ],
)
def test_parts_of_upright_boxes(part, path, text):
    found = problems(ROTATED, f'model {{ ssd {{ {part} }} }}')
    assert len(found) == 1
    ((where, said),) = found.items()
    assert where.startswith(path) and text in said


@pytest.mark.parametrize(
    'part, path',
    [
        ('box_coder { rotated_box_coder {} }', 'box_coder.rotated_box_coder'),
        (
            'anchor_generator { multiscale_anchor_generator { angles: 1 } }',
            'anchor_generator.multiscale_anchor_generator.angles',
        ),
        (
            'loss { localization_loss { gaussian_wasserstein {} } }',
            'loss.localization_loss.gaussian_wasserstein',
        ),
        (
            'similarity_calculator { iou_similarity { max_angle_difference: 1 } }',
            'similarity_calculator.iou_similarity.max_angle_difference',
        ),
    ],
)
def test_parts_of_rotated_boxes(part, path):
    found = problems(AXIS_ALIGNED, f'model {{ ssd {{ {part} }} }}')
    assert list(found) == [path]


def test_steps_of_upright_boxes():
    more = 'train_config { data_augmentation_options { random_jitter_boxes {} } }'
    for text, count in (
        (ROTATED, 1),
        (AXIS_ALIGNED, 0),
        (tiny_rotated.config_text('folder', 2), 1),
    ):
        found = [one.path for one in find_problems(config_of(text, more))]
        assert found == ['train_config.data_augmentation_options.1.random_jitter_boxes'] * count


@pytest.mark.parametrize(
    'more, text',
    [
        ('eval_config { metrics_set: "coco_detection_metrics" }', 'is for axis-aligned boxes'),
        (
            'model { ssd { anchor_generator { multiscale_anchor_generator { angles: 45 } } } }',
            'angles',
        ),
    ],
)
def test_all_rules_of_a_config(more, text):
    with pytest.raises(errors.ConfigError, match=text):
        model_fns.validate(config_of(ROTATED, more), mode=None)
