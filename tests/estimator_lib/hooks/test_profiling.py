"""The profile of one step: which step, and what is written."""

import json

import tensorflow as tf

from estimator_lib.hooks import profiling

tf1 = tf.compat.v1


def train(model_dir, start, stop, profile_step):
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        a = tf1.get_variable('a', [50, 50])
        product = tf.linalg.matmul(a, a, name='product')
        train_op = tf1.assign_add(step, 1).op
        begin = step.assign(start)
        hook = profiling.ProfileHook(profile_step, str(model_dir))
        scaffold = tf1.train.Scaffold(
            init_op=tf1.global_variables_initializer(),
            init_fn=lambda scaffold, session: session.run(begin),
        )
        with tf1.train.MonitoredSession(
            tf1.train.ChiefSessionCreator(scaffold), hooks=[hook]
        ) as session:
            for _ in range(start, stop):
                session.run([train_op, product])


def test_one_step_is_traced(tmp_path):
    train(tmp_path, 0, 5, profile_step=3)
    traces = list((tmp_path / 'profile').iterdir())
    assert [trace.name for trace in traces] == ['trace_step_3.json']
    events = json.loads(traces[0].read_text())['traceEvents']
    assert any('product' in event.get('args', {}).get('name', '') for event in events)
    written = [
        event.tagged_run_metadata.tag
        for path in tmp_path.glob('events.out.tfevents.*')
        for event in tf1.train.summary_iterator(str(path))
        if event.HasField('tagged_run_metadata')
    ]
    assert written == ['step_3']


def test_a_run_that_resumes_just_before_is_traced(tmp_path):
    train(tmp_path, 2, 4, profile_step=3)
    assert (tmp_path / 'profile' / 'trace_step_3.json').exists()


def test_a_run_that_resumes_after_the_step_is_not(tmp_path):
    train(tmp_path, 3, 6, profile_step=3)
    assert not (tmp_path / 'profile').exists()


def test_a_trace_without_a_session_is_for_chrome_too():
    with profiling.traced() as trace:
        tf.matmul(tf.ones([3, 3]), tf.ones([3, 3])).numpy()
    events = json.loads(trace.content)['traceEvents']
    assert any('MatMul' in event.get('name', '') for event in events)
