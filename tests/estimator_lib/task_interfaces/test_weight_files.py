import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import (
    checkpoint_files,
    checkpoint_maps,
    fine_tuning,
    restore_report,
)
from estimator_lib.task_interfaces import weight_files
from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping
from protos import train_pb2

tf1 = tf.compat.v1

VALUES = {
    'net/conv/weights': np.arange(4.0, dtype=np.float32).reshape([2, 2]),
    'net/logits/weights': np.ones([2, 1000], np.float32),
}


class Reader:
    """Reader of a file of two variables."""

    def __init__(self, path):
        self.path = path

    def get_variable_to_shape_map(self):
        return {name: list(value.shape) for name, value in VALUES.items()}

    def get_variable_to_dtype_map(self):
        return dict.fromkeys(VALUES, tf.float32)

    def has_tensor(self, name):
        return name in VALUES

    def get_tensor(self, name):
        return VALUES[name]

    def description(self):
        return 'Net, license mine'


class AveragedTask(CheckpointMapping):
    """Task whose published checkpoints hold averages."""

    name = 'averaged'

    @property
    def checkpoints(self):
        return self

    def restore_map(self, variables, checkpoint_type):
        return {f'{v.op.name}/ExponentialMovingAverage': v for v in variables}


@pytest.fixture
def path(tmp_path, monkeypatch):
    file = tmp_path / 'net.weights'
    file.write_text('')
    monkeypatch.setitem(weight_files.READERS, '.weights', Reader)
    monkeypatch.setitem(weight_files.FINDERS, 'store:', lambda name, where: str(file))
    return str(file)


def variables(side=2, classes=1000):
    return {
        'net/conv/weights': tf1.get_variable('net/conv/weights', [2, side]),
        'net/logits/weights': tf1.get_variable('net/logits/weights', [2, classes]),
    }


def test_what_a_path_is(path, tmp_path):
    assert weight_files.find(path, 'flag') == path
    assert weight_files.find('store:net', 'flag') == path
    assert weight_files.find('model.ckpt-1', 'flag') is None
    with pytest.raises(
        errors.CheckpointError,
        match=r'^flag: there is no file x\.weights \(in the working folder .*\)\.$',
    ):
        weight_files.find('x.weights', 'flag')
    assert weight_files.open_weights('model.ckpt-1') is None
    assert weight_files.open_weights(path).path == path


def test_a_checkpoint_is_asked_for(path):
    with pytest.raises(errors.CheckpointError) as caught:
        checkpoint_files.resolve_checkpoint(path, '--checkpoint_path')
    assert str(caught.value) == (
        f'--checkpoint_path: {path} is no checkpoint; make one of it: convert-checkpoint '
        f'--from={path}.'
    )


def test_a_run_starts_from_the_values(path):
    config = train_pb2.TrainConfig(fine_tune_checkpoint='store:net')
    with tf.Graph().as_default(), tf1.Session() as session:
        wanted = checkpoint_maps.fine_tuning_map(
            AveragedTask(), list(variables(classes=5).values()), config
        )
        assert sorted(wanted) == sorted(VALUES)
        start = fine_tuning.fine_tune_start(config, wanted, ['logits/'])
        session.run(tf1.global_variables_initializer())
        start.pop('init_feed_dict', {}).clear()
        start['init_fn'](None, session)
        conv = session.run(wanted['net/conv/weights'])
    np.testing.assert_array_equal(conv, VALUES['net/conv/weights'])


def test_the_report_has_the_license(path):
    config = train_pb2.TrainConfig(fine_tune_checkpoint=path)
    with tf.Graph().as_default():
        report = fine_tuning.fine_tune_report(config, variables(classes=5), ['logits/'])
    assert report.table().startswith(f'Restore from {path}\n  Net, license mine\n')
    assert [entry.name for entry in report.loaded] == ['net/conv/weights']
    assert [entry.name for entry in report.mismatched] == ['net/logits/weights']
    assert restore_report.RestoreReport('x').table().splitlines()[1].split()[0] == 'variables'


def test_another_network_of_the_family(path):
    config = train_pb2.TrainConfig(fine_tune_checkpoint=path)
    with tf.Graph().as_default():
        wanted = variables(side=3)
        with pytest.raises(errors.CheckpointError) as caught:
            fine_tuning.fine_tune_report(config, wanted, ['logits/'])
        assert str(caught.value) == (
            f'train_config.fine_tune_checkpoint: {path} is of another network: 1 variables have '
            'other shapes than in the model, as net/conv/weights, [2, 2] there and [2, 3] in the '
            'model; train_config.ignore_missing_variables: true lets such variables keep their '
            'initial values.'
        )
        config.ignore_missing_variables = True
        assert fine_tuning.fine_tune_report(config, wanted, ['logits/']).loaded
