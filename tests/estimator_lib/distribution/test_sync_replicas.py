"""The exchange of gradients between trainers, in one process: each is a thread with its graph."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.distribution.sync_replicas import TokenExchange
from estimator_lib.optimization import optimize_loss
from estimator_lib.optimization.optimize_loss import GradientPolicy

tf1 = tf.compat.v1

NAMES = ['chief:0', 'worker:0', 'worker:1']
WAIT = 60.0


@pytest.fixture
def server():
    return tf1.train.Server.create_local_server()


class Trainer:
    """Loss w * example: its gradient is the example.

    Args:
        server: where the variables, the accumulators and the queues are.
        own: which trainer this is.
        examples: of its steps.
        needed: gradients that make a step.
        options: of `optimize_loss`.
    """

    def __init__(self, server, own, examples, needed=2, names=NAMES[:2], **options):
        self.examples = list(examples)
        self.reported, self.steps = [], []
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.weight = tf1.get_variable('w', initializer=[0.0, 0.0], use_resource=True)
            self.step = tf1.train.get_or_create_global_step()
            # Other trainers' values of it are not to be seen: in a cluster it is on another device.
            with tf1.container(names[own].replace(':', '_')):
                self.exchange = TokenExchange(names, own, needed)
            self.example = tf1.placeholder(tf.float32, [2])
            loss = tf.reduce_sum(self.weight * self.example)
            self.losses = self.exchange.mean_losses({'total': loss, 'x': self.example[0]})
            self.train_op = optimize_loss.optimize_loss(
                loss,
                global_step=tf1.train.get_global_step(),
                optimizer=tf1.train.GradientDescentOptimizer(1.0),
                exchange=self.exchange,
                **options,
            )
            self.hook = self.exchange.hook()
            self.init = tf1.global_variables_initializer()
        self.session = tf1.Session(server.target, graph=self.graph)

    def initialize(self):
        self.session.run(self.init)

    def run(self):
        """Steps until there has been one for each example."""
        self.hook.after_create_session(self.session, None)
        while self.session.run(self.step) < len(self.examples):
            example = self.examples[len(self.steps) % len(self.examples)]
            _, losses = self.session.run([self.train_op, self.losses], {self.example: example})
            self.reported.append(losses['x'])
            self.steps.append(int(self.session.run(self.step)))

    def values(self, name='w'):
        with self.graph.as_default():
            (found,) = [v for v in tf1.global_variables() if v.op.name == name]
        return self.session.run(found).tolist()


def run_all(trainers):
    trainers[0].initialize()
    run_threads(trainers)


def run_threads(trainers):
    threads = [threading.Thread(target=trainer.run, daemon=True) for trainer in trainers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in threads)


def test_each_step_has_one_gradient_of_each(server):
    random = np.random.RandomState(0)
    examples = random.randint(0, 9, [2, 30, 2]).astype(np.float32)
    trainers = [Trainer(server, own, examples[own]) for own in range(2)]
    run_all(trainers)
    assert [trainer.steps for trainer in trainers] == [list(range(1, 31))] * 2
    means = examples.mean(0)
    np.testing.assert_allclose(trainers[0].values(), -means.sum(0), rtol=1e-6)
    np.testing.assert_allclose(trainers[0].reported, means[:, 0], rtol=1e-6)
    np.testing.assert_allclose(trainers[1].reported, examples[1, :, 0])


def test_the_mean_is_clipped_and_averaged(server):
    policy = GradientPolicy(clip_norm=5.0)
    trainers = [
        Trainer(server, 0, [[12.0, 0.0]], policy=policy, moving_average_decay=0.75),
        Trainer(server, 1, [[0.0, 16.0]], policy=policy, moving_average_decay=0.75),
    ]
    run_all(trainers)
    np.testing.assert_allclose(trainers[0].values(), [-3.0, -4.0], rtol=1e-6)
    average = trainers[0].values('w/ExponentialMovingAverage')
    np.testing.assert_allclose(average, [-0.75, -1.0], rtol=1e-6)


def test_backups_are_not_waited_for(server):
    """The third trainer never comes."""
    trainers = [Trainer(server, own, [[1.0, 2.0]] * 5, names=NAMES) for own in range(2)]
    run_all(trainers)
    assert trainers[0].values() == [-5.0, -10.0]


def test_one_who_is_late_goes_on_from_the_newest_step(server):
    trainers = [Trainer(server, own, [[1.0, 2.0]] * 5, names=NAMES) for own in range(2)]
    late = Trainer(server, 2, [[100.0, 100.0]], names=NAMES)
    trainers[0].initialize()
    late.hook.after_create_session(late.session, None)  # at step 0
    run_threads(trainers)
    late.session.run(late.train_op, {late.example: late.examples[0]})
    assert trainers[0].values() == [-5.0, -10.0]  # its gradient of step 0 is thrown away
    with late.graph.as_default():
        assert late.session.run(tf1.local_variables()) == [5]


@pytest.mark.parametrize('own', [0, 1])
def test_one_who_comes_again(own, server):
    """A new session of either goes on with the other, who waits in the middle of a step."""
    first = [Trainer(server, index, [[1.0, 1.0]] * 3) for index in range(2)]
    run_all(first)
    other = 1 - own
    waiting = Trainer(server, other, [[2.0, 2.0]] * 6)
    thread = threading.Thread(target=waiting.run, daemon=True)
    thread.start()
    again = Trainer(server, own, [[4.0, 4.0]] * 6)
    run_threads([again])
    thread.join(WAIT)
    assert not thread.is_alive()
    assert again.values()[0] < -3.0 - 3 * 2.0 and again.session.run(again.step) == 6


@pytest.mark.parametrize('needed', [0, 3])
def test_more_gradients_than_trainers(needed):
    with tf.Graph().as_default(), pytest.raises(ValueError, match='expected 1 to 2'):
        TokenExchange(NAMES[:2], 0, needed)


def test_gradients_of_gathered_rows(server):
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
            hook.after_create_session(session, None)
            session.run(train_op)
            assert session.run(table).tolist() == [[1.0], [1.5]]
