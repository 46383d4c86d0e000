"""Hooks and listeners that a program adds to a run, in both loops and as a worker."""

import json

import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator, training
from estimator_lib.cluster import job, running
from protos import cluster_pb2, train_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.cluster import jobs
from tests.estimator_lib.distribution import curve_cases
from tests.estimator_lib.line_task import Line, slope_after

tf1 = tf.compat.v1


@pytest.fixture(params=[train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION], ids=['estimator', 'function'])
def config(request, tmp_path):
    made = line_task.create_config(tmp_path)
    made.train_config.loop = request.param
    made.train_config.steps_per_call = 50
    made.train_config.progress.every_n_steps = 100
    del made.eval_input_reader[1:]
    return made


@pytest.fixture
def function_config(tmp_path):
    made = line_task.create_config(tmp_path)
    made.train_config.loop = train_pb2.TF_FUNCTION
    return made


def train(config, folder, **options):
    return training.train_and_evaluate(Line(), config, str(folder / 'run'), **options)


class Slopes(tf_estimator.SessionRunHook):
    """Notes the global step and the slope after each step."""

    def __init__(self):
        self.told, self.began, self.ended = [], 0, []

    def begin(self):
        self.began += 1
        self._slope = tf1.global_variables('slope')[0]
        self._doubled = 2.0 * self._slope
        self._step = tf1.train.get_global_step()

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs({'slope': self._slope})

    def after_run(self, run_context, run_values):
        assert set(run_values.results) == {'slope'}
        self.told.append(run_context.session.run([self._step, self._doubled]))

    def end(self, session):
        self.ended.append(session.run(self._step))


class Listener(tf_estimator.CheckpointSaverListener):
    """Notes what it is told of checkpoints."""

    def __init__(self, stop_at=None):
        self.told, self._stop_at = [], stop_at

    def begin(self):
        self.told.append('begin')

    def before_save(self, session, global_step_value):
        self.told.append(('before', int(global_step_value)))

    def after_save(self, session, global_step_value):
        self.told.append(('after', int(global_step_value)))
        return global_step_value == self._stop_at

    def end(self, session, global_step_value):
        self.told.append(('end', int(global_step_value)))


SAVED = [('before', 0), ('after', 0), ('before', 2), ('after', 2)]


def test_a_hook_is_told_of_each_step_when_variables_have_its_values(config, tmp_path):
    hook = Slopes()
    train(config, tmp_path, hooks=[hook], evaluate=False)
    assert hook.began == 1 and hook.ended == [6]
    assert [step for step, _ in hook.told] == [1, 2, 3, 4, 5, 6]
    doubled = [2.0 * slope_after(step) for step in range(1, 7)]
    assert [value for _, value in hook.told] == pytest.approx(doubled, rel=1e-5)


class Tripled(tf_estimator.SessionRunHook):
    """Adds a tensor, and a summary of it, to the graph of the step."""

    def begin(self):
        value = tf.multiply(3.0, tf1.global_variables('slope')[0], name='tripled')
        tf1.summary.scalar('own', value, collections=['own'])


class MergedSummaries(tf_estimator.SummarySaverHook):
    """Takes the summaries of the graph."""

    def begin(self):
        super().begin()
        self._summary_op = tf1.summary.merge_all('own')


def test_hooks_of_tensorflow_work(config, tmp_path):
    """An end after a number of steps, lines with tensors, and summaries."""
    logged = []
    hooks = [
        tf_estimator.StopAtStepHook(num_steps=3),
        Tripled(),
        tf_estimator.LoggingTensorHook(
            {'tripled': 'tripled:0'}, every_n_iter=1, formatter=logged.append
        ),
        MergedSummaries(1, output_dir=str(tmp_path / 'own'), scaffold=tf1.train.Scaffold()),
    ]
    train(config, tmp_path, hooks=hooks, evaluate=False)
    assert tf.train.load_variable(str(tmp_path / 'run'), 'global_step') == 3
    assert len(logged) == 3
    (events,) = (tmp_path / 'own').glob('events*')
    steps = [
        event.step
        for event in tf1.train.summary_iterator(str(events))
        for value in event.summary.value
        if value.tag == 'own'
    ]
    assert steps == [1, 2, 3]


def test_listeners_are_told_of_checkpoints_before_the_evaluations(config, tmp_path):
    listener = Listener(stop_at=4)
    train(config, tmp_path, saving_listeners=[listener])
    assert listener.told == ['begin', *SAVED, ('before', 4), ('after', 4), ('end', 4)]


@pytest.mark.parametrize('is_all_reduce', [False, True])
def test_the_chief_of_workers_without_sessions_tells_hooks_and_listeners(
    function_config, tmp_path, monkeypatch, is_all_reduce
):
    config = function_config
    addresses = {'worker': curve_cases.free_addresses(1)}
    task = {'cluster': addresses, 'task': {'type': 'worker', 'index': 0}}
    monkeypatch.setenv('TF_CONFIG', json.dumps(task))
    config.train_config.cluster.mode = cluster_pb2.ClusterConfig.MULTI_WORKER_MIRRORED
    monkeypatch.setattr(job.Job, 'is_all_reduce', is_all_reduce)  # with one worker too
    config.train_config.num_steps = 2
    hook, listener = Slopes(), Listener()
    train(config, tmp_path, hooks=[hook], saving_listeners=[listener], evaluate=False)
    assert [step for step, _ in hook.told] == [1, 2]
    assert listener.told == ['begin', *SAVED, ('end', 2)]


