"""Steps in sessions of a `Supervisor`, with a step function of the test's."""

import tensorflow as tf

from estimator_lib.slim_compat import supervised_run
from estimator_lib.slim_compat.supervised_run import DEFAULT, Replicas, Run

tf1 = tf.compat.v1


def run(folder, stop_after, save_seconds=600.0, first_step=0, options=None):
    """Runs steps that count; returns the run, and what each step was given."""
    with tf.Graph().as_default() as graph:
        step = tf1.train.create_global_step()
        train_op = step.assign_add(1)
        supervisor = tf1.train.Supervisor(
            graph=graph,
            logdir=folder and str(folder),
            global_step=step,
            saver=tf1.train.Saver(max_to_keep=0),
            summary_op=None,
        )
        calls = []

        def step_fn(session, op, global_step, options):
            calls.append((int(session.run(op)), options))
            return 0.5 * calls[-1][0], calls[-1][0] >= stop_after

        made = Run(
            supervisor,
            train_op,
            step_fn,
            options or {},
            Replicas([], is_chief=True),
            first_step,
            save_seconds,
            summary_seconds=600.0,
        )
        made.train('', None, None, ignore_live_threads=False)
        return made, calls


def test_steps_until_one_says_stop(tmp_path):
    made, calls = run(tmp_path, stop_after=3, options={'logdir': 'x'})
    assert [step for step, _ in calls] == [1, 2, 3] and made.loss == 1.5
    assert all(options['logdir'] == 'x' for _, options in calls)
    assert calls[0][1]['summary_writer'] is not None
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith('-3')


def test_a_checkpoint_after_each_step_where_no_time_is_between(tmp_path):
    run(tmp_path, stop_after=3, save_seconds=0.0)
    found = sorted(path.stem for path in tmp_path.glob('*.index'))
    assert found == ['model.ckpt-1', 'model.ckpt-2', 'model.ckpt-3']


def test_no_checkpoints_without_a_folder():
    _, calls = run(None, stop_after=2)
    assert len(calls) == 2 and calls[0][1]['summary_writer'] is None


def test_what_a_supervisor_makes_itself():
    use_default = tf1.train.Supervisor.USE_DEFAULT
    assert supervised_run.supervisor_argument(DEFAULT) == use_default
    assert supervised_run.supervisor_argument(None) is None
    nobody = Replicas([], is_chief=True)
    assert nobody.local_init_op(DEFAULT) == nobody.ready_for_local_init_op() == use_default
    assert nobody.queue_runners == nobody.token_ops == []


def test_only_the_chief_of_synchronised_replicas_has_tokens_to_give():
    for is_chief, count in ((True, 1), (False, 0)):
        with tf.Graph().as_default():
            weight = tf1.get_variable('w', initializer=1.0)
            optimizer = tf1.train.SyncReplicasOptimizer(
                tf1.train.GradientDescentOptimizer(1.0), 1, total_num_replicas=1
            )
            optimizer.minimize(weight**2, tf1.train.create_global_step())
            replicas = Replicas([optimizer], is_chief)
            assert len(replicas.queue_runners) == len(replicas.token_ops) == count
            own = optimizer.chief_init_op if is_chief else optimizer.local_step_init_op
            assert getattr(own, 'op', own) in replicas.local_init_op(None).control_inputs
            assert replicas.ready_for_local_init_op().dtype == tf.string
