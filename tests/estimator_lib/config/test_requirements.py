"""Fields that have an effect only together with another one."""

import pytest
from google.protobuf import text_format

from estimator_lib.config import requirements, support, validation
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section
from protos import pipeline_pb2
from tests.estimator_lib.config import condition_names, ruled_schema

NO_TASK = ConfigRules()
RATE = 'optimizer.sgd_optimizer.learning_rate'


def optimizer(rate, fields=''):
    return f'optimizer {{ sgd_optimizer {{ learning_rate {{ {rate} }} }} {fields} }}'


def unmet(text, rules=NO_TASK):
    return list(requirements.unmet(rules, ruled_schema.parse(text)))


@pytest.mark.parametrize(
    'fields, expected',
    [
        ('merge: false', 'merge: more than 1 entry in layers'),
        ('merge: false layers: 1', 'merge: more than 1 entry in layers'),
        ('merge: false layers: [5, 1]', ''),
        ('merge: true', ''),  # Its default.
        ('narrow: 9 size: 5', 'narrow: size below 5'),
        ('narrow: 9 size: 4', ''),
        ('deep: true', 'deep: part'),
        ('deep: true part {}', ''),
        ('wide: true', 'wide: size: 8 or 9'),
        ('wide: true size: 9', ''),
        ('fast: true', 'fast: batch above 2 or wide'),
        ('fast: true wide: true size: 8', ''),
    ],
)
def test_a_field_that_lacks_what_it_needs(fields, expected):
    path, _, needed = expected.partition(': ')
    sentence = f'net.{path} has no effect without {needed}.'
    assert unmet(f'net {{ {fields} }} batch: 2') == ([sentence] if expected else [])


def test_a_path_leads_through_the_whole_config():
    text = 'net { fast: true } batch: %d'
    assert len(unmet(text % 2)) == 1 and unmet(text % 3) == []


def violated(text, rules=NO_TASK):
    parts = support.set_messages(rules, Section(ruled_schema.parse(text)))
    found = (problem for part in parts for problem in requirements.violated(rules, part))
    return {problem.path: problem.text for problem in found}


@pytest.mark.parametrize(
    'fields, text',
    [
        ('tall: true', 'it needs size above 4.'),
        ('tall: true size: 5', ''),
        ('tall: false', ''),  # Its default.
        ('flat: true part {}', 'it excludes part; set one.'),
        ('flat: true size: 8', 'it excludes size: 8 or 9.'),
        ('flat: true layers: [1, 2, 3]', 'it excludes more than 2 entries in layers.'),
        ('flat: true size: 7 layers: 1', ''),
        ('part {} size: 8', ''),
    ],
)
def test_what_a_field_needs_and_excludes(fields, text):
    name = fields.partition(':')[0]
    assert violated(f'net {{ {fields} }}') == ({f'net.{name}': text} if text else {})


def test_a_switch_is_turned_off():
    assert violated('net { flat: true tall: true size: 5 }') == {
        'net.flat': 'it excludes tall; expected tall: false.'
    }


def test_conflicts_of_fields():
    whole = ruled_schema.parse('sequences: true batch: 5 net { size: 6 part { dense: true } }')
    section = Section(whole)
    (found,) = requirements.conflicts(NO_TASK, section, whole)
    assert str(found) == 'net.size: 6; expected at most 5, batch.'
    whole.net.wide = True
    assert not list(requirements.conflicts(NO_TASK, section, whole))
    (found,) = requirements.conflicts(NO_TASK, section.child('net.part'), whole)
    assert str(found) == 'net.part.sparse: 5 at a time.'
    # Alone a part does not know the others.
    part = section.child('net.part')
    assert not list(requirements.conflicts(NO_TASK, part, part.message))


def test_a_oneof_stands_for_its_member():
    whole = ruled_schema.parse('sequences: true net { part { sparse: true } }')
    (found,) = requirements.conflicts(NO_TASK, Section(whole), whole)
    assert str(found) == 'net.part.sparse: too thin.'


