"""The table of honoured fields: whole, and obeyed."""

import pathlib
import re

import pytest

from estimator_lib import config as config_lib
from estimator_lib import config_fields, config_schema
from protos import pipeline_pb2

ROOT = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
FIELDS = sorted(config_schema.schema_fields(ROOT))
COLUMNS = {
    'HONOURED': config_fields.HONOURED,
    'NO_EFFECT': config_fields.NO_EFFECT,
    'REFUSED': config_fields.REFUSED,
}


def parse(text):
    return config_lib.parse_pipeline_config(text, 'text')


def test_each_field_of_the_schema_is_in_exactly_one_column():
    assert len(FIELDS) > 850
    wrong = {field: config_fields.columns(*field) for field in FIELDS}
    assert {field: found for field, found in wrong.items() if len(found) != 1} == {}


def test_a_field_without_a_column_would_be_seen():
    assert config_fields.columns('TrainConfig', 'not_a_field') == []


@pytest.mark.parametrize('column', COLUMNS)
def test_the_table_names_nothing_that_the_schema_does_not_have(column):
    known = {}
    for message, field in FIELDS:
        known.setdefault(message, set()).add(field)
    for message, fields in COLUMNS[column].items():
        assert message in known, message
        if not isinstance(fields, str) and fields != config_fields.ALL:
            assert set(fields) <= known[message], message


def test_every_reason_is_a_phrase():
    reasons = [
        reason
        for column in (config_fields.NO_EFFECT, config_fields.REFUSED)
        for fields in column.values()
        for reason in ([fields] if isinstance(fields, str) else fields.values())
    ]
    reasons += [condition.reason for condition in config_fields.CONDITIONS.values()]
    assert all(reason and not reason.endswith('.') for reason in reasons)


def test_conditions_are_on_honoured_fields():
    for name in config_fields.CONDITIONS:
        assert config_fields.columns(*name.rsplit('.', 1)) == ['HONOURED']


def test_what_an_honoured_message_holds_is_not_refused_as_a_whole():
    """A line that moves to HONOURED takes the messages under it along."""
    for message in config_schema.reachable_messages(ROOT):
        name = config_schema.short_name(message)
        for field in message.fields:
            if not config_schema.is_message(field) or config_schema.is_map(field):
                continue
            if config_fields.columns(name, field.name) == ['HONOURED']:
                held = config_schema.short_name(field.message_type)
                reason = config_fields.REFUSED.get(held)
                assert not isinstance(reason, str), f'{name}.{field.name} holds {held}'


# Their fields are read all at once, by the names that the schema gives them.
READ_AS_A_WHOLE = (
    'ExponentialDecayLearningRate',
    'ExponentialDecayWithWarmupLearningRate',
    'CosineDecayLearningRate',
)
# What decides about these fields is this module's own condition.
DECIDED_HERE = {'TrainConfig.fine_tune_checkpoint_version', 'ClusterConfig.mode'}


def program_text():
    """The source of everything that may read a config, but the modules that check it."""
    root = pathlib.Path(config_fields.__file__).resolve().parent.parent
    paths = [*(root / 'estimator_lib').rglob('*.py'), *(root / 'model_fns').rglob('*.py')]
    return '\n'.join(path.read_text() for path in paths if not path.name.startswith('config'))


def test_each_honoured_field_is_read_somewhere():
    text = program_text()
    unread = [
        f'{message}.{field}'
        for message, field in FIELDS
        if config_fields.columns(message, field) == ['HONOURED']
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
    paths = [path for path, *_ in config_fields.set_fields(config)]
    constant = 'train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate'
    assert f'{constant}.learning_rate' in paths
    assert 'eval_input_reader.1.name' in paths
    assert 'eval_config' not in paths


def refused(text):
    return {problem.path: problem.text for problem in config_fields.refused(parse(text))}


def test_a_refused_message_is_named_once():
    assert list(refused('model { ssd { num_classes: 3 loss {} } }')) == ['model.ssd']
    assert list(refused('graph_rewriter { quantization { delay: 3 } }')) == ['graph_rewriter']


def test_refused_fields_have_reasons():
    found = refused(
        'train_config { sync_replicas: true replicas_to_aggregate: 8 '
        'data_augmentation_options { random_horizontal_flip {} } }'
        'eval_input_reader { num_additional_channels: 1 }'
    )
    assert set(found) == {
        'train_config.sync_replicas',
        'train_config.replicas_to_aggregate',
        'train_config.data_augmentation_options',
        'eval_input_reader.0.num_additional_channels',
    }
    assert 'several devices or machines' in found['train_config.sync_replicas']


def test_a_refused_field_at_its_default_asks_for_nothing():
    text = (
        'train_config { sync_replicas: false replicas_to_aggregate: 1 cluster { num_clones: 0 } }'
    )
    assert refused(text) == {}


def test_single_values_of_an_honoured_field_can_be_refused():
    assert refused('train_config { cluster { mode: AUTO } }') == {}
    found = refused('train_config { cluster { mode: MIRRORED } fine_tune_checkpoint_version: V2 }')
    assert set(found) == {'train_config.cluster.mode', 'train_config.fine_tune_checkpoint_version'}


def test_fields_without_effect_are_named_with_the_reason():
    config = parse(
        'train_config { batch_queue_capacity: 150 } eval_config { keypoint_edge { start: 1 } }'
    )
    warnings = config_fields.without_effect(config)
    assert warnings[0].startswith('train_config.batch_queue_capacity has no effect: there are no ')
    assert warnings[1].startswith('eval_config.keypoint_edge has no effect: ')
    assert len(warnings) == 2


def test_published_configs_are_told_apart_by_what_is_refused(shared):
    for path in sorted((shared / 'configs' / 'tf1').glob('*.config')):
        problems = config_fields.refused(config_lib.load_pipeline_config(str(path)))
        assert problems[0].path in ('model.ssd', 'model.faster_rcnn')
