"""How the ops of a step are set beside those of the bare network."""

import contextlib
import types

import model_fns
from benchmarks import step_ops
from benchmarks.op_times import Op

STEP = {
    Op('net/conv', 'Conv2D'): 5.0,
    Op('net/other', 'Conv2D'): 2.0,
    Op('targets/top', 'TopKV2'): 4.0,
    Op('net/relu', 'Relu'): 0.5,
}
# The same op may run as another kernel.
BARE = {Op('net/conv', 'Conv2D'): 3.0, Op('net/other', '_FusedConv2D'): 1.0}


def test_kinds_of_both_sides_stand_side_by_side():
    assert step_ops.kinds(STEP, BARE) == [
        ('Conv2D', 7.0, 2, 3.0, 1),
        ('TopKV2', 4.0, 1, 0.0, 0),
        ('Relu', 0.5, 1, 0.0, 0),
        ('_FusedConv2D', 0.0, 0, 1.0, 1),
    ]


def test_costly_ops_are_looked_for_in_the_bare_network_by_name():
    assert step_ops.costliest(STEP, BARE, 3) == [
        ('net/conv', 'Conv2D', 5.0, 3.0),
        ('targets/top', 'TopKV2', 4.0, None),
        ('net/other', 'Conv2D', 2.0, 1.0),
    ]


def test_a_table_has_sums_and_says_what_the_bare_network_lacks():
    lines = [line.split() for line in step_ops.table(STEP, BARE, rows=1).splitlines()]
    assert lines[1:4] == [
        ['Conv2D', '7.0', '(', '2)', '3.0', '(', '1)', '+4.0'],
        ['all', 'others', '4.5', '(', '2)', '1.0', '(', '1)', '+3.5'],
        ['all', '11.5', '(', '4)', '4.0', '(', '2)', '+7.5'],
    ]
    assert ['TopKV2', '4.0', 'none', 'targets/top'] in lines
    assert ['Conv2D', '2.0', '1.0', 'net/other'] in lines


def test_a_table_of_few_kinds_has_no_others():
    lines = step_ops.table({Op('a', 'Relu'): 1.0}, {}).splitlines()
    assert lines[2].split() == ['all', 'others', '0.0', '(', '0)', '0.0', '(', '0)', '+0.0']


def test_both_sides_take_turns_and_the_least_counts(monkeypatch):
    op = Op('net/conv', 'Conv2D')
    taken = []
    step, bare = ('training', ['loss', 'op']), ('bare', 'gradients')
    times = iter([0.1, 0.1, 5.0, 3.0, 4.0, 9.0])
    seconds = iter([0.5, 0.7, 0.6, 0.2])

    @contextlib.contextmanager
    def session_of(name, *fetches):
        yield name, *fetches

    def trace(session, fetches, runs, warm_up=2):
        taken.append((session, fetches))
        assert runs == 1 and warm_up == (2 if len(taken) <= 2 else 0)
        return {op: next(times)}

    def seconds_per_run(session, fetches, runs):
        assert (session, fetches, runs) in [(*step, 1), (*bare, 1)]
        return step_ops.measuring.Clocks(9.0, next(seconds))

    spec = types.SimpleNamespace(loss='loss', train_op='op')
    monkeypatch.setattr(model_fns, 'build_task', lambda config: f'task of {config}')
    monkeypatch.setattr(
        step_ops.measuring, 'training_session', lambda *_: session_of('training', spec)
    )
    monkeypatch.setattr(step_ops, 'bare_session', lambda *_: session_of('bare', 'gradients'))
    monkeypatch.setattr(step_ops.op_times, 'trace', trace)
    monkeypatch.setattr(step_ops.measuring, 'seconds_per_run', seconds_per_run)
    # What warms up does not count.
    assert step_ops.trace('config', turns=2) == {
        'step': (500.0, {op: 4.0}),
        'bare': (200.0, {op: 3.0}),
    }
    assert taken == [step, bare] * 3
