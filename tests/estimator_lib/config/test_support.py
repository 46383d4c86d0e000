"""Field support, applied to configs."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import support
from estimator_lib.config.engine_rules import ENGINE
from estimator_lib.config.rules import ALL, Condition, ConfigRules, names
from protos import model_pb2, pipeline_pb2

# A task that knows one of its model's fields, and a part of another.
RULES = ENGINE + ConfigRules(
    supported={
        'DetectionModel': names('segmentation'),
        'Segmentation': names('num_classes loss edge'),
        'SegmentationLoss': ALL,
    },
    ignored={'Segmentation': {'merge_method': 'there is one'}},
    unsupported={'Segmentation': {'aspp': 'there is none', 'crop_width': 'it is square'}},
    conditions={'SegmentationLoss.weight': Condition(lambda value, _: value != 3, 'three is odd')},
)


def parse(text):
    return config_lib.parse_pipeline_config(text, 'text')


def unsupported(text, rules=RULES):
    return {problem.path: problem.text for problem in support.unsupported(rules, parse(text))}


def test_set_fields_are_found_in_lists_oneofs_and_maps():
    config = parse(
        'train_config { optimizer { sgd_optimizer { learning_rate { '
        'constant_learning_rate { learning_rate: 0 } } } } }'
        'eval_input_reader { name: "a" } eval_input_reader { name: "b" }'
    )
    paths = [path for path, *_ in support.set_fields(RULES, config)]
    constant = 'train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate'
    assert f'{constant}.learning_rate' in paths
    assert 'eval_input_reader.1.name' in paths
    assert 'eval_config' not in paths


def test_an_unsupported_message_is_named_once():
    assert unsupported('train_input_reader { external_input_reader {} }').keys() == {
        'train_input_reader.external_input_reader'
    }
    found = unsupported('model { segmentation { aspp { num_filters: 3 } } }')
    assert found == {'model.segmentation.aspp': 'not supported: there is none.'}


def test_an_unsupported_field_at_its_default_asks_for_nothing():
    assert unsupported('eval_config { ignore_groundtruth: false }') == {}
    assert unsupported('eval_config { ignore_groundtruth: true }') == {
        'eval_config.ignore_groundtruth': (
            'not supported: an evaluation needs the labels of its examples.'
        )
    }


def test_a_condition_on_a_value():
    text = 'model { segmentation { loss { weight: %d } } }'
    assert unsupported(text % 2) == {}
    assert unsupported(text % 3) == {
        'model.segmentation.loss.weight': 'not supported: three is odd.'
    }


def test_what_has_no_rules_is_not_looked_at():
    text = 'model { segmentation { aspp {} } }'
    assert unsupported(text, ENGINE) == {}
    paths = [path for path, _ in support.set_messages(ENGINE, parse(text))]
    assert paths == ['', 'model']


def test_parts_of_a_config_are_refused_with_their_path():
    part = model_pb2.DetectionModel()
    part.segmentation.aspp.SetInParent()
    part.segmentation.crop_width = 3
    with pytest.raises(errors.ConfigError) as caught:
        support.refuse(RULES, part.segmentation, 'model.segmentation')
    assert str(caught.value).splitlines() == [
        'the pipeline config has 2 problems:',
        '  model.segmentation.crop_width: not supported: it is square.',
        '  model.segmentation.aspp: not supported: there is none.',
    ]
    support.refuse(RULES, pipeline_pb2.TrainEvalPipelineConfig(), '')


def test_ignored_fields_are_named_with_the_reason():
    config = parse(
        'train_config { batch_queue_capacity: 100 sync_replicas: true } '
        'model { segmentation { merge_method: MERGE_AVERAGE } }'
    )
    assert list(support.ignored(RULES, config)) == [
        'model.segmentation.merge_method has no effect: there is one.',
        'train_config.batch_queue_capacity has no effect: there are no queues: the input pipeline '
        'feeds the network directly.',
    ]


def test_an_ignored_field_at_its_default_is_not_named():
    config = parse('train_config { batch_queue_capacity: 150 }')
    assert list(support.ignored(RULES, config)) == []
