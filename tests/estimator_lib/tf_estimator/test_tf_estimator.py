import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.tf_estimator import stand_ins
from tests import processes

BUILT_IN = hasattr(tf, 'estimator')


def run(code):
    """Runs code in a new process, where nothing has been imported; returns what it prints."""
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', code],
        capture_output=True,
        text=True,
        cwd=processes.ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    'path',
    [
        'Estimator',
        'EstimatorSpec',
        'ModeKeys.TRAIN',
        'RunConfig',
        'SessionRunHook',
        'TrainSpec',
        'WarmStartSettings',
        'add_metrics',
        'experimental.stop_if_no_increase_hook',
        'export.ServingInputReceiver',
        'train_and_evaluate',
    ],
)
def test_names_are_those_of_tensorflow(path):
    found, expected = tf_estimator, tf.estimator if BUILT_IN else None
    for name in path.split('.'):
        found, expected = getattr(found, name), getattr(expected, name, None)
    assert found is expected or not BUILT_IN


def test_hooks_are_those_of_tensorflow():
    assert tf_estimator.SessionRunHook is tf.compat.v1.train.SessionRunHook
    assert tf_estimator.CheckpointSaverHook is tf.compat.v1.train.CheckpointSaverHook


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match='Estimatr'):
        tf_estimator.Estimatr  # noqa: B018


def test_the_names_are_listed():
    assert {'Estimator', 'RunConfig', 'install'} <= set(dir(tf_estimator))


def test_tensorflow_stays_as_it_is():
    code = (
        'import sys, tensorflow as tf\n'
        'before = set(dir(tf)) | set(dir(tf.compat.v1))\n'
        'from estimator_lib import tf_estimator\n'
        'from estimator_lib.tf_estimator import stand_ins\n'
        'tf_estimator.Estimator\n'
        'print(sorted((set(dir(tf)) | set(dir(tf.compat.v1))) - before))\n'
        'names = [one.replaced_in for one in stand_ins.REMOVED if not stand_ins.is_built_in()]\n'
        'print([name for name in names if name in sys.modules])\n'
    )
    assert run(code) == ['[]', '[]']


def test_programs_that_use_the_names_of_tensorflow_ask_for_it():
    code = (
        'import tensorflow as tf\n'
        'from estimator_lib import tf_estimator\n'
        'tf_estimator.install()\n'
        'tf_estimator.install()\n'
        'print(tf.estimator.Estimator is tf_estimator.Estimator)\n'
        "print(hasattr(tf.compat.v1.estimator, 'inputs'))\n"
        "print(hasattr(tf.compat.v2.estimator, 'inputs'))\n"
    )
    assert run(code) == ['True', 'True', 'False']


def test_tensorflow_2_15_stays_as_it_is():
    if not stand_ins.is_built_in():
        pytest.skip('for TensorFlow 2.15: later ones have no tf.estimator of their own')
    estimator = tf.estimator
    tf_estimator.install()
    assert tf.estimator is estimator
