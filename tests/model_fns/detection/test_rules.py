"""Which published detection configs are accepted, and what the others are refused for."""

import functools
import re

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.architectures.ssd import build as ssd_build
from tests import tiny_detection
from tests.conftest import shared_folder

CONFIGS = shared_folder() / 'configs'

NAMES = sorted(
    f'{path.parent.name}/{path.stem}'
    for path in CONFIGS.glob('*/*.config')
    if re.search(r'^  (ssd|faster_rcnn|center_net) *{', path.read_text(), re.MULTILINE)
)
# What is said of the accepted ones: fields that change nothing.
KNOWN_WARNINGS = {
    'eval_config.max_evals',
    'model.ssd.matcher.argmax_matcher.use_matmul_gather',
    'model.ssd.post_processing.batch_non_max_suppression.use_static_shapes',
    'train_config.replicas_to_aggregate',
    'train_config.startup_delay_steps',
    'train_config.sync_replicas',
    'train_config.unpad_groundtruth_tensors',
    # Not about a field without effect: that evaluations before it are of another network.
    'graph_rewriter.quantization.delay',
}


@functools.cache
def configs():
    """Load all published configs by name, with paths in place of their placeholders."""
    found = {}
    for path in sorted(CONFIGS.glob('*/*.config')):
        text = path.read_text().replace('PATH_TO_BE_CONFIGURED', '/data')
        name = f'{path.parent.name}/{path.stem}'
        found[name] = config_lib.parse_pipeline_config(text, name)
    return found


def refused_paths(config, mode='train_and_evaluate'):
    """Return the paths of the problems, each of which is a refusal."""
    try:
        model_fns.validate(config, mode)
    except errors.ConfigError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        problems = [line for line in lines if not line.endswith('problems:')]
        assert all(': not supported: ' in line for line in problems), problems
        return [line.split(':')[0] for line in problems]
    return []


def test_all_published_configs_are_found(shared):
    assert len(NAMES) == 67


@pytest.mark.parametrize('name', NAMES)
def test_a_published_config_is_accepted(name):
    config = configs()[name]
    assert refused_paths(config, 'export') == []
    if config.model.HasField('faster_rcnn'):
        return
    assert refused_paths(config) == []
    if config.model.HasField('ssd'):
        warnings = model_fns.validate(config)
        said = {re.split(': | has no effect', warning)[0] for warning in warnings}
        assert said <= KNOWN_WARNINGS


def test_a_two_stage_detector_is_not_quantized(shared):
    text = 'graph_rewriter { quantization { delay: 3 } }'
    config = config_lib.apply_overrides(configs()['tf1/faster_rcnn_resnet50_coco'], [text])
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config)
    assert 'graph_rewriter: not supported: two-stage detectors are not quantized' in str(
        caught.value
    )


EFFICIENT = [
    'feature_extractor.type=ssd_efficientnet-b0_bifpn_keras',
    'image_resizer.fixed_shape_resizer.height=256',
    'image_resizer.fixed_shape_resizer.width=384',
]
KEEPS = 'image_resizer={ keep_aspect_ratio_resizer { min_dimension: 256 max_dimension: 256 %s } }'
PADS = 'image_resizer={ pad_to_multiple_resizer { multiple: %d } }'


def efficient(*settings):
    text = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
    config = config_lib.parse_pipeline_config(text, 'text')
    settings = [f'model.ssd.{setting}' for setting in (*EFFICIENT, *settings)]
    return config_lib.apply_settings(config, settings)


@pytest.mark.parametrize(
    'settings',
    [
        [],
        [KEEPS % 'pad_to_max_dimension: true'],
        [PADS % 128],
        [KEEPS % '', 'feature_extractor.pad_to_multiple=256'],
        # Levels 3 to 4.
        ['image_resizer.fixed_shape_resizer.height=48', 'feature_extractor.bifpn.max_level=4'],
        # Of networks whose neck goes down alone.
        ['feature_extractor.type=ssd_mobilenet_v2_fpn_keras', KEEPS % ''],
    ],
)
def test_sides_that_suit_the_levels(settings):
    model_fns.validate(efficient(*settings), mode=None)


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        (
            ['image_resizer.fixed_shape_resizer.width=160'],
            r'fixed_shape_resizer\.width: 160; expected a multiple of 128, .*pad_to_multiple: 128',
        ),
        (
            [KEEPS % 'pad_to_max_dimension: true', 'feature_extractor.bifpn.max_level=9'],
            r'keep_aspect_ratio_resizer\.max_dimension: 256; expected a multiple of 512',
        ),
        ([PADS % 32], r'pad_to_multiple_resizer\.multiple: 32; expected a multiple of 128'),
        ([KEEPS % ''], r'keep_aspect_ratio_resizer: gives inputs of any size; expected multiples'),
        (['image_resizer={ identity_resizer {} }'], 'identity_resizer: gives inputs of any size'),
        (
            ['feature_extractor.bifpn.combine_method=sums'],
            r"bifpn\.combine_method: unknown combine_method 'sums'",
        ),
        (['feature_extractor.bifpn.min_level=6'], r'bifpn\.min_level: 6; expected one of 1, 2, 3'),
    ],
)
def test_a_neck_that_goes_down_and_up_refuses(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        model_fns.validate(efficient(*settings), mode=None)


def test_the_builder_refuses_the_same_sides():
    config = efficient('image_resizer.fixed_shape_resizer.width=160').model.ssd
    with pytest.raises(errors.ConfigError, match=r'width: 160; expected a multiple of 128'):
        ssd_build.build_ssd(Section(config, 'model.ssd'))
