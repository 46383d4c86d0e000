"""Schedules at and around each boundary, by hand, and against recorded ones."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.optimization import learning_rates
from protos import optimizer_pb2, pipeline_pb2


def rates_of(schedule, steps, **kwargs):
    """A pure schedule at each of some steps."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rate = schedule(tf.constant(steps, tf.int64), **kwargs)
        assert rate.dtype == tf.float32
        return np.broadcast_to(session.run(rate), [len(steps)])


def configured_rates(text, steps, num_steps=0):
    """The schedule of a config, one step at a time, as training runs it."""
    config = text_format.Parse(text, optimizer_pb2.LearningRate())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, [])
        rate = learning_rates.create_learning_rate(config, step, num_steps)
        assert rate.shape == []
        assert rate.op.name == 'learning_rate'
        return [session.run(rate, {step: value}) for value in steps]


DECAY = {'decay_steps': 10, 'decay_factor': 0.5}
EXPONENTIAL = {'initial_learning_rate': 0.8, **DECAY}
BURN_IN = {**EXPONENTIAL, 'burnin_learning_rate': 0.1, 'burnin_steps': 5}
WARMED = {'learning_rate_base': 0.8, **DECAY, 'warmup_learning_rate': 0.2, 'warmup_steps': 4}
COSINE = {'learning_rate_base': 0.3, 'warmup_learning_rate': 0.1, 'warmup_steps': 4}
exponential, exponential_with_warmup, manual_step, cosine = (
    learning_rates.exponential_decay,
    learning_rates.exponential_decay_with_warmup,
    learning_rates.manual_step,
    learning_rates.cosine_decay,
)
# Schedule, its arguments, and rates by step.
CASES = {
    'constant': (learning_rates.constant, {'learning_rate': 0.25}, {0: 0.25, 10: 0.25}),
    'staircase': (
        exponential,
        EXPONENTIAL,
        {0: 0.8, 9: 0.8, 10: 0.4, 11: 0.4, 19: 0.4, 20: 0.2, 30: 0.1},
    ),
    'smooth': (
        exponential,
        {**EXPONENTIAL, 'staircase': False},
        {0: 0.8, 5: 0.8 / math.sqrt(2), 10: 0.4},
    ),
    'the decay counts from the end of the burn-in': (
        exponential,
        BURN_IN,
        {0: 0.1, 4: 0.1, 5: 0.8, 14: 0.8, 15: 0.4, 24: 0.4, 25: 0.2},
    ),
    'a burn-in rate of 0 is the initial rate': (
        exponential,
        {**EXPONENTIAL, 'burnin_steps': 5},
        {0: 0.8, 4: 0.8, 14: 0.8, 15: 0.4},
    ),
    'a minimum bounds decay and burn-in': (
        exponential,
        {**BURN_IN, 'min_learning_rate': 0.3},
        {0: 0.3, 4: 0.3, 5: 0.8, 15: 0.4, 25: 0.3, 1000: 0.3},
    ),
    'exponential with warm-up': (
        exponential_with_warmup,
        {**WARMED, 'min_learning_rate': 0.15},
        {0: 0.2, 1: 0.35, 3: 0.65, 4: 0.8, 13: 0.8, 14: 0.4, 24: 0.2, 34: 0.15, 1000: 0.15},
    ),
    'a minimum bounds the warm-up': (
        exponential_with_warmup,
        {**WARMED, 'min_learning_rate': 0.3},
        {0: 0.3, 1: 0.35, 4: 0.8},
    ),
    'manual steps have the new rate at the boundary': (
        manual_step,
        {'boundaries': [5, 10], 'rates': [0.1, 0.01, 0.001]},
        {0: 0.1, 4: 0.1, 5: 0.01, 9: 0.01, 10: 0.001, 1000: 0.001},
    ),
    'the warm-up of manual steps goes to the second rate': (
        manual_step,
        {'boundaries': [4, 10], 'rates': [0.1, 0.5, 0.05], 'warmup': True},
        {0: 0.1, 1: 0.2, 3: 0.4, 4: 0.5, 9: 0.5, 10: 0.05},
    ),
    'cosine with warm-up and hold': (
        cosine,
        {**COSINE, 'total_steps': 10, 'hold_base_rate_steps': 2},
        # In the decay 0.15 (1 + cos(x)) of a quarter, half and three quarters of pi.
        {0: 0.1, 2: 0.2, 4: 0.3, 6: 0.3, 7: 0.25606602, 8: 0.15, 9: 0.043933983, 10: 0, 1000: 0},
    ),
    'cosine alone': (
        cosine,
        {'learning_rate_base': 0.3, 'total_steps': 4},
        {0: 0.3, 1: 0.15 * (1 + math.sqrt(0.5)), 2: 0.15, 4: 0.0, 5: 0.0},
    ),
    # Without room for the decay it is finite.
    'cosine of warm-up alone': (
        cosine,
        {**COSINE, 'total_steps': 4},
        {0: 0.1, 2: 0.2, 4: 0.3, 5: 0.0},
    ),
    'cosine that ends within its hold': (
        cosine,
        {**COSINE, 'total_steps': 4, 'hold_base_rate_steps': 3},
        {0: 0.1, 2: 0.2, 4: 0.3, 5: 0.0},
    ),
    'polynomial': (
        learning_rates.polynomial_decay,
        {'initial_learning_rate': 1.1, 'end_learning_rate': 0.1, 'decay_steps': 4, 'power': 2.0},
        {0: 1.1, 1: 0.1 + 0.5625, 2: 0.35, 4: 0.1, 5: 0.1, 1000: 0.1},
    ),
    # Steps that a float32 does not distinguish.
    'manual steps beyond 2^24': (
        manual_step,
        {'boundaries': [2**24 + 1], 'rates': [0.1, 0.2]},
        {2**24: 0.1, 2**24 + 1: 0.2},
    ),
    'exponential beyond 2^24': (
        exponential,
        {'initial_learning_rate': 1.0, 'decay_steps': 2**24 + 1, 'decay_factor': 0.5},
        {2**24: 1.0, 2**24 + 1: 0.5},
    ),
}


