import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_maps, fine_tuning, object_graphs, savers
from protos import train_pb2

tf1 = tf.compat.v1
KERNEL = np.float32([[1, 2], [3, 4]])
LOGITS = np.float32([5, 6, 7])
PATHS = {'net/kernel': 'model/_base/0/kernel', 'net/logits': 'model/_head/kernel'}


class Named:
    """What checkpoints ask of a task: a network `net`, of whose kind there is another, `other`."""

    name = 'named'

    @property
    def checkpoints(self):
        return self

    def restore_map(self, variables, checkpoint_type):
        assert checkpoint_type == 'classification'
        return {variable.op.name.partition('/')[2]: variable for variable in variables}

    def object_paths(self, variables, checkpoint_type):
        chosen = {one.op.name: one for one in variables}
        if checkpoint_type == 'classification':
            return {'feature_extractor/0/kernel': chosen['net/kernel']}
        return {PATHS[name]: one for name, one in chosen.items()}

    def foreign_checkpoint(self, names):
        return 'is of the other network.' if 'other/kernel' in names else ''


class Plain(Named):
    """A task of whose model there are no object-based checkpoints."""

    def object_paths(self, variables, checkpoint_type):
        return {}


@pytest.fixture
def variables():
    with tf.Graph().as_default():
        collections = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
        yield [
            tf1.get_variable(name, shape, collections=collections, initializer=tf.zeros_initializer)
            for name, shape in [('net/kernel', [2, 2]), ('net/logits', [3])]
        ]


def by_objects(folder, **others):
    values = {PATHS['net/kernel']: KERNEL, PATHS['net/logits']: LOGITS, 'step': np.int64(12)}
    return written({**values, **others}, folder)