def test_conflicts_that_are_no_problems():
    text = 'nets { wide: true } nets {} nets { odd: true deep: false } net { part { dense: true } }'
    assert list(requirements.conflict_warnings(NO_TASK, ruled_schema.parse(text))) == []
    assert list(
        requirements.conflict_warnings(NO_TASK, ruled_schema.parse(f'sequences: true {text}'))
    ) == [
        'nets.0.wide has no effect without a dense part.',
        'nets.2.odd has no effect without a dense part.',
        'nets.2.deep: true sequences.',
    ]


@pytest.mark.parametrize('table', ['ignored', 'unsupported'])
def test_conflicts_of_fields_that_are_not_supported(table):
    rules = ConfigRules(**{table: {'RuledConfig': {'nets': 'there is one'}}})
    text = 'sequences: true nets { deep: true }'
    assert list(requirements.conflict_warnings(rules, ruled_schema.parse(text))) == []


def test_rules_of_unsupported_fields_are_not_checked():
    rules = ConfigRules(unsupported={'RuledNet': {'tall': 'it is low'}})
    assert violated('net { tall: true }', rules) == {}


def test_what_is_not_supported_is_said_elsewhere():
    rules = ConfigRules(unsupported={'RuledNet': {'deep': 'it is flat'}})
    assert unmet('net { deep: true }', rules) == []


def test_what_is_no_condition():
    with pytest.raises(ValueError, match="'a ~ b' is no condition"):
        unmet('net { odd: true }')


@pytest.mark.parametrize(
    'condition, wrong',
    [
        ('num_step', 'num_step is no field'),
        ('model.segmentatoin.aspp', 'segmentatoin'),
        ('loop: TF_FUNCTOIN', 'TF_FUNCTOIN is no value of loop'),
    ],
)
def test_names_that_the_schema_does_not_have(condition, wrong):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    with pytest.raises((ValueError, AttributeError), match=wrong):
        condition_names.check_names(condition, config.train_config, config)


@pytest.mark.parametrize(
    'fields, expected',
    [
        ('checkpoint_include_scopes: "a"', 'checkpoint_include_scopes|fine_tune_checkpoint'),
        ('checkpoint_names { variable: "a" name: "b" }', 'checkpoint_names|fine_tune_checkpoint'),
        ('min_restored_fraction: 0.5', 'min_restored_fraction|fine_tune_checkpoint'),
        ('gradient_clipping: NORM_PER_VARIABLE', 'gradient_clipping|gradient_clipping_by_norm'),
        ('max_skipped_steps: 3', 'max_skipped_steps|non_finite_loss_policy: SKIP_STEP'),
        ('max_skipped_steps: 3 non_finite_loss_policy: SKIP_STEP', ''),
        ('steps_per_call: 3', 'steps_per_call|loop: TF_FUNCTION'),
        ('loss_scale: 8', 'loss_scale|use_bfloat16'),
        (
            'summarize_gradients: true progress { summary_every_n_steps: 0 }',
            'summarize_gradients|progress.summary_every_n_steps',
        ),
        ('summarize_gradients: true', ''),
        (
            optimizer(
                'constant_learning_rate {}', 'use_moving_average: false moving_average_decay: 0.9'
            ),
            'optimizer.moving_average_decay|use_moving_average',
        ),
        (
            optimizer('manual_step_learning_rate { warmup: true }'),
            f'{RATE}.manual_step_learning_rate.warmup|schedule',
        ),
        (
            optimizer('manual_step_learning_rate { warmup: true schedule { step: 3 } }'),
            '',
        ),
        (
            optimizer('exponential_decay_learning_rate { burnin_learning_rate: 0.1 }'),
            f'{RATE}.exponential_decay_learning_rate.burnin_learning_rate|burnin_steps',
        ),
    ],
)
def test_fields_of_training(fields, expected):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'train_config {{ {fields} }}', config)
    field, _, needed = expected.partition('|')
    sentence = f'train_config.{field} has no effect without {needed}.'
    found = validation.validate(config, None)
    assert found == ([sentence] if expected else [])