@pytest.mark.parametrize('case', CASES)
def test_rates_by_step(case):
    schedule, arguments, expected = CASES[case]
    rates = rates_of(schedule, list(expected), **arguments)
    np.testing.assert_allclose(rates, list(expected.values()), rtol=1e-6)


@pytest.mark.parametrize('warmup', ['', 'warmup: true'])
def test_manual_step_without_steps_is_a_constant(warmup):
    text = f'manual_step_learning_rate {{ initial_learning_rate: 0.25 {warmup} }}'
    np.testing.assert_array_equal(configured_rates(text, [0, 1, 10**6]), [0.25] * 3)


def test_polynomial_length_defaults_to_the_run():
    text = 'polynomial_decay_learning_rate { initial_learning_rate: 1 end_learning_rate: 0 }'
    np.testing.assert_allclose(configured_rates(text, [0, 5, 10], num_steps=10), [1, 0.5, 0])
    with pytest.raises(errors.ConfigError, match='0 stands for train_config.num_steps'):
        configured_rates(text, [0], num_steps=0)


def test_cosine_length_defaults_to_the_run():
    """A peak of 1 at step 2, the middle of the cosine at 6, its end at 10."""
    text = 'cosine_decay_learning_rate { learning_rate_base: 1 warmup_learning_rate: 0.5 '
    steps, rates = [0, 1, 2, 6, 10, 11], [0.5, 0.75, 1, 0.5, 0, 0]
    for total in ('', 'total_steps: 10 '):
        got = configured_rates(f'{text}{total}warmup_steps: 2 }}', steps, num_steps=10)
        np.testing.assert_allclose(got, rates, atol=1e-7)
    # A run that is shorter than the warm-up sees its beginning.
    got = configured_rates(f'{text}warmup_steps: 20 }}', [0, 4], num_steps=5)
    np.testing.assert_allclose(got, [0.5, 0.6], rtol=1e-6)
    # Without an end it is the default of the field.
    got = configured_rates(f'{text}warmup_steps: 0 }}', [0, 2_000_000, 4_000_000], num_steps=0)
    np.testing.assert_allclose(got, [1, 0.5, 0], atol=1e-6)