def written(values, folder):
    """Write objects in a thread without a default graph."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(object_graphs.write, values, str(folder)).result()


def by_scope(folder, *names):
    with tf.Graph().as_default(), tf1.Session() as session:
        for name in names:
            tf1.get_variable(name, [2, 2])
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver().save(session, str(folder / 'model.ckpt'))


def config(prefix, kind='classification', **fields):
    return train_pb2.TrainConfig(
        fine_tune_checkpoint=prefix, fine_tune_checkpoint_type=kind, **fields
    )


@pytest.mark.parametrize(
    ('train_config', 'expected'),
    [
        (train_pb2.TrainConfig(), ''),
        (train_pb2.TrainConfig(from_detection_checkpoint=True), 'detection'),
        (train_pb2.TrainConfig(fine_tune_checkpoint_type='classification'), 'classification'),
        (
            train_pb2.TrainConfig(
                fine_tune_checkpoint_type='classification', from_detection_checkpoint=True
            ),
            'classification',
        ),
    ],
)
def test_checkpoint_type(train_config, expected):
    assert checkpoint_maps.checkpoint_type(train_config) == expected


def started(task, variables, train_config):
    """Return the values of the variables when a run begins."""
    wanted = checkpoint_maps.fine_tuning_map(task, variables, train_config)
    start = fine_tuning.fine_tune_start(train_config, wanted, ['logits'])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer(), start['init_feed_dict'])
        return session.run(variables)


@pytest.mark.parametrize('version', [None, 'V2'])
def test_training_starts_from_objects(variables, tmp_path, version, caplog):
    chosen = {} if version is None else {'fine_tune_checkpoint_version': version}
    with caplog.at_level('INFO', 'estimator_lib'):
        kernel, logits = started(Named(), variables, config(by_objects(tmp_path), 'full', **chosen))
    np.testing.assert_array_equal(kernel, KERNEL)
    np.testing.assert_array_equal(logits, LOGITS)
    # Neither is anything missing, nor is what belongs to a run called unused.
    assert 'in the checkpoint (' not in caplog.text and 'loaded' in caplog.text


def test_a_backbone_is_found_by_its_edge_from_the_root(variables, tmp_path):
    prefix = by_objects(tmp_path, **{'feature_extractor/0/kernel': 2 * KERNEL})
    kernel, logits = started(Named(), variables, config(prefix))
    np.testing.assert_array_equal(kernel, 2 * KERNEL)
    np.testing.assert_array_equal(logits, [0, 0, 0])


def test_objects_have_to_give_all_that_is_wanted_of_them(variables, tmp_path):
    prefix = by_objects(tmp_path, **{PATHS['net/logits']: LOGITS[:2]})
    with pytest.raises(errors.CheckpointError, match='1 variables .* object-based') as caught:
        started(Named(), variables, config(prefix, 'full'))
    assert 'net/logits' in str(caught.value)
    lenient = config(prefix, 'full', ignore_missing_variables=True)
    kernel, logits = started(Named(), variables, lenient)
    np.testing.assert_array_equal(kernel, KERNEL)
    np.testing.assert_array_equal(logits, [0, 0, 0])


def test_what_has_no_such_edges_is_told_what_there_is(variables, tmp_path):
    with pytest.raises(errors.CheckpointError) as caught:
        started(Named(), variables, config(by_objects(tmp_path)))
    assert 'feature_extractor/0/kernel' in str(caught.value)
    assert 'model/_base/0/kernel' in str(caught.value)
    assert 'its objects begin with: model; is train_config.fine_tune' in str(caught.value)


def test_names_by_scope_are_the_restore_map(variables, tmp_path):
    prefix = by_scope(tmp_path, 'kernel')
    wanted = checkpoint_maps.fine_tuning_map(Named(), variables, config(prefix))
    assert list(wanted) == ['kernel', 'logits']


def test_a_run_that_resumes_looks_at_nothing(variables, tmp_path):
    by_scope(tmp_path, 'kernel')
    gone = config('/deleted/since')
    assert checkpoint_maps.fine_tuning_map(Named(), variables, gone, str(tmp_path)) == {}


def test_the_version_is_that_of_the_file(variables, tmp_path):
    scopes, objects = by_scope(tmp_path, 'kernel'), by_objects(tmp_path / 'objects')
    for prefix, version in [(scopes, 'V2'), (objects, 'V1')]:
        wrong = config(prefix, fine_tune_checkpoint_version=version)
        with pytest.raises(errors.CheckpointError, match=f'is {version}, and .* names variables'):
            checkpoint_maps.fine_tuning_map(Named(), variables, wrong)


def test_a_task_without_such_checkpoints_says_so(variables, tmp_path):
    prefix = by_objects(tmp_path)
    with pytest.raises(errors.CheckpointError, match=r'there are none of this model \(named\)'):
        checkpoint_maps.fine_tuning_map(Plain(), variables, config(prefix))
    with pytest.raises(errors.CheckpointError, match='there are none of this model'):
        checkpoint_maps.inference_map(Plain(), variables, prefix)


def test_another_network_with_names_alike_is_refused(variables, tmp_path):
    prefix = by_scope(tmp_path, 'net/kernel', 'other/kernel')
    with pytest.raises(errors.CheckpointError, match='is of the other network'):
        checkpoint_maps.fine_tuning_map(Named(), variables, config(prefix))
    with pytest.raises(errors.CheckpointError, match='is of the other network'):
        checkpoint_maps.inference_map(Named(), variables, prefix)


def test_inference_reads_objects_and_their_step(variables, tmp_path):
    prefix = by_objects(tmp_path)
    step = tf1.train.create_global_step()
    with tf1.Session() as session:
        savers.create_inference_saver(task=Named()).restore(session, prefix)
        kernel, logits, read = session.run([*variables, step])
    np.testing.assert_array_equal(kernel, KERNEL)
    np.testing.assert_array_equal(logits, LOGITS)
    assert read == 12


def test_inference_refuses_objects_that_lack_a_variable(variables, tmp_path):
    prefix = written({PATHS['net/kernel']: KERNEL}, tmp_path)
    with tf1.Session() as session, pytest.raises(errors.CheckpointError, match='net/logits'):
        savers.create_inference_saver(task=Named()).restore(session, prefix)
