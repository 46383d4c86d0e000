"""The exchange of gradients between replicas, in one process: each is a thread with its graph.

Variables and accumulators are on two parameter servers, and each replica has a server of its own,
as in a cluster; a replica that is "killed" loses its session, in the middle of a step.
"""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.cluster.local_processes import build_addresses
from estimator_lib.distribution import placement
from estimator_lib.distribution.sync_replicas import TokenExchange
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.optimization import finite_updates, loss_scale, optimize_loss
from estimator_lib.optimization.moving_averages import MovingAverages
from estimator_lib.optimization.optimize_loss import GradientPolicy

tf1 = tf.compat.v1

NAMES = ['chief:0', 'worker:0', 'worker:1']
WAIT = 60.0
SESSION = 2**40


@pytest.fixture(scope='module')
def cluster():
    """The addresses and the servers; each test has a container of its own on them."""
    addresses = build_addresses(num_workers=2, num_ps=2)
    servers = {
        f'{role}:{index}': tf1.train.Server(addresses, job_name=role, task_index=index)
        for role, tasks in addresses.items()
        for index in range(len(tasks))
    }
    return addresses, servers


@pytest.fixture
def server(cluster, request):
    addresses, servers = cluster
    return addresses, servers, ''.join(filter(str.isalnum, request.node.name))


