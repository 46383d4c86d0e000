"""Strategies of eager workers. Whole clusters of them train in `tests/system/test_loops.py`."""

import socket
import subprocess
import sys
import textwrap

import pytest
import tensorflow as tf
from tensorflow.python.distribute import collective_util, cross_device_utils

from estimator_lib import errors
from estimator_lib.distribution import Cluster, Mode, Plan, eager_workers, strategies
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures('forked_processes')


def plan(role='worker', **addresses):
    return Plan(Mode.MULTI_WORKER_MIRRORED, Cluster(addresses, role, 0), without_sessions=True)


def test_a_program_that_works_already_cannot_have_a_server():
    tf.constant(1.0).numpy()
    with pytest.raises(errors.ConfigError, match='TensorFlow is initialized in this program'):
        strategies.create_strategy(plan(worker=('a:1', 'b:1')))


def test_the_evaluator_is_no_worker():
    found = eager_workers._jobs(
        plan('chief', chief=('a:1',), worker=('b:1', 'c:1'), evaluator=('d:1',))
    )
    assert found == {'chief': ['a:1'], 'worker': ['b:1', 'c:1']}


def test_a_worker_alone_agrees_with_itself_without_a_server():
    strategy = strategies.create_strategy(plan(worker=('a:1',), evaluator=('d:1',)))
    assert strategy.num_replicas_in_sync == 1
    mean = eager_workers.MeanOfWorkers(strategy, 1)
    assert mean([0.1, 3.0]).tolist() == [0.1, 3.0]
    # As for several, but that this process is all of them.
    assert eager_workers.MeanOfWorkers(strategy, 2)([0.1, 3.0]).tolist() == [0.1, 3.0]


def traced_all_reduce():
    """Return the collective op of a function that sums a number over two workers."""
    keys = cross_device_utils.CollectiveKeys()
    launcher = cross_device_utils.CollectiveReplicaLauncher(
        keys.get_group_key(['/cpu:0']), 2, keys, '/cpu:0', collective_util.Options()
    )
    graph = tf.function(launcher.all_reduce).get_concrete_function(tf.ones([])).graph
    (op,) = [op for op in graph.get_operations() if op.type == 'CollectiveReduceV2']
    return op


def test_collective_ops_have_their_numbers_in_the_graph(monkeypatch):
    """By what TensorFlow builds, for it ignores an attribute that it does not know."""
    launcher = cross_device_utils.CollectiveReplicaLauncher
    for name in ('_prefer_unique_instance_key', '_prefer_ordering_token'):
        monkeypatch.setattr(launcher, name, True)
    op = traced_all_reduce()
    assert op.inputs[3].op.type == 'Placeholder' and op.get_attr('Nordering_token') == 1
    eager_workers._configure_collectives()
    op = traced_all_reduce()
    assert op.inputs[3].op.type == 'Const' and op.get_attr('Nordering_token') == 0


# A worker that watches the others waits for them when it starts: here nobody would come.
WORKER = textwrap.dedent("""
    import sys
    from tensorflow.python.distribute import collective_all_reduce_strategy
    from estimator_lib.distribution import Cluster, Mode, Plan, strategies

    def start(self):
        sys.exit('the worker watches the others')

    extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
    assert callable(extended._start_check_health_thread)
    extended._start_check_health_thread = start
    cluster = Cluster({'worker': tuple(sys.argv[1:])}, 'worker', 0)
    plan = Plan(Mode.MULTI_WORKER_MIRRORED, cluster, without_sessions=True)
    print(strategies.create_strategy(plan).num_replicas_in_sync)
""")


def test_a_worker_leaves_watching_the_others_to_the_supervisor():
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(('127.0.0.1', 0))
        addresses = [f'127.0.0.1:{one.getsockname()[1]}' for one in (first, second)]
    done = subprocess.run(
        [sys.executable, '-c', WORKER, *addresses],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout.strip()) == (0, '2'), done.stderr
