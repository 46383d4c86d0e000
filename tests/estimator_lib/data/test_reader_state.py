import contextlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.data import inputs, reader_state
from estimator_lib.task import IMAGE
from tests.estimator_lib.data import record_cases as cases

tf1 = tf.compat.v1
SIZES = [7, 9, 5]


@pytest.fixture(scope='module')
def pattern(tmp_path_factory):
    return cases.write_shards(tmp_path_factory.mktemp('state'), SIZES)


class _Collect(tf1.train.SessionRunHook):
    """Keeps what each step fetches; ends the process, as it were, after so many steps."""

    def __init__(self, fetches, found, kill_after):
        self._fetches = fetches
        self._found = found
        self._kill_after = kill_after

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        self._found.append([value.tolist() for value in run_values.results])
        if len(self._found) == self._kill_after:
            raise KeyboardInterrupt


def _model_fn(found, kill_after):
    def model_fn(features, labels, mode):
        features, state = inputs.pop_reader_state(features)
        weight = tf1.get_variable('weight', [], initializer=tf1.zeros_initializer())
        step = tf1.train.get_global_step()
        train_op = tf.group(inputs.advance_position(state), step.assign_add(1, read_value=False))
        hook = _Collect([features[IMAGE], features['noise']], found, kill_after)
        return tf_estimator.EstimatorSpec(
            mode, loss=weight + 0.0, train_op=train_op, training_hooks=[hook]
        )

    return model_fn


def _train(model_dir, reader, steps, saving_every=3, kill_after=None):
    """Ids and noise of each step; `kill_after` ends without a last checkpoint."""
    found = []
    config = tf_estimator.RunConfig(save_checkpoints_steps=saving_every, log_step_count_steps=None)
    estimator = tf_estimator.Estimator(_model_fn(found, kill_after), str(model_dir), config)
    input_fn = inputs.create_input_fn(cases.IdTask(), reader, cases.TRAIN, 4, 1)

    with contextlib.suppress(KeyboardInterrupt):
        estimator.train(input_fn, max_steps=steps)
    return found


def test_an_estimator_that_is_killed_and_restarted_sees_the_same_examples(pattern, tmp_path):
    reader = cases.reader_of(pattern)
    whole = _train(tmp_path / 'whole', reader, steps=10)
    assert len(whole) == 10
    first = _train(tmp_path / 'parts', reader, steps=10, kill_after=5)
    assert first == whole[:5]  # the checkpoint is of step 3
    second = _train(tmp_path / 'parts', reader, steps=6)
    assert second == whole[3:6]
    third = _train(tmp_path / 'parts', reader, steps=10)
    assert third == whole[6:]
    saved = reader_state.read_position(str(tmp_path / 'parts'), ['chief_0'], 0, 1)
    assert saved[0, :2].tolist() == [1, 19]
    assert saved[1].tolist() == [40, 0, 0]


def test_a_new_session_of_the_same_graph_goes_on(pattern):
    input_fn = inputs.create_input_fn(cases.IdTask(), cases.reader_of(pattern), cases.TRAIN, 4, 1)
    with tf.Graph().as_default():
        features, _ = input_fn()
        features, state = inputs.pop_reader_state(features)
        advance = inputs.advance_position(state)
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer()])
            session.run(tf1.tables_initializer())
            for _ in range(3):
                session.run(advance)
            session.run(features[IMAGE])  # read ahead, and not trained on
            session.run(tf1.tables_initializer())
            ids, _ = session.run([features[IMAGE], advance])
            again = session.run(tf1.global_variables()[0])
    whole = cases.run(cases.reader_of(pattern), batches=4)
    assert ids.tolist() == whole.ids[3]
    np.testing.assert_array_equal(again, whole.positions[3])


def test_a_position_that_is_not_there_or_does_not_fit_is_zeros(pattern, tmp_path):
    assert not reader_state.read_position(None, ['chief_0'], 0, 1).any()
    assert not reader_state.read_position(str(tmp_path / 'nothing'), ['chief_0'], 0, 1).any()
    _train(tmp_path, cases.reader_of(pattern), steps=1)
    assert reader_state.read_position(str(tmp_path), ['chief_0'], 0, 1).any()
    others = reader_state.read_position(str(tmp_path), ['chief_0', 'worker_0'], 1, 1)
    assert others[:, :2].tolist() == [[0, -5], [2, 0]]  # behind the four records of that step
    assert reader_state.read_position(str(tmp_path), ['chief_0'], 0, 2).shape == (3, 3)
    assert not reader_state.read_position(str(tmp_path), ['chief_0'], 0, 2).any()


def test_features_of_another_input_have_no_state():
    features = {'image': 1}
    rest, state = inputs.pop_reader_state(features)
    assert rest == features and rest is not features
    assert state is None


def test_replicas_of_a_strategy_share_a_reader_and_resume(pattern, tmp_path):
    reader = cases.reader_of(pattern)
    whole = cases.run(reader, batches=8)
    first = _train_mirrored(tmp_path, reader, steps=2)
    second = _train_mirrored(tmp_path, reader, steps=4)
    assert [ids for step in first + second for ids in step] == whole.ids
    saved = reader_state.read_position(str(tmp_path), ['chief_0'], 0, 1)
    np.testing.assert_array_equal(saved, whole.positions[-1])


def _train_mirrored(model_dir, reader, steps):
    """The ids that both replicas saw in each step."""
    found = []

    def model_fn(features, labels, mode):
        features, state = inputs.pop_reader_state(features)
        assert state.wait_seconds is None
        weight = tf1.get_variable('weight', [], initializer=tf1.zeros_initializer())
        seen = tf.numpy_function(
            lambda replica, ids: found.append((int(replica), ids.tolist())) or np.int64(0),
            [tf.distribute.get_replica_context().replica_id_in_sync_group, features[IMAGE]],
            tf.int64,
        )
        step = tf1.train.get_global_step()
        with tf.control_dependencies([seen]):
            train_op = tf.group(inputs.advance_position(state), step.assign_add(1))
        return tf_estimator.EstimatorSpec(mode, loss=weight + 0.0, train_op=train_op)

    with tf.Graph().as_default():  # an eager one would want both devices from the start
        strategy = tf.distribute.MirroredStrategy(
            ['/cpu:0', '/cpu:1'], cross_device_ops=tf.distribute.ReductionToOneDevice()
        )
    config = tf_estimator.RunConfig(
        train_distribute=strategy,
        session_config=tf1.ConfigProto(device_count={'CPU': 2}, allow_soft_placement=True),
        log_step_count_steps=None,
    )
    estimator = tf_estimator.Estimator(model_fn, str(model_dir), config)
    estimator.train(
        inputs.create_input_fn(cases.IdTask(), reader, cases.TRAIN, 4, 1), max_steps=steps
    )
    return [
        [ids for _, ids in sorted(found[start : start + 2])] for start in range(0, len(found), 2)
    ]
