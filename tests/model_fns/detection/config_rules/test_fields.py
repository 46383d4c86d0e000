"""Which fields of a detector are refused, and why."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import engine_rules, support
from model_fns.detection import rules as config_rules
from model_fns.detection.config_rules import fields as config_rules_fields
from protos import model_pb2, ssd_pb2
from tests import tiny_detection

RULES = engine_rules.ENGINE + config_rules.of_model(model_pb2.DetectionModel())


def refused(text):
    config = config_lib.parse_pipeline_config(text, 'text')
    return {problem.path: problem.text for problem in support.unsupported(RULES, config)}


def test_refused_fields_have_reasons():
    found = refused(
        'train_config { use_multiclass_scores: true }'
        'eval_input_reader { num_additional_channels: 1 }'
        'model { ssd { mask_head_config {} feature_extractor { spaghettinet_arch_name: "a" } '
        '    loss { equalization_loss { weight: 1 exclude_prefixes: "a" } } } }'
    )
    assert set(found) == {
        'train_config.use_multiclass_scores',
        'eval_input_reader.0.num_additional_channels',
        'model.ssd.mask_head_config',
        'model.ssd.feature_extractor.spaghettinet_arch_name',
        'model.ssd.loss.equalization_loss.weight',
    }
    assert found['model.ssd.mask_head_config'] == 'not supported: masks need a two-stage model.'


def test_layers_are_convolutions():
    text = 'model { ssd { feature_extractor { conv_hyperparams { op: %s } } } }'
    assert refused(text % 'CONV') == {}
    assert list(refused(text % 'FC')) == ['model.ssd.feature_extractor.conv_hyperparams.op']


def test_parts_are_refused_with_their_path():
    part = ssd_pb2.Ssd()
    part.feature_extractor.conv_hyperparams.group_norm.SetInParent()
    part.use_confidences_as_targets = True
    with pytest.raises(errors.ConfigError) as caught:
        config_rules_fields.refuse(part, 'model.ssd')
    assert str(caught.value).splitlines() == [
        'the pipeline config has 2 problems:',
        '  model.ssd.use_confidences_as_targets: not supported: targets are one-hot.',
        '  model.ssd.feature_extractor.conv_hyperparams.group_norm: not supported: use batch_norm, '
        'with train: false for small batches.',
    ]
    config_rules_fields.refuse(ssd_pb2.Ssd(), 'model.ssd')


@pytest.mark.parametrize(
    ('setting', 'start'),
    [
        ('eval_config.metrics_set=["lvis_mask_metrics"]', 'eval_config.metrics_set: '),
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
