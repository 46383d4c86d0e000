"""The table of honoured fields: whole, and obeyed."""

import pathlib
import re

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import schema, support, support_tables
from protos import pipeline_pb2, ssd_pb2

ROOT = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
FIELDS = sorted(schema.schema_fields(ROOT))
COLUMNS = {
    'HONOURED': support_tables.HONOURED,
    'NO_EFFECT': support_tables.NO_EFFECT,
    'REFUSED': support_tables.REFUSED,
}


def parse(text):
    return config_lib.parse_pipeline_config(text, 'text')


def test_each_field_of_the_schema_is_in_exactly_one_column():
    assert len(FIELDS) > 850
    wrong = {field: support.columns(*field) for field in FIELDS}
    assert {field: found for field, found in wrong.items() if len(found) != 1} == {}


def test_a_field_without_a_column_would_be_seen():
    assert support.columns('TrainConfig', 'not_a_field') == []


@pytest.mark.parametrize('column', COLUMNS)
def test_the_table_names_nothing_that_the_schema_does_not_have(column):
    known = {}
    for message, field in FIELDS:
        known.setdefault(message, set()).add(field)
    for message, fields in COLUMNS[column].items():
        assert message in known, message
        if not isinstance(fields, str) and fields != support_tables.ALL:
            assert set(fields) <= known[message], message


def test_every_reason_is_a_phrase():
    reasons = [
        reason
        for column in (
            support_tables.NO_EFFECT,
            support_tables.REFUSED,
            support_tables.ONLY_OF_DETECTION,
        )
        for fields in column.values()
        for reason in ([fields] if isinstance(fields, str) else fields.values())
    ]
    reasons += [condition.reason for condition in support.CONDITIONS.values()]
    assert all(reason and not reason.endswith('.') for reason in reasons)


def test_conditions_are_on_honoured_fields():
    for name in support.CONDITIONS:
        assert support.columns(*name.rsplit('.', 1)) == ['HONOURED']


def test_what_detectors_alone_read_is_honoured():
    for message, fields in support_tables.ONLY_OF_DETECTION.items():
        for field in fields:
            assert support.columns(message, field) == ['HONOURED'], field


def test_what_an_honoured_message_holds_is_not_refused_as_a_whole():
    """A line that moves to HONOURED takes the messages under it along."""
    for message in schema.reachable_messages(ROOT):
        name = schema.short_name(message)
        for field in message.fields:
            if not schema.is_message(field) or schema.is_map(field):
                continue
            if support.columns(name, field.name) == ['HONOURED']:
                held = schema.short_name(field.message_type)
                reason = support_tables.REFUSED.get(held)
                assert not isinstance(reason, str), f'{name}.{field.name} holds {held}'


# Their fields are read all at once, by the names that the schema gives them.
READ_AS_A_WHOLE = (
    'ExponentialDecayLearningRate',
    'ExponentialDecayWithWarmupLearningRate',
    'CosineDecayLearningRate',
    # The member that is set is asked for, and is the name of what makes it.
    'ImageResizer',
    'PreprocessingStep',
)
# What decides about these fields is this module's own condition.
DECIDED_HERE = {
    'TrainConfig.fine_tune_checkpoint_version',
    'ClusterConfig.mode',
    'InputReader.input_type',
    'Hyperparams.op',
}


def program_text():
    """The source of everything that may read a config, but the modules that check it."""
    root = pathlib.Path(support.__file__).resolve().parent.parent
    paths = [*(root / 'estimator_lib').rglob('*.py'), *(root / 'model_fns').rglob('*.py')]
    return '\n'.join(path.read_text() for path in paths if not path.name.startswith('config'))


def test_each_honoured_field_is_read_somewhere():
    text = program_text()
    unread = [
        f'{message}.{field}'
        for message, field in FIELDS
        if support.columns(message, field) == ['HONOURED']
        and message not in READ_AS_A_WHOLE
        and not re.search(rf"[.'\"]{field}\b", text)
    ]
    assert set(unread) <= DECIDED_HERE


def test_set_fields_are_found_in_lists_oneofs_and_maps():
    config = parse(
        'train_config { optimizer { sgd_optimizer { learning_rate { '
        'constant_learning_rate { learning_rate: 0 } } } } }'
        'eval_input_reader { name: "a" } eval_input_reader { name: "b" }'
    )
    paths = [path for path, *_ in support.set_fields(config)]
    constant = 'train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate'
    assert f'{constant}.learning_rate' in paths
    assert 'eval_input_reader.1.name' in paths
    assert 'eval_config' not in paths


def refused(text):
    return {problem.path: problem.text for problem in support.refused(parse(text))}


def test_a_refused_message_is_named_once():
    inside = 'first_stage_max_proposals: 3 image_resizer {}'
    assert list(refused(f'model {{ faster_rcnn {{ {inside} }} }}')) == ['model.faster_rcnn']
    assert list(refused('graph_rewriter { quantization { delay: 3 } }')) == ['graph_rewriter']


