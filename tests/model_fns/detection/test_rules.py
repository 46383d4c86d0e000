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

# Every config of TensorFlow 1 with `model.ssd`: the fields that it is refused for.
SSD_TF1 = {
    'embedded_ssd_mobilenet_v1_coco': [],
    'ssd_inception_v2_coco': [],
    'ssd_inception_v3_pets': [],
    'ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync': [],
    'ssd_mobilenet_v1_0.75_depth_quantized_300x300_coco14_sync': [],
    'ssd_mobilenet_v1_coco': [],
    'ssd_mobilenet_v1_focal_loss_pets': [],
    'ssd_mobilenet_v1_fpn_shared_box_predictor_640x640_coco14_sync': [],
    'ssd_mobilenet_v1_pets': [],
    'ssd_mobilenet_v1_ppn_shared_box_predictor_300x300_coco14_sync': [],
    'ssd_mobilenet_v1_quantized_300x300_coco14_sync': [],
    'ssd_mobilenet_v2_coco': [],
    'ssd_mobilenet_v2_fpnlite_quantized_shared_box_predictor_256x256_depthmultiplier_75_coco14_sync'
    '': [],
    'ssd_mobilenet_v2_mnasfpn_shared_box_predictor_320x320_coco_sync': [],
    'ssd_mobilenet_v2_pets_keras': [],
    'ssd_mobilenet_v2_quantized_300x300_coco': [],
    'ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync': [],
    'ssdlite_mobiledet_cpu_320x320_coco_sync_4x4': [],
    'ssdlite_mobiledet_edgetpu_320x320_coco_sync_4x4': [],
    'ssdlite_mobiledet_gpu_320x320_coco_sync_4x4': [],
    'ssdlite_mobilenet_edgetpu_320x320_coco': [],
    'ssdlite_mobilenet_v1_coco': [],
    'ssdlite_mobilenet_v2_coco': [],
    'ssdlite_mobilenet_v3_large_320x320_coco': [],
    'ssdlite_mobilenet_v3_small_320x320_coco': [],
}
# Every config of TensorFlow 2 with `model.ssd`.
SSD_TF2 = {
    'ssd_efficientdet_d0_512x512_coco17_tpu-8': [],
    'ssd_efficientdet_d2_768x768_coco17_tpu-8': [],
    'ssd_efficientdet_d4_1024x1024_coco17_tpu-32': [],
    'ssd_efficientdet_d6_1408x1408_coco17_tpu-32': [],
    'ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8': [],
    'ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8': [],
    'ssd_resnet101_v1_fpn_1024x1024_coco17_tpu-8': [],
    'ssd_resnet152_v1_fpn_1024x1024_coco17_tpu-8': [],
    'ssd_resnet50_v1_fpn_1024x1024_coco17_tpu-8': [],
}
ALL_SSD = {
    **{f'tf1/{name}': refused for name, refused in SSD_TF1.items()},
    **{f'tf2/{name}': refused for name, refused in SSD_TF2.items()},
    'reference/bccd_ssd_mobilenet_v1_fpn': [],
}
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


def test_the_expectations_are_about_every_published_config(shared):
    names = {name for name, config in configs().items() if config.model.HasField('ssd')}
    assert names == set(ALL_SSD)


@pytest.mark.parametrize('name', ALL_SSD)
def test_a_single_shot_config_is_refused_for_nothing_else(shared, name):
    config = configs()[name]
    assert refused_paths(config) == ALL_SSD[name]
    # What is about training does not matter to what does not train.
    of_model = [path for path in ALL_SSD[name] if not path.startswith('train_config.')]
    assert refused_paths(config, 'export') == refused_paths(config, 'evaluate') == of_model


@pytest.mark.parametrize('name', [name for name, refused in ALL_SSD.items() if not refused])
def test_an_accepted_config_is_warned_of_what_changes_nothing(shared, name):
    warnings = model_fns.validate(configs()[name])
    assert {re.split(': | has no effect', warning)[0] for warning in warnings} <= KNOWN_WARNINGS


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
        (
            ['feature_extractor.bifpn.max_level=2000000000'],
            r'bifpn\.max_level: 2000000000; expected at least 1 and at most 20\.',
        ),
    ],
)
def test_a_neck_that_goes_down_and_up_refuses(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        model_fns.validate(efficient(*settings), mode=None)


def test_the_builder_refuses_the_same_sides():
    config = efficient('image_resizer.fixed_shape_resizer.width=160').model.ssd
    with pytest.raises(errors.ConfigError, match=r'width: 160; expected a multiple of 128'):
        ssd_build.build_ssd(Section(config, 'model.ssd'))
