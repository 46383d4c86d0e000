"""`docs/supported.md` has what the code accepts, and the README's table a part of it."""

import functools
import pathlib
import re

import pytest
from google.protobuf import text_format

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from protos import (
    anchors_pb2,
    augmentation_pb2,
    box_coding_pb2,
    box_predictors_pb2,
    cluster_pb2,
    losses_pb2,
    model_pb2,
    optimizer_pb2,
)
from tests import tiny_center_net, tiny_detection, tiny_rotated, tiny_two_stage
from tests.model_fns.detection.test_rules import configs, refused_paths

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / 'README.md').read_text()
SUPPORTED = (ROOT / 'docs' / 'supported.md').read_text()


def listed(row):
    """Return the names in a row of the table."""
    (line,) = re.findall(rf'^\| {row} \| (.*) \|$', SUPPORTED, re.MULTILINE)
    return set(re.findall(r'`([^`]+)`', line))


def members(message, oneof):
    return [field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields]


# Configs that ask for one thing, named %s; everything else is filled in.
CLASSIFIER = 'model { classification { num_classes: 3 backbone { name: "%s" } %s } }'
SEGMENTER = 'model { segmentation { num_classes: 3 backbone { name: "%s" } %s } }'
# What has no use without arguments of its own.
ARGUMENTS = {
    'grid_anchor_generator': 'scales: 1 aspect_ratios: 1',
    'ssd_anchor_generator': 'reduce_boxes_in_lowest_layer: false',
    'multiscale_anchor_generator': 'min_level: 3 max_level: 4 aspect_ratios: 1',
    'flexible_grid_anchor_generator': (
        'anchor_grid { base_sizes: 1 aspect_ratios: 1 height_stride: 8 width_stride: 8 }'
    ),
    'bootstrapped_sigmoid': 'alpha: 0.5',
    'normalize_image': 'original_maxval: 255',
    'random_resize_method': 'target_height: 8 target_width: 8',
    'resize_image': 'new_height: 8 new_width: 8',
    'subtract_channel_mean': 'means: [1, 2, 3]',
    'drop_label_probabilistically': 'label: 1',
    'remap_labels': 'original_labels: 1 new_label: 2',
}


def detector(**parts):
    """Return a detector's config with parts of `model.ssd` replaced, each by its text."""
    # What is of rotated boxes goes into a detector of them.
    is_rotated = any(name in text for text in parts.values() for name in ('rotated', 'gaussian'))
    model = tiny_rotated.MODEL if is_rotated else tiny_detection.MODEL
    config = config_lib.parse_pipeline_config(
        model.format(hyperparams=tiny_detection.HYPERPARAMS), 'text'
    )
    for name, text in parts.items():
        config.model.ssd.ClearField(name)
        text_format.Merge(f'{name} {{ {text} }}', config.model.ssd)
    return config


def chosen(name):
    return f'{name} {{ {ARGUMENTS.get(name, "")} }}'


def of_loss(kind):
    """Return a function from the name of a loss of this kind to a detector's config."""
    other = {
        'classification_loss': 'localization_loss { weighted_smooth_l1 {} }',
        'localization_loss': 'classification_loss { weighted_sigmoid {} }',
    }[kind]
    return lambda name: detector(loss=f'{kind} {{ {chosen(name)} }} {other}')


def with_rest(text):
    config = detector()
    text_format.Merge(text, config)
    return config


def augmentation(name):
    config = parsed(CLASSIFIER % ('lenet', '')) if name == 'cutmix' else detector()
    text = f'train_config {{ data_augmentation_options {{ {chosen(name)} }} }}'
    return text_format.Merge(text, config)


def extractor_config(kind):
    # Of a size that suits all.
    config = detector(image_resizer='fixed_shape_resizer { height: 128 width: 128 }')
    config.model.ssd.feature_extractor.type = kind
    return config


def two_stage(kind='faster_rcnn_resnet50'):
    model = tiny_two_stage.PYRAMID if '_fpn' in kind else tiny_two_stage.MODEL
    config = parsed(model.format(stages=2))
    config.model.faster_rcnn.feature_extractor.type = kind
    return config