def test_refused_fields_have_reasons():
    found = refused(
        'train_config { use_multiclass_scores: true }'
        'eval_input_reader { num_additional_channels: 1 }'
        'model { ssd { mask_head_config {} feature_extractor { bifpn {} } '
        '    loss { equalization_loss { weight: 1 exclude_prefixes: "a" } } } }'
    )
    assert set(found) == {
        'train_config.use_multiclass_scores',
        'eval_input_reader.0.num_additional_channels',
        'model.ssd.mask_head_config',
        'model.ssd.feature_extractor.bifpn',
        'model.ssd.loss.equalization_loss.weight',
    }
    assert found['model.ssd.mask_head_config'] == 'not supported: masks need a two-stage model.'


# (setting, the kinds of model that it is refused for)
BY_MODEL = [
    (
        'train_config { data_augmentation_options { random_horizontal_flip {} } }',
        {'classification'},
    ),
    ('eval_config { metrics_set: "coco_detection_metrics" }', {'classification'}),
    ('eval_config { super_categories { key: "a" value: "b" } }', {'classification'}),
    ('eval_config { min_score_threshold: 0.1 }', set()),
]


@pytest.mark.parametrize(('text', 'kinds'), BY_MODEL)
def test_some_fields_are_refused_for_one_kind_of_model(text, kinds):
    found = {
        kind for kind in ('classification', 'ssd') if refused(f'{text} model {{ {kind} {{}} }}')
    }
    assert found == kinds


def test_a_refused_field_at_its_default_asks_for_nothing():
    text = (
        'train_config { use_multiclass_scores: false }train_input_reader { input_type: TF_EXAMPLE }'
    )
    assert refused(text) == {}


def test_parts_of_a_config_are_refused_with_their_path():
    part = ssd_pb2.Ssd()
    part.feature_extractor.conv_hyperparams.group_norm.SetInParent()
    part.use_confidences_as_targets = True
    with pytest.raises(errors.ConfigError) as caught:
        support.refuse(part, 'model.ssd')
    lines = str(caught.value).splitlines()
    assert lines[0] == 'the pipeline config has 2 problems:'
    assert lines[1].startswith('  model.ssd.feature_extractor.conv_hyperparams.group_norm: not ')
    assert lines[2] == '  model.ssd.use_confidences_as_targets: not supported: targets are one-hot.'
    support.refuse(ssd_pb2.Ssd(), 'model.ssd')


SINGLE_VALUES = [
    ('train_config { fine_tune_checkpoint: "a" fine_tune_checkpoint_version: %s }', 'V1', 'V2'),
    ('train_input_reader { input_type: %s }', 'INPUT_DEFAULT', 'TF_SEQUENCE_EXAMPLE'),
    ('model { ssd { feature_extractor { conv_hyperparams { op: %s } } } }', 'CONV', 'FC'),
]


@pytest.mark.parametrize(('text', 'accepted', 'not_accepted'), SINGLE_VALUES)
def test_single_values_of_an_honoured_field_can_be_refused(text, accepted, not_accepted):
    assert refused(text % accepted) == {}
    assert len(refused(text % not_accepted)) == 1


def test_the_version_of_no_checkpoint_does_not_matter():
    assert refused('train_config { fine_tune_checkpoint_version: V2 }') == {}


def test_every_condition_refuses_something():
    texts = ['model { classification {} } ' + text for text, _ in BY_MODEL]
    texts += [text % value for text, _, value in SINGLE_VALUES]
    reasons = {reason for text in texts for reason in refused(text).values()}
    for condition in support.CONDITIONS.values():
        assert f'not supported: {condition.reason}.' in reasons


def test_fields_without_effect_are_named_with_the_reason():
    config = parse(
        'train_config { batch_queue_capacity: 100 sync_replicas: true } '
        'eval_config { keypoint_edge { start: 1 } } model { classification {} }'
    )
    warnings = support.without_effect(config)
    assert {warning.split(' has no effect: ')[0] for warning in warnings} == {
        'train_config.batch_queue_capacity',
        'eval_config.keypoint_edge',
    }
    assert 'there are no queues' in ''.join(warnings)


def test_a_field_without_effect_at_its_default_is_not_named():
    config = parse('train_config { batch_queue_capacity: 150 unpad_groundtruth_tensors: true }')
    assert support.without_effect(config) == []


def test_what_detectors_alone_read_has_no_effect_on_a_classifier():
    text = 'eval_config { skip_scores: true } train_input_reader { num_keypoints: 3 }'
    for kind, count in (('classification', 2), ('ssd', 0)):
        config = parse(f'{text} model {{ {kind} {{}} }}')
        assert len(support.without_effect(config)) == count