def test_rates_of_several_steps():
    text = 'polynomial_decay_learning_rate { initial_learning_rate: 1 end_learning_rate: 0 }'
    config = text_format.Parse(text, optimizer_pb2.LearningRate())
    np.testing.assert_allclose(learning_rates.compute_rates(config, [0, 5, 10], 10), [1, 0.5, 0])
    constant = optimizer_pb2.LearningRate(constant_learning_rate={'learning_rate': 0.25})
    assert learning_rates.compute_rates(constant, [0, 9], 10).tolist() == [0.25, 0.25]


@settings(max_examples=20, deadline=None)
@given(
    total=st.integers(1, 50),
    warmup=st.integers(0, 50),
    hold=st.integers(0, 60),
    low=st.floats(0, 1),
    rise=st.floats(0, 1),
)
def test_cosine_is_finite_and_between_zero_and_base(total, warmup, hold, low, rise):
    warmup = min(warmup, total)
    rates = rates_of(
        learning_rates.cosine_decay,
        list(range(70)),
        learning_rate_base=low + rise,
        total_steps=total,
        warmup_learning_rate=low,
        warmup_steps=warmup,
        hold_base_rate_steps=hold,
    )
    assert np.all(rates >= 0) and np.all(rates <= (low + rise) * (1 + 1e-6))
    assert np.all(np.diff(rates[: warmup + 1]) >= -1e-6)
    assert np.all(np.diff(rates[warmup:]) <= 1e-6)


# All rules have their tests in `config/test_schedule_checks.py` and with the rules of fields.
BAD = [
    ('', 'learning_rate: not set; expected one of'),
    ('constant_learning_rate { learning_rate: -1 }', 'learning_rate: -1; expected at least 0'),
    ('constant_learning_rate { learning_rate: nan }', 'learning_rate: nan; expected a finite'),
    ('exponential_decay_learning_rate { decay_steps: 0 }', 'decay_steps: 0; expected at least 1'),
    ('cosine_decay_learning_rate { total_steps: 9 warmup_steps: 10 }', 'total_steps: 9; expected'),
    ('deeplab_learning_rate { decay_steps: 5 learning_power: 0 }', 'learning_power: 0; expected'),
]