class Replica:
    """Loss w * example + v * example[0]: the gradients are the example, and its first number.

    Args:
        server: where the variables, the accumulators and the queues are.
        own: which replica this is.
        examples: of its steps.
        needed: gradients that make a step.
        options: of `optimize_loss`.
    """

    def __init__(self, server, own, examples, needed=2, names=NAMES[:2], **options):
        addresses, servers, container = server
        role, index = names[own].split(':')
        task = Cluster({key: tuple(tasks) for key, tasks in addresses.items()}, role, int(index))
        self.examples = list(examples)
        self.reported, self.steps, self.error = [], [], None
        self.graph = tf.Graph()
        container = self.graph.container(container)
        with self.graph.as_default(), container, self.graph.device(placement.device_fn(task)):
            self.step = tf1.train.get_or_create_global_step()
            self.weight = tf1.get_variable('w', initializer=[0.0, 0.0], use_resource=True)
            other = tf1.get_variable('v', initializer=0.0, use_resource=True)
            self.exchange = TokenExchange(names, own, needed, placement.worker_device(task))
            self.example = tf1.placeholder(tf.float32, [2])
            loss = tf.reduce_sum(self.weight * self.example) + other * self.example[0]
            self.losses = self.exchange.mean_losses({'total': loss, 'x': self.example[0]})
            self.train_op = optimize_loss.optimize_loss(
                loss,
                global_step=self.step,
                optimizer=tf1.train.GradientDescentOptimizer(1.0),
                exchange=self.exchange,
                **options,
            )
            self.hook = self.exchange.hook()
            self.init = tf1.global_variables_initializer()
        config = tf1.ConfigProto(device_filters=placement.device_filters(task))
        self.session = tf1.Session(servers[names[own]].target, graph=self.graph, config=config)

    def initialize(self):
        self.session.run(self.init)

    def begin(self):
        self.hook.after_create_session(self.session, None)

    def train(self):
        """One step, with the next example."""
        example = self.examples[len(self.steps) % len(self.examples)]
        _, losses = self.session.run([self.train_op, self.losses], {self.example: example})
        self.reported.append(losses['x'])
        self.steps.append(int(self.session.run(self.step)))

    def run(self):
        """Begins, and trains until there has been a step for each example."""
        try:
            self.begin()
            while self.session.run(self.step) < len(self.examples):
                self.train()
        except (tf.errors.OpError, RuntimeError) as error:  # killed
            self.error = error

    def start(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def join(self):
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        return self

    def kill(self):
        """Its step, which waits for something, is cancelled."""
        self.session.close()
        self.join()
        assert self.error is not None and not self.steps

    def values(self, name='w'):
        with self.graph.as_default():
            (found,) = [v for v in tf1.global_variables() if v.op.name == name]
        return self.session.run(found).tolist()

    def own_token(self):
        with self.graph.as_default():
            (found,) = tf1.local_variables()
        return self.session.run(found)

    def accumulated(self):
        """How many gradients each accumulator holds."""
        with self.graph.as_default():
            if not hasattr(self, 'counts'):
                self.counts = [one.num_accumulated() for one in self.exchange._accumulators]
        return self.session.run(self.counts)


def wait_until(condition):
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def run_all(replicas):
    replicas[0].initialize()
    run_threads(replicas)


def run_threads(replicas):
    for replica in [replica.start() for replica in replicas]:
        assert replica.join().error is None


def test_each_step_has_one_gradient_of_each(server):
    random = np.random.RandomState(0)
    examples = random.randint(0, 9, [2, 30, 2]).astype(np.float32)
    replicas = [Replica(server, own, examples[own]) for own in range(2)]
    run_all(replicas)
    assert [replica.steps for replica in replicas] == [list(range(1, 31))] * 2
    means = examples.mean(0)
    np.testing.assert_allclose(replicas[0].values(), -means.sum(0), rtol=1e-6)
    np.testing.assert_allclose(replicas[0].reported, means[:, 0], rtol=1e-6)
    np.testing.assert_allclose(replicas[1].reported, examples[1, :, 0])


def test_the_mean_is_clipped_and_averaged(server):
    policy = GradientPolicy(clip_norm=4.5)
    replicas = [
        Replica(server, 0, [[8.0, 0.0]], policy=policy, averages=MovingAverages(0.75)),
        Replica(server, 1, [[0.0, 14.0]], policy=policy, averages=MovingAverages(0.75)),
    ]
    run_all(replicas)
    # The means are 4, 7 and, for v, 4: together of norm 9.
    np.testing.assert_allclose(replicas[0].values(), [-2.0, -3.5], rtol=1e-6)
    average = replicas[0].values('w/ExponentialMovingAverage')
    np.testing.assert_allclose(average, [-0.5, -0.875], rtol=1e-6)


def test_backups_are_not_waited_for(server):
    """The third replica never comes."""
    replicas = [Replica(server, own, [[1.0, 2.0]] * 5, names=NAMES) for own in range(2)]
    run_all(replicas)
    assert replicas[0].values() == [-5.0, -10.0]


def test_one_who_is_late_goes_on_from_the_newest_step(server):
    replicas = [Replica(server, own, [[1.0, 2.0]] * 5, names=NAMES) for own in range(2)]
    late = Replica(server, 2, [[100.0, 100.0]], names=NAMES)
    replicas[0].initialize()
    chief = replicas[0].start()
    late.begin()
    assert late.own_token() == SESSION + 1  # no other worker has come: this is still step 0
    run_threads(replicas[1:])
    chief.join()
    late.train()
    assert replicas[0].values() == [-5.0, -10.0]  # its gradient of step 0 is dropped
    assert late.own_token() == SESSION + 1 + 5


@pytest.mark.parametrize('own', [0, 1])
def test_one_who_comes_again(own, server):
    """Each further step has one gradient of the one who came again, and one of the other."""
    first = [Replica(server, index, [[1.0, 1.0]] * 3) for index in range(2)]
    run_all(first)
    examples = [[2.0, 2.0]] * 10
    waiting = Replica(server, 1 - own, examples).start()
    if own == 0:  # the worker has handed over its gradient, and waits for a token
        wait_until(lambda: first[0].accumulated() == [1, 1, 1])
    else:  # so has the chief; it waits for gradients
        wait_until(lambda: first[1].accumulated() == [1, 1, 1])
    again = Replica(server, own, [[4.0, 4.0]] * 10).start()
    assert waiting.join().error is None and again.join().error is None
    # 3 steps of mean 1, and 7 of mean (2 + 4) / 2.
    assert again.values() == [-24.0, -24.0] and again.values('v') == -24.0


def test_a_chief_that_is_killed_in_its_step(server):
    """What it and the worker have handed over by then is in no step."""
    killed = Replica(server, 0, [[64.0, 64.0]], needed=3, names=NAMES)
    killed.initialize()
    killed.start()
    worker = Replica(server, 1, [[8.0, 16.0], [2.0, 4.0]], needed=3, names=NAMES).start()
    wait_until(lambda: worker.accumulated() == [2, 2, 2])
    killed.kill()
    chief = Replica(server, 0, [[1.0, 2.0]] * 2, needed=3, names=NAMES).start()
    # The worker computes its gradient of step 0 again, with its next example.
    wait_until(lambda: chief.accumulated() == [2, 2, 2])
    late = Replica(server, 2, [[3.0, 3.0]] * 2, needed=3, names=NAMES).start()
    assert all(one.join().error is None for one in (worker, chief, late))
    # Step 0: (1 + 2 + 3) / 3 and (2 + 4 + 3) / 3. Step 1: (1 + 8 + 3) / 3 and (2 + 16 + 3) / 3.
    assert chief.values() == [-6.0, -10.0] and chief.values('v') == -6.0
    assert chief.steps == [1, 2]
    assert chief.own_token() == 2 * SESSION + 1 + 2


def test_a_chief_that_is_killed_when_it_has_taken_a_part(server):
    """One mean is gone from its accumulator: nobody waits for it."""
    killed = Replica(server, 0, [[64.0, 64.0]])
    killed.initialize()
    killed.begin()
    worker = Replica(server, 1, [[8.0, 8.0], [2.0, 4.0]]).start()
    wait_until(lambda: killed.accumulated() == [1, 1, 1])
    with killed.graph.as_default():
        killed.session.run(killed.exchange._accumulators[-1].take_grad(1))
    killed.session.close()
    chief = Replica(server, 0, [[4.0, 2.0]] * 2).start()
    assert chief.join().error is None and worker.join().error is None
    # (4 + 2) / 2 + (4 + 8) / 2, and (2 + 4) / 2 + (2 + 8) / 2.
    assert chief.values() == [-9.0, -8.0] and chief.values('v') == -9.0


def test_a_worker_that_is_killed_in_its_step(server):
    """Its gradient is in the step; the one of its next start, for the same step, is not."""
    chief = Replica(server, 0, [[1.0, 2.0]] * 2, needed=3, names=NAMES)
    chief.initialize()
    chief.start()
    killed = Replica(server, 1, [[2.0, 4.0]] * 2, needed=3, names=NAMES).start()
    again = Replica(server, 1, [[16.0, 16.0], [32.0, 32.0]], needed=3, names=NAMES)
    wait_until(lambda: again.accumulated() == [2, 2, 2])
    killed.kill()
    again.start()
    time.sleep(1.0)
    assert again.accumulated() == [2, 2, 2]
    third = Replica(server, 2, [[3.0, 3.0]] * 2, needed=3, names=NAMES).start()
    assert all(one.join().error is None for one in (chief, again, third))
    # (1 + 2 + 3) / 3 + (1 + 32 + 3) / 3, and (2 + 4 + 3) / 3 + (2 + 32 + 3) / 3.
    np.testing.assert_allclose(chief.values(), [-14.0, -46.0 / 3], rtol=1e-6)


def test_a_token_that_comes_twice(server):
    """The worker's further gradient for the same step is dropped."""
    chief = Replica(server, 0, [[1.0, 1.0]] * 2)
    worker = Replica(server, 1, [[3.0, 3.0], [100.0, 100.0], [5.0, 5.0]])
    chief.initialize()
    chief.begin()
    worker.begin()
    with chief.graph.as_default():
        chief.session.run(chief.exchange._queues[0].enqueue(chief.own_token()))
    worker.train()
    assert worker.own_token() == chief.own_token() == SESSION + 1
    thread = threading.Thread(target=worker.train)  # of step 0 once more
    thread.start()
    chief.train()
    thread.join(WAIT)
    assert chief.values() == [-2.0, -2.0]
    thread = threading.Thread(target=worker.train)
    thread.start()
    chief.train()
    thread.join(WAIT)
    assert chief.values() == [-5.0, -5.0]


def test_a_worker_waits_for_the_session_of_a_chief(server):
    chief, worker = (Replica(server, own, [[1.0, 1.0]]) for own in range(2))
    chief.initialize()
    waiting = threading.Thread(target=worker.begin, daemon=True)
    waiting.start()
    time.sleep(0.3)
    assert waiting.is_alive()
    chief.begin()
    waiting.join(WAIT)
    assert worker.own_token() == SESSION + 1


def test_a_session_is_newer_than_any_that_a_server_remembers(server):
    """The server of the global step has forgotten the tokens, another one has not."""
    first = [Replica(server, own, [[1.0, 1.0]]) for own in range(2)]
    run_all(first)
    again = Replica(server, 0, [[1.0, 1.0]])
    on_first_server = [one for one in again.exchange._notes if 'task:0' in one.device]
    assert 0 < len(on_first_server) < len(again.exchange._notes)
    lost = [again.exchange._newest, *on_first_server]
    with again.graph.as_default():
        again.session.run([tf.raw_ops.DestroyResourceOp(resource=one.handle) for one in lost])
    again.begin()
    assert again.own_token() == 2 * SESSION + 1 + 1


@pytest.mark.parametrize('needed', [0, 3])
def test_more_gradients_than_replicas(needed):
    with tf.Graph().as_default(), pytest.raises(ValueError, match='expected 1 to 2'):
        TokenExchange(NAMES[:2], 0, needed)


def test_gradients_of_gathered_rows():
    """Nothing of what a killed step has handed over is left in a sparse accumulator either."""
    server = tf1.train.Server.create_local_server()
    with tf.Graph().as_default():
        table = tf1.get_variable('table', initializer=[[1.0], [2.0]], use_resource=True)
        exchange = TokenExchange(['chief:0'], 0, 1)
        train_op = optimize_loss.optimize_loss(
            tf.reduce_sum(tf.gather(table, [1])),
            global_step=tf1.train.get_global_step(),
            optimizer=tf1.train.GradientDescentOptimizer(0.5),
            exchange=exchange,
        )
        hook = exchange.hook()
        with tf1.Session(server.target) as session:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.local_variables_initializer())
            hook.after_create_session(session, None)
            session.run(exchange._pushes)
            hook.after_create_session(session, None)
            session.run(train_op)
            assert session.run(table).tolist() == [[1.0], [1.5]]


