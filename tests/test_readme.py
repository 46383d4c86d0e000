"""The README's table says what there is, no more and no less."""

import pathlib
import re

import pytest

from protos import anchors_pb2, box_coding_pb2, cluster_pb2, losses_pb2, optimizer_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / 'README.md').read_text()


def listed(row):
    """The names in a row of the table."""
    (line,) = re.findall(rf'^\| {row} \| (.*) \|$', README, re.MULTILINE)
    return set(re.findall(r'`([^`]+)`', line))


def members(message, oneof):
    return {field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


def backbones():
    from model_fns.backbones import registry

    return registry.network_names()


def preprocessing_families():
    from model_fns.classification import preprocessing

    return preprocessing.FAMILIES


def extractors():
    from model_fns.detection.networks.feature_extractors import extractor

    return extractor.extractor_types()


def augmentations():
    from model_fns.detection.data import augmentation

    return augmentation.BUILDERS


def detection_metrics():
    from model_fns.detection.metrics import METRICS_SETS

    return METRICS_SETS


def converters():
    from model_fns.datasets import convert  # noqa: F401  (its sources register themselves)
    from model_fns.datasets.sources import SOURCES

    return SOURCES


def segmentation_backbones():
    from model_fns.segmentation.networks import backbones

    return backbones.backbone_names()


def segmentation_heads():
    from model_fns.segmentation import fields

    return {value for name, value in vars(fields).items() if name.endswith('_HEAD')}


def segmentation_data_sets():
    from model_fns.segmentation.data import presets

    return presets.PRESETS


def tasks():
    import model_fns

    return model_fns._TASKS


def modes():
    import run_train_eval

    return run_train_eval.MODES


def serving_inputs():
    import run_train_eval

    return run_train_eval.INPUT_TYPES


ROWS = {
    'tasks': tasks,
    'backbones': backbones,
    'preprocessing families': preprocessing_families,
    'detection feature extractors': extractors,
    'augmentations': augmentations,
    'detection metrics': detection_metrics,
    'segmentation backbones': segmentation_backbones,
    'segmentation heads': segmentation_heads,
    'segmentation data sets': segmentation_data_sets,
    'converters': converters,
    'cluster modes': lambda: cluster_pb2.ClusterConfig.Mode.keys(),
    'modes': modes,
    'serving inputs': serving_inputs,
    'anchor generators': lambda: members(anchors_pb2.AnchorGenerator, 'anchor_generator_oneof'),
    'box coders': lambda: members(box_coding_pb2.BoxCoder, 'box_coder_oneof'),
    'localisation losses': lambda: members(losses_pb2.LocalizationLoss, 'localization_loss'),
    'classification losses': lambda: (
        members(losses_pb2.ClassificationLoss, 'classification_loss')
        - {'penalty_reduced_logistic_focal_loss', 'weighted_dice_classification_loss'}
    ),
    'optimizers': lambda: members(optimizer_pb2.Optimizer, 'optimizer'),
    'learning rates': lambda: members(optimizer_pb2.LearningRate, 'learning_rate'),
}


@pytest.mark.parametrize('row', sorted(ROWS))
def test_the_table_is_true(row):
    assert listed(row) == set(ROWS[row]())


def test_every_row_is_held():
    rows = re.findall(r'^\| ([a-z ]+) \| `', README, re.MULTILINE)
    assert set(rows) == set(ROWS)


def test_files_that_the_readme_names_are_there():
    for path in re.findall(r'`((?:configs|model_fns|tests|benchmarks|docs)/[\w/.]+)`', README):
        assert (ROOT / path.rstrip('/')).exists(), path