def second_stage(head):
    config = two_stage()
    config.model.faster_rcnn.ClearField('second_stage_box_predictor')
    initializer = 'initializer { truncated_normal_initializer {} }'
    hyperparams = {
        'mask_rcnn_box_predictor': f'fc_hyperparams {{ op: FC {initializer} }}',
        'rfcn_box_predictor': f'conv_hyperparams {{ {initializer} }}',
    }
    text = f'second_stage_box_predictor {{ {head} {{ {hyperparams.get(head, "")} }} }}'
    text_format.Merge(text, config.model.faster_rcnn)
    return config


def center_net(name='hourglass_10'):
    return parsed(tiny_center_net.MODEL.replace('hourglass_10', name).replace('64 ', '128 '))


def kind_config(kind):
    if kind in ('ssd', 'faster_rcnn'):
        return detector() if kind == 'ssd' else two_stage()
    text = {
        'center_net': tiny_center_net.MODEL,
        'classification': CLASSIFIER % ('lenet', ''),
        'segmentation': SEGMENTER % ('xception_41', ''),
        'external': 'model { external { task: "tests.estimator_lib.line_task:Line" } }',
    }
    return parsed(text.get(kind, f'model {{ {kind} {{}} }}'))


def parsed(text):
    return config_lib.parse_pipeline_config(text, 'text')


def optimizer_config(name):
    rate = 'learning_rate { constant_learning_rate {} }'
    return with_rest(f'train_config {{ optimizer {{ {name} {{ {rate} }} }} }}')


def rate_config(name):
    rate = f'learning_rate {{ {name} {{}} }}'
    return with_rest(f'train_config {{ num_steps: 9 optimizer {{ sgd_optimizer {{ {rate} }} }} }}')


def backbones():
    from model_fns.backbones import registry

    return registry.network_names()


def preprocessing_families():
    from model_fns.classification import preprocessing

    return preprocessing.FAMILIES


def extractors():
    from model_fns.detection.networks.feature_extractors import extractor

    return extractor.extractor_types()


def two_stage_extractors():
    from model_fns.detection.architectures.faster_rcnn import extractors

    return extractors.EXTRACTORS


def center_net_extractors():
    from model_fns.detection.architectures.center_net import extractors

    return extractors.EXTRACTORS


def detection_metrics():
    from model_fns.detection.metrics import METRICS_SETS

    return [*METRICS_SETS, 'coco_mask_metrics', 'coco_keypoint_metrics', 'coco_panoptic_metrics']


def segmentation_backbones():
    from model_fns.backbones import registry

    return registry.network_names('segmentation')


def segmentation_data_sets():
    from model_fns.segmentation.data import presets

    return presets.PRESETS


# What may be asked for, and the config that asks for it: the table has what `validate` accepts.
ASKED = {
    'tasks': (lambda: members(model_pb2.DetectionModel, 'model'), kind_config),
    'backbones': (backbones, lambda name: parsed(CLASSIFIER % (name, ''))),
    'preprocessing families': (
        preprocessing_families,
        lambda name: parsed(CLASSIFIER % ('lenet', f'preprocessing: "{name}"')),
    ),
    'single-shot feature extractors': (extractors, extractor_config),
    'two-stage feature extractors': (two_stage_extractors, two_stage),
    'CenterNet feature extractors': (center_net_extractors, center_net),
    'second-stage heads': (
        lambda: members(box_predictors_pb2.BoxPredictor, 'box_predictor_oneof'),
        second_stage,
    ),
    'augmentations': (
        lambda: members(augmentation_pb2.PreprocessingStep, 'preprocessing_step'),
        augmentation,
    ),
    'detection metrics': (
        detection_metrics,
        lambda name: with_rest(f'eval_config {{ metrics_set: "{name}" }}'),
    ),
    'segmentation backbones': (
        segmentation_backbones,
        lambda name: parsed(SEGMENTER % (name, '')),
    ),
    'segmentation data sets': (
        segmentation_data_sets,
        lambda name: parsed(SEGMENTER % ('xception_41', f'dataset: "{name}"')),
    ),
    'cluster modes': (
        cluster_pb2.ClusterConfig.Mode.keys,
        lambda name: with_rest(f'train_config {{ cluster {{ mode: {name} }} }}'),
    ),
    'anchor generators': (
        lambda: members(anchors_pb2.AnchorGenerator, 'anchor_generator_oneof'),
        lambda name: detector(anchor_generator=chosen(name)),
    ),
    'box coders': (
        lambda: members(box_coding_pb2.BoxCoder, 'box_coder_oneof'),
        lambda name: detector(box_coder=chosen(name)),
    ),
    'localization losses': (
        lambda: members(losses_pb2.LocalizationLoss, 'localization_loss'),
        of_loss('localization_loss'),
    ),
    'classification losses': (
        lambda: members(losses_pb2.ClassificationLoss, 'classification_loss'),
        of_loss('classification_loss'),
    ),
    'optimizers': (lambda: members(optimizer_pb2.Optimizer, 'optimizer'), optimizer_config),
    'learning rates': (lambda: members(optimizer_pb2.LearningRate, 'learning_rate'), rate_config),
}