def test_a_step_that_is_not_finite_changes_nothing_and_all_go_on(server):
    bad = np.array([np.nan, 0.0])
    finite = [finite_updates.FiniteUpdates() for _ in range(2)]
    examples = ([(1.0, 0.0), (1.0, 0.0), (3.0, 0.0)], [(3.0, 2.0), bad, (1.0, 4.0)])
    replicas = [
        Replica(server, own, steps, finite=finite[own]) for own, steps in enumerate(examples)
    ]
    run_all(replicas)
    # Means of the first and the third step: (2, 1) and (2, 2).
    assert replicas[0].values() == [-4.0, -3.0]
    assert [replica.steps for replica in replicas] == [[1, 2, 3]] * 2


def test_a_loss_scale_that_is_too_large_for_one_is_halved_for_all(server):
    """1.5e34 * 2^15 is no float32, and half of it is one."""
    examples = ([(1.0, 0.0)] * 2, [(1.5e34, 2.0)] * 2)
    replicas = [
        Replica(
            server,
            own,
            steps,
            finite=finite_updates.FiniteUpdates(),
            loss_scale=loss_scale.LossScale(),
        )
        for own, steps in enumerate(examples)
    ]
    run_all(replicas)
    assert [replica.steps for replica in replicas] == [[1, 2]] * 2
    for replica in replicas:  # The variables are the servers'.
        assert replica.values('loss_scale/scale') == 2.0**14
        assert replica.values('loss_scale/finite_steps') == 1
        np.testing.assert_allclose(replica.values(), [-0.75e34, -1.0], rtol=1e-6)
