"""Strategies of eager workers. Whole clusters of them train in `tests/test_loops.py`."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import Cluster, Mode, Plan, eager_workers, strategies


def plan(role='worker', **addresses):
    return Plan(Mode.MULTI_WORKER_MIRRORED, Cluster(addresses, role, 0), without_sessions=True)


def test_a_program_that_works_already_cannot_have_a_server():
    tf.constant(1.0).numpy()
    with pytest.raises(errors.ConfigError, match='TensorFlow has begun to work in this program'):
        strategies.create_strategy(plan(worker=('a:1', 'b:1')))


def test_the_evaluator_is_no_worker_and_a_master_is_a_chief():
    found = eager_workers._jobs(
        plan('master', master=('a:1',), worker=('b:1', 'c:1'), evaluator=('d:1',))
    )
    assert found == {'chief': ['a:1'], 'worker': ['b:1', 'c:1']}


def test_a_worker_alone_agrees_with_itself_without_a_server():
    strategy = strategies.create_strategy(plan(worker=('a:1',), evaluator=('d:1',)))
    assert strategy.num_replicas_in_sync == 1
    mean = eager_workers.MeanOfWorkers(strategy, 1)
    assert mean([0.1, 3.0]).tolist() == [0.1, 3.0]
    # As for several, but that this process is all of them.
    assert eager_workers.MeanOfWorkers(strategy, 2)([0.1, 3.0]).tolist() == [0.1, 3.0]