@pytest.mark.parametrize('text,message', BAD)
def test_bad_values_are_named(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        configured_rates(text, [0])


def test_a_cosine_ends_at_its_last_rate():
    text = (
        'cosine_decay_learning_rate { learning_rate_base: 0.1 end_learning_rate: 0.02 '
        'warmup_steps: 0 total_steps: 10 }'
    )
    # In the middle it is the mean of both.
    rates = configured_rates(text, [0, 5, 10, 11])
    np.testing.assert_allclose(rates, [0.1, 0.06, 0.02, 0.02], rtol=1e-6)


STABLE = (
    'warmup_stable_decay_learning_rate { learning_rate_base: 0.1 warmup_learning_rate: 0.02 '
    'warmup_steps: 2 cool_down_steps: 4 end_learning_rate: 0.02 %s }'
)


def test_warmup_constant_and_cool_down():
    # The cool-down begins at step 6; 0.1 - 0.08 * sqrt(1 / 4) is 0.06.
    expected = [0.02, 0.06, 0.1, 0.1, 0.06, 0.02, 0.02]
    steps = [0, 1, 2, 6, 7, 10, 11]
    np.testing.assert_allclose(configured_rates(STABLE % 'total_steps: 10', steps), expected, 1e-6)
    # The length is that of the run.
    config = text_format.Parse(STABLE % '', optimizer_pb2.LearningRate())
    np.testing.assert_allclose(learning_rates.compute_rates(config, steps, 10), expected, 1e-6)
    # A longer run has the same rates before the cool-down; one without end has none.
    longer = learning_rates.compute_rates(config, range(26), 30)
    np.testing.assert_allclose(longer[:7], learning_rates.compute_rates(config, range(7), 10))
    assert longer[26 - 1] == np.float32(0.1)
    np.testing.assert_allclose(learning_rates.compute_rates(config, [2, 10**6], 0), [0.1, 0.1])


def test_warmup_rate_without_warmup_steps_has_no_say():
    text = (
        'cosine_decay_learning_rate { learning_rate_base: 0.0001 warmup_steps: 0 total_steps: 10 }'
    )
    np.testing.assert_allclose(configured_rates(text, [0]), [0.0001])


def test_global_step_variable_is_followed():
    config = text_format.Parse(
        'manual_step_learning_rate { initial_learning_rate: 1 '
        'schedule { step: 1 learning_rate: 2 } }',
        optimizer_pb2.LearningRate(),
    )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.get_or_create_global_step()
        rate = learning_rates.create_learning_rate(config, step, num_steps=10)
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(rate) == 1.0
        session.run(step.assign_add(1))
        assert session.run(rate) == 2.0


OPS = [
    ('constant_learning_rate { }', 5),
    ('cosine_decay_learning_rate { hold_base_rate_steps: 5 }', 35),
    ('manual_step_learning_rate { schedule { step: 1 } schedule { step: 2 } warmup: true }', 35),
]


@pytest.mark.parametrize('text,most', OPS)
def test_graph_is_small(text, most):
    config = text_format.Parse(text, optimizer_pb2.LearningRate())
    with tf.Graph().as_default() as graph:
        learning_rates.create_learning_rate(config, tf.constant(0, tf.int64), 10)
    assert len(graph.get_operations()) <= most


# Recorded schedules.

PURE = {
    'exponential_decay_with_burnin': (
        learning_rates.exponential_decay,
        {
            'learning_rate_base': 'initial_learning_rate',
            'learning_rate_decay_steps': 'decay_steps',
            'learning_rate_decay_factor': 'decay_factor',
        },
    ),
    'exponential_decay_with_warmup': (
        learning_rates.exponential_decay_with_warmup,
        {
            'learning_rate_decay_steps': 'decay_steps',
            'learning_rate_decay_factor': 'decay_factor',
        },
    ),
    'cosine_decay_with_warmup': (learning_rates.cosine_decay, {}),
    'manual_stepping': (learning_rates.manual_step, {}),
}


def recorded(shared):
    return json.loads((shared / 'golden' / 'learning_rates.json').read_text())


def deeplab_text(params):
    names = {'learning_policy': 'policy', 'boundary_learning_rates': 'learning_rates'}
    fields = []
    for key, value in params.items():
        for item in value if isinstance(value, list) else [value]:
            if key == 'learning_policy':
                item = item.upper()
            elif key == 'decay_steps':
                item = int(item)
            fields.append(f'{names.get(key, key)}: {item}')
    return 'deeplab_learning_rate { ' + ' '.join(fields) + ' }'


def evaluate_recorded(case):
    kind, params, steps = case['kind'], case['params'], case.get('steps', [0])
    if kind == 'deeplab.get_model_learning_rate':
        return configured_rates(deeplab_text(params), steps)
    if kind == 'object_detection.optimizer_builder':
        optimizer = text_format.Parse(params, optimizer_pb2.Optimizer())
        chosen = getattr(optimizer, optimizer.WhichOneof('optimizer'))
        return configured_rates(text_format.MessageToString(chosen.learning_rate), steps)
    schedule, renamed = PURE[kind.rsplit('.', 1)[1]]
    return rates_of(schedule, steps, **{renamed.get(k, k): v for k, v in params.items()})


def test_recorded_schedules(shared):
    cases = recorded(shared)
    assert len(cases) > 10
    for case in cases:
        if case.get('error') == 'ValueError: Empty learning rate schedule.':
            # A rate that never changes; only the published builder refuses to make one.
            np.testing.assert_allclose(evaluate_recorded(case), [0.1], rtol=1e-6)
            continue
        if 'error' in case:
            continue  # `config/test_schedule_checks.py` refuses these
        np.testing.assert_allclose(
            evaluate_recorded(case), case['values'], rtol=1e-6, err_msg=str(case['params'])
        )


def test_published_configs_have_valid_schedules(shared):
    paths = sorted((shared / 'configs' / 'tf1').glob('*.config'))
    assert paths
    for path in paths:
        config = text_format.Parse(path.read_text(), pipeline_pb2.TrainEvalPipelineConfig())
        optimizer = config.train_config.optimizer
        chosen = getattr(optimizer, optimizer.WhichOneof('optimizer'))
        with tf.Graph().as_default():
            step = tf.constant(0, tf.int64)
            learning_rates.create_learning_rate(
                chosen.learning_rate, step, config.train_config.num_steps
            )