def accepted(row):
    """Return the names of a row that validate; others are refused as not supported."""
    names, config_of = ASKED[row]
    found = set()
    for name in names():
        try:
            model_fns.validate(config_of(name), mode=None)
            found.add(name)
        except errors.ConfigError as error:
            assert re.search('not supported: |is not available: ', str(error)), error
    return found


def converters():
    from model_fns.datasets.convert import command  # noqa: F401  (its sources register themselves)
    from model_fns.datasets.sources import SOURCES

    return SOURCES


def segmentation_heads():
    from model_fns.segmentation import fields

    return {value for name, value in vars(fields).items() if name.endswith('_HEAD')}


def modes():
    from estimator_lib import environment

    return environment.MODES


def serving_inputs():
    from model_fns.cli import flag_definitions

    return flag_definitions.choices('input_type')


def export_formats():
    from model_fns.cli import flag_definitions

    return flag_definitions.choices('format')


def quantizes():
    from estimator_lib.export.devices import tflite

    return tflite.TfliteWriter.quantizes


ROWS = {
    **{row: functools.partial(accepted, row) for row in ASKED},
    'segmentation heads': segmentation_heads,
    'converters': converters,
    'modes': modes,
    'serving inputs': serving_inputs,
    'export formats': export_formats,
    'quantization of TFLite files': quantizes,
}


@pytest.mark.parametrize('row', sorted(ROWS))
def test_the_table_is_true(row):
    assert listed(row) == set(ROWS[row]())


def test_every_row_is_checked():
    table = SUPPORTED[: SUPPORTED.index('\n## ')]
    rows = re.findall(r'^\| ([\w -]+) \| `', table, re.MULTILINE)
    assert set(rows) == set(ROWS)


def test_names_in_the_short_table_are_supported():
    short = README[README.index('\n## What is supported') :].split('\n## ')[1]
    names = set(re.findall(r'^\|.*\|$', short, re.MULTILINE))
    names = {name for row in names for name in re.findall(r'`([^`]+)`', row)}
    assert names and names <= set(re.findall(r'`([^`]+)`', SUPPORTED))


def test_the_short_table_counts_right():
    for row in ('backbones', 'optimizers', 'cluster modes'):
        (number,) = re.findall(rf'(\d+) {row}', README)
        assert int(number) == len(listed(row)), row


def test_the_readme_is_short():
    text = re.sub(r'```.*?```', '', README, flags=re.DOTALL)
    assert len(text.split()) <= 900


def published_rows():
    """Return what the table of published configs says of each."""
    return dict(re.findall(r'^\| `(\w[\w-]*_\w+-?\d*)` \| (.*) \|$', SUPPORTED, re.MULTILINE))


def test_published_configs_are_listed(shared):
    text = (shared / 'spec' / 'tf2_config_names.txt').read_text()
    names = {line.strip() for line in text.splitlines() if line.strip() and line[0] != '#'}
    assert set(published_rows()) == names


def test_published_configs_are_accepted_as_listed(shared):
    rows = published_rows()
    paths = sorted((shared / 'configs' / 'tf2').glob('*.config'))
    accepted = {name for name, config in configs().items() if not refused_paths(config, 'export')}
    for path in paths:
        assert rows[path.stem] == 'accepted'
        assert f'tf2/{path.stem}' in accepted, path.stem


def test_configs_with_a_second_network_for_masks_are_refused_as_listed():
    config = parsed(tiny_center_net.MODEL)
    config.model.center_net.deepmac_mask_estimation.SetInParent()
    assert refused_paths(config, 'export') == ['model.center_net.deepmac_mask_estimation']
    refused = [name for name, said in published_rows().items() if said.startswith('refused')]
    assert len(refused) == 4 and all('deepmac' in name for name in refused)
