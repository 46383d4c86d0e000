"""When evaluations are reason enough to stop."""

import json
import math

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.evaluation.early_stopping import EarlyStopping
from protos import train_pb2


def decisions(stopping, values):
    """What it says after evaluations at steps 10, 20, ..."""
    return [stopping.update(10 * (i + 1), {'m': value}) for i, value in enumerate(values)]


def test_higher_is_better():
    stopping = EarlyStopping('m', patience_evaluations=2)
    assert decisions(stopping, [0.1, 0.3, 0.2, 0.31, 0.31, 0.1]) == [False] * 5 + [True]


def test_lower_is_better():
    stopping = EarlyStopping('m', higher_is_better=False, patience_evaluations=2)
    assert decisions(stopping, [3.0, 2.0, 2.5, 2.0]) == [False, False, False, True]


def test_min_delta_is_what_has_to_be_exceeded():
    stopping = EarlyStopping('m', patience_evaluations=1, min_delta=0.5)
    assert decisions(stopping, [1.0, 2.0, 2.5]) == [False, False, True]


def test_min_steps():
    stopping = EarlyStopping('m', patience_evaluations=1, min_steps=40)
    assert decisions(stopping, [1.0, 0.0, 0.0, 0.0]) == [False, False, False, True]


def test_nan_and_infinity_are_never_better():
    stopping = EarlyStopping('m', patience_evaluations=2)
    assert decisions(stopping, [math.nan, 1.0, math.inf, math.nan]) == [False, False, False, True]
    assert stopping.state.best == 1.0
    never = EarlyStopping('m', patience_evaluations=2)
    assert decisions(never, [math.nan, math.nan]) == [False, True]


def test_a_restart_remembers(tmp_path):
    path = str(tmp_path / 'eval_0' / 'early_stopping.json')
    assert not any(decisions(EarlyStopping('m', patience_evaluations=3, path=path), [5.0, 4.0]))
    again = EarlyStopping('m', patience_evaluations=3, path=path)
    assert again.state.best == 5.0 and again.state.best_step == 10
    assert not again.update(30, {'m': 4.0})
    assert again.update(40, {'m': 4.0})
    assert json.loads((tmp_path / 'eval_0' / 'early_stopping.json').read_text()) == {
        'metric': 'm',
        'higher_is_better': True,
        'best': 5.0,
        'best_step': 10,
        'steps': [20, 30, 40],
    }


def test_an_evaluation_that_is_repeated_counts_once(tmp_path):
    path = str(tmp_path / 'state.json')
    stopping = EarlyStopping('m', patience_evaluations=2, path=path)
    decisions(stopping, [1.0, 0.5])
    again = EarlyStopping('m', patience_evaluations=2, path=path)
    assert not again.update(20, {'m': 0.5})
    assert not again.update(10, {'m': 1.0})
    assert again.state.steps == (20,)


def test_another_patience_is_applied_to_what_is_remembered(tmp_path):
    path = str(tmp_path / 'state.json')
    assert decisions(EarlyStopping('m', patience_evaluations=1, path=path), [1.0, 0.5])[1]
    assert not EarlyStopping('m', patience_evaluations=2, path=path).should_stop(20)


def test_another_metric_starts_anew(tmp_path):
    path = str(tmp_path / 'state.json')
    decisions(EarlyStopping('m', path=path), [1.0])
    assert EarlyStopping('other', path=path).state.best is None
    assert EarlyStopping('m', higher_is_better=False, path=path).state.best is None


def test_another_process_sees_what_was_written(tmp_path):
    path = str(tmp_path / 'state.json')
    chief = EarlyStopping('m', patience_evaluations=1, path=path)
    decisions(EarlyStopping('m', patience_evaluations=1, path=path), [1.0, 0.5])
    assert not chief.should_stop(20)
    assert chief.another_says_stop(20)


@pytest.mark.parametrize(
    'run_step,best,steps', [(30, 1.0, (20, 30)), (29, 1.0, (20,)), (10, 1.0, ()), (9, None, ())]
)
def test_evaluations_of_steps_that_the_run_has_not_come_to_are_forgotten(
    tmp_path, run_step, best, steps
):
    path = str(tmp_path / 'state.json')
    decisions(EarlyStopping('m', patience_evaluations=2, path=path), [1.0, 0.5, 0.5])
    stopping = EarlyStopping('m', patience_evaluations=2, path=path, run_step=run_step)
    assert (stopping.state.best, stopping.state.steps) == (best, steps)
    assert stopping.should_stop(run_step) == (run_step == 30)
    # The chief of a cluster, which reads what is written, sees the same.
    assert stopping.another_says_stop(1) == (run_step == 30)


def test_an_unknown_metric_lists_the_known():
    stopping = EarlyStopping('acuracy')
    with pytest.raises(errors.ConfigError, match=r"'acuracy'; did you mean 'accuracy'\?.*loss"):
        stopping.update(1, {'accuracy': 1.0, 'loss': 2.0})


@pytest.mark.parametrize(
    'text',
    [
        '{"metric": ',
        '[]',
        '{"metric": "m", "higher_is_better": true, "best": 1, "steps": [[]]}',
        '{"metric": "m", "higher_is_better": true, "best": Infinity, "best_step": 1, "steps": [1]}',
        '{"metric": "m", "higher_is_better": true, "best": 1, "best_step": Infinity, "steps": [1]}',
    ],
)
def test_a_damaged_file_is_named_and_started_anew(tmp_path, text, caplog):
    path = tmp_path / 'state.json'
    path.write_text(text)
    stopping = EarlyStopping('m', patience_evaluations=1, path=str(path))
    assert 'state.json' in caplog.text
    assert decisions(stopping, [1.0, 0.5]) == [False, True]


def from_config(text, folder='somewhere'):
    config = text_format.Parse(text, train_pb2.EarlyStopping())
    return EarlyStopping.from_config(config, folder)


def test_from_config(tmp_path):
    text = "metric: 'm' higher_is_better: false patience_evaluations: 2 min_delta: 1 min_steps: 30"
    stopping = from_config(text, str(tmp_path))
    assert decisions(stopping, [5.0, 4.5, 4.5]) == [False, False, True]
    assert (tmp_path / 'early_stopping.json').exists()


BAD = [
    ('', 'metric is empty'),
    ("metric: 'm' patience_evaluations: 0", 'patience_evaluations is 0; expected at least 1'),
    ("metric: 'm' min_delta: -1", 'min_delta is -1.0'),
    ("metric: 'm' min_delta: nan", 'min_delta is nan'),
]


@pytest.mark.parametrize('text,message', BAD)
def test_bad_values_are_named(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        from_config(text)


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20),
    patience=st.integers(1, 4),
)
def test_stops_exactly_when_the_best_is_patience_evaluations_old(values, patience):
    stopping = EarlyStopping('m', patience_evaluations=patience)
    for index, decision in enumerate(decisions(stopping, values)):
        seen = values[: index + 1]
        finite = [value for value in seen if math.isfinite(value)]
        since_best = len(seen) - seen.index(max(finite)) - 1 if finite else len(seen)
        assert decision == (since_best >= patience)


def test_each_decision_tells_value_best_and_direction(caplog):
    stopping = EarlyStopping('m', higher_is_better=False, patience_evaluations=2, min_delta=0.1)
    with caplog.at_level('INFO'):
        decisions(stopping, [3.0, 2.95])
    assert (
        'm 2.95 at step 20 is not below 3 of step 10 by more than 0.1, 1 of 2 evaluations'
    ) in caplog.text
