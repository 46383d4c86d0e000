"""Which fields of a detector are refused and why, what its messages must have and keep in order."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import message_checks, support
from estimator_lib.config.section import Section
from model_fns.detection.config_rules import kinds
from protos import ssd_pb2
from tests import tiny_detection


def refused(text):
    config = config_lib.parse_pipeline_config(text, 'text')
    return {
        problem.path: problem.text
        for problem in support.unsupported(kinds.SINGLE_SHOT, Section(config))
    }


def test_refused_fields_have_reasons():
    found = refused(
        'train_input_reader { load_track_id: true }'
        'eval_input_reader { load_dense_pose: true }'
        'model { ssd { mask_head_config {} feature_extractor { spaghettinet_arch_name: "a" } '
        '    loss { equalization_loss { weight: 1 exclude_prefixes: "a" } } } }'
    )
    assert set(found) == {
        'train_input_reader.load_track_id',
        'eval_input_reader.0.load_dense_pose',
        'model.ssd.mask_head_config',
        'model.ssd.feature_extractor.spaghettinet_arch_name',
        'model.ssd.loss.equalization_loss.weight',
    }
    assert found['model.ssd.mask_head_config'] == 'not supported: masks need a two-stage model.'


def test_batch_norm_of_configs_of_2018_is_trained():
    text = 'model { ssd { feature_extractor { batch_norm_trainable: %s } } }'
    assert refused(text % 'true') == {}
    assert list(refused(text % 'false')) == ['model.ssd.feature_extractor.batch_norm_trainable']


def test_layers_are_convolutions():
    text = 'model { ssd { feature_extractor { conv_hyperparams { op: %s } } } }'
    assert refused(text % 'CONV') == {}
    assert list(refused(text % 'FC')) == ['model.ssd.feature_extractor.conv_hyperparams.op']


def test_parts_are_refused_with_their_path():
    part = ssd_pb2.Ssd()
    part.feature_extractor.conv_hyperparams.group_norm.SetInParent()
    part.use_confidences_as_targets = True
    with pytest.raises(errors.ConfigError) as caught:
        kinds.refuse(Section(part, 'model.ssd'))
    assert str(caught.value).splitlines() == [
        'the pipeline config has 2 problems:',
        '  model.ssd.use_confidences_as_targets: not supported: targets are one-hot.',
        '  model.ssd.feature_extractor.conv_hyperparams.group_norm: not supported: use batch_norm, '
        'with train: false for small batches.',
    ]
    kinds.refuse(Section(ssd_pb2.Ssd(), 'model.ssd'))


@pytest.mark.parametrize(
    ('setting', 'start'),
    [
        ('eval_config.metrics_set=["coco_panoptic_metrics"]', 'eval_config.metrics_set: '),
        ('eval_config.metrics_set=["cocoo"]', 'eval_config.metrics_set: unknown metrics set'),
        ('model.ssd.feature_extractor.type=ssd_mobilnet', 'model.ssd.feature_extractor.type: unk'),
    ],
)
def test_names_are_looked_up_before_anything_is_made(setting, start):
    import model_fns

    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    config = config_lib.parse_pipeline_config(text, 'text', settings=[setting])
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value).startswith(start)


def problems(text):
    config = config_lib.parse_pipeline_config(text, 'text')
    return {
        problem.path: problem.text
        for problem in message_checks.find_problems(kinds.SINGLE_SHOT, Section(config))
    }


def step(text):
    found = problems(f'train_config {{ data_augmentation_options {{ {text} }} }}')
    prefix = 'train_config.data_augmentation_options.0'
    return {path[len(prefix) :].lstrip('.'): text for path, text in found.items()}


def test_an_empty_model_lacks_all_of_its_parts():
    found = problems('model { ssd {} }')
    assert found['model.ssd.num_classes'].startswith('not set; expected at least 1 and ')
    assert found['model.ssd.feature_extractor'] == 'is missing.'
    assert found['model.ssd.matcher'] == (
        'is missing; expected one of: argmax_matcher, bipartite_matcher, atss_matcher, '
        'dynamic_matcher.'
    )
    assert len(found) == 9


def test_a_message_that_is_there_and_empty_is_told_from_one_that_is_missing():
    found = problems('model { ssd { matcher {} feature_extractor {} } }')
    assert (
        found['model.ssd.matcher'] == 'empty; expected one of: argmax_matcher, bipartite_matcher, '
        'atss_matcher, dynamic_matcher.'
    )
    assert found['model.ssd.feature_extractor.type'] == 'not set.'
    assert found['model.ssd.feature_extractor.conv_hyperparams'] == 'is missing.'


def test_what_is_refused_is_not_offered():
    text = problems('model { ssd { box_coder {} } }')['model.ssd.box_coder']
    assert 'faster_rcnn_box_coder' in text and 'keypoint' not in text


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('', {'': 'empty; expected one of: normalize_image, '}),
        ('random_horizontal_flip {}', {}),
        (
            'ssd_random_crop { operations { max_area: 0.1 min_area: 0.2 min_aspect_ratio: 1 } }',
            {
                'ssd_random_crop.operations.0.max_aspect_ratio': 'not set; expected more than 0.',
                'ssd_random_crop.operations.0.min_aspect_ratio': '1; expected at most 0, max_asp',
                'ssd_random_crop.operations.0.min_area': '0.2; expected at most 0.1, max_area.',
            },
        ),
    ],
)
def test_augmentation_steps(text, expected):
    found = step(text)
    assert set(found) == set(expected)
    for path, start in expected.items():
        assert found[path].startswith(start)


def test_numbers_out_of_order_name_both():
    found = problems(
        'model { ssd { post_processing { batch_non_max_suppression { '
        'max_detections_per_class: 200 } } } }'
    )
    path = 'model.ssd.post_processing.batch_non_max_suppression.max_detections_per_class'
    assert found[path] == '200; expected at most 100, max_total_detections.'


def test_maps_are_looked_into():
    found = problems(
        'model { ssd { post_processing { calibration_config { class_id_function_approximations {'
        '  class_id_xy_pairs_map { key: 3 value {} } } } } } }'
    )
    path = 'model.ssd.post_processing.calibration_config.class_id_function_approximations'
    assert found[f'{path}.class_id_xy_pairs_map.3.x_y_pair'] == 'empty; expected at least one.'
