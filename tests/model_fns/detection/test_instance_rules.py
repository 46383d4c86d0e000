"""Masks and keypoints that are asked for, and that nobody reads or learns."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib.config import requirements
from model_fns.detection import rules
from tests import tiny_center_net, tiny_detection, tiny_two_stage

READERS = 'train_input_reader { %s } eval_input_reader { %s } eval_input_reader { %s }'


def parsed(settings, readers=READERS % ('', '', ''), stages=3, model=tiny_two_stage.MASKS):
    text = model.format(stages=stages) + readers
    return config_lib.parse_pipeline_config(text, 'text', settings=settings)


def find_warnings(config):
    found = requirements.conflict_warnings(rules.select_rules(config.model), config)
    return (warning for warning in found if 'for pictures of' in warning)


def problems(*arguments, **options):
    config = parsed(*arguments, **options)
    return {one.path: one.text for one in rules.check_instance_readers(config)}


def test_the_readers_of_what_is_measured():
    assert problems(['eval_config.metrics_set=coco_mask_metrics']) == dict.fromkeys(
        ['eval_input_reader.0.load_instance_masks', 'eval_input_reader.1.load_instance_masks'],
        'masks are not read, but eval_config asks for coco_mask_metrics; expected true.',
    )
    setting = 'eval_config.parameterized_metric={ coco_keypoint_metrics {} }'
    readers = READERS % ('', 'num_keypoints: 3', '')
    assert problems([setting], readers) == {
        'eval_input_reader.1.num_keypoints': (
            'keypoints are not read, but eval_config asks for coco_keypoint_metrics; expected how '
            'many an object has.'
        )
    }


def test_sets_that_there_are_not_are_no_matter_here():
    assert problems(['eval_config.metrics_set=coco_panoptic_metrics']) == {}


@pytest.mark.parametrize(
    ('settings', 'stages', 'expected'),
    [
        (
            ['train_input_reader.load_instance_masks=true'],
            2,
            ['load_instance_masks: it is for pic'],
        ),
        (['train_input_reader.load_instance_masks=true'], 3, []),
        (['train_input_reader.num_keypoints=3'], 3, ['num_keypoints: it is for pictures of the']),
        ([], 2, []),
    ],
)
def test_what_nothing_is_learned_from(settings, stages, expected):
    found = list(find_warnings(parsed(settings, stages=stages)))
    assert len(found) == len(expected)
    for warning, start in zip(found, expected):
        assert warning.startswith(f'train_input_reader.{start}')


def test_a_third_stage_learns_what_it_predicts():
    settings = [
        'train_input_reader.num_keypoints=3',
        'train_input_reader.load_instance_masks=true',
    ]
    config = parsed(settings, model=tiny_two_stage.KEYPOINTS)
    (warning,) = find_warnings(config)
    assert warning.startswith('train_input_reader.load_instance_masks: it is for pictures of the ')


def test_a_center_net_learns_the_keypoints_that_it_estimates():
    settings = ['train_input_reader.num_keypoints=3']
    config = config_lib.parse_pipeline_config(tiny_center_net.MODEL, 'text', settings=settings)
    (warning,) = find_warnings(config)
    assert warning.startswith('train_input_reader.num_keypoints: it is for pictures of the ')
    config.model.center_net.keypoint_estimation_task.add()
    assert not list(find_warnings(config))


def test_single_shot_detectors_learn_neither():
    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    config = config_lib.parse_pipeline_config(
        text, 'text', settings=['train_input_reader.load_instance_masks=true']
    )
    assert len(list(find_warnings(config))) == 1
    assert not list(rules.check_instance_readers(config))