def train_without_listeners(estimator, train_spec, eval_spec):
    """Do what TensorFlow does under all-reduce, where it forgets the listeners of the spec."""
    del eval_spec
    estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps)


def test_the_chief_of_workers_with_sessions_tells_hooks_and_listeners(tmp_path, monkeypatch):
    monkeypatch.setattr(tf_estimator, 'train_and_evaluate', train_without_listeners)
    config = line_task.create_config(tmp_path)
    config.train_config.num_steps = 2
    hook, listener = Slopes(), Listener()
    parts = running.Parts(
        create_trainer=lambda: training.create_estimator(Line(), config, str(tmp_path / 'run')),
        create_input_fn=lambda: training.train_input_fn(Line(), config),
        chief_hooks=[],
        create_evaluator=None,
        finish=dict,
        create_stopping=lambda: None,
        hooks=[hook],
        saving_listeners=[listener],
    )
    of_chief = jobs.job(tmp_path, jobs.PEERS, 'chief')
    of_chief.train_config.num_steps = 2
    worker = running._Worker(of_chief, None, None, parts)
    worker._train_together([hook])
    assert [step for step, _ in hook.told] == [1, 2]
    assert listener.told == ['begin', *SAVED, ('end', 2)]


class Feeding(tf_estimator.SessionRunHook):
    def begin(self):
        self._fed = tf1.placeholder_with_default(1.0, [], name='fed')

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._fed, feed_dict={'fed:0': 2.0})


class FeedingByItself(Feeding):
    def before_run(self, run_context):
        run_context.session.run(self._fed, {'fed:0': 2.0})


class FetchingByName(tf_estimator.SessionRunHook):
    def before_run(self, run_context):
        return tf1.train.SessionRunArgs('global_step:0')


class FetchingAnOperation(tf_estimator.SessionRunHook):
    def begin(self):
        self._op = tf.no_op('nothing')

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._op)


class FetchingAnAssignment(tf_estimator.SessionRunHook):
    def begin(self):
        self._assigned = tf1.global_variables('slope')[0].assign(5.0, name='setting')

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._assigned)


class FetchingLater(tf_estimator.SessionRunHook):
    def begin(self):
        self._tensor = tf.constant(1.0, name='late')
        self._asked = 0

    def before_run(self, run_context):
        self._asked += 1
        return tf1.train.SessionRunArgs(self._tensor) if self._asked == 4 else None


class CallingTheSession(tf_estimator.SessionRunHook):
    def after_create_session(self, session, coord):
        session.make_callable([])


class CallingItAtACheckpoint(tf_estimator.CheckpointSaverListener):
    def after_save(self, session, global_step_value):
        session.partial_run_setup([])


@pytest.mark.parametrize(
    'kind, what',
    [
        (Feeding, 'feeds values to the step (fed:0)'),
        (FeedingByItself, 'calls session.run with feed_dict'),
        (FetchingByName, "fetches 'global_step:0', which is no tensor of the graph of the step"),
        (FetchingAnOperation, 'runs nothing with the step'),
        (FetchingAnAssignment, 'runs setting with the step'),
        (FetchingLater, 'fetches late:0 of a later step and not of the first'),
        (CallingTheSession, 'uses session.make_callable'),
        (CallingItAtACheckpoint, 'uses session.partial_run_setup'),
    ],
)
def test_who_needs_a_session_is_refused_by_name(function_config, tmp_path, kind, what):
    of_hooks = issubclass(kind, tf_estimator.SessionRunHook)
    options = {'hooks' if of_hooks else 'saving_listeners': [kind()], 'evaluate': False}
    with pytest.raises(errors.ConfigError) as caught:
        train(function_config, tmp_path, **options)
    assert str(caught.value) == (
        f'{kind.__name__} {what}, which needs a session, but train_config.loop is TF_FUNCTION; '
        'expected loop: ESTIMATOR.'
    )


class Setting(tf_estimator.SessionRunHook):
    """Sets the slope after each step, and counts in a variable of its own."""

    def begin(self):
        self._set = tf1.global_variables('slope')[0].assign(5.0).op
        counter = tf1.get_variable('counter', [], tf.int64, tf1.zeros_initializer())
        self._count, self.counted = counter.assign_add(1), []

    def after_run(self, run_context, run_values):
        operation, value = run_context.session.run([self._set, self._count])
        assert operation is None
        self.counted.append(value)


@pytest.mark.parametrize(
    'make',
    [
        lambda folder: tf_estimator.CheckpointSaverHook(folder, save_steps=1),
        lambda folder: tf_estimator.ProfilerHook(save_steps=1, output_dir=folder),
        lambda folder: tf_estimator.StepCounterHook(output_dir=folder),
    ],
)
def test_hooks_that_work_in_sessions_only_are_refused_by_name(function_config, tmp_path, make):
    with tf.Graph().as_default():  # One makes a writer of events, which wants a graph.
        hook = make(str(tmp_path))
    with pytest.raises(errors.ConfigError) as caught:
        train(function_config, tmp_path, hooks=[hook], evaluate=False)
    assert str(caught.value) == (
        f'{type(hook).__name__} needs a session, but train_config.loop is TF_FUNCTION; expected '
        'loop: ESTIMATOR.'
    )


def test_a_hook_may_run_operations(config, tmp_path):
    config.train_config.num_steps = 3
    hook = Setting()
    train(config, tmp_path, hooks=[hook], evaluate=False)
    assert hook.counted == [1, 2, 3]
    # Step 3 is saved at the end, behind the hooks.
    assert tf.train.load_variable(str(tmp_path / 'run'), 'slope') == 5.0
