import subprocess
import sys

import pytest

from estimator_lib.tf_estimator import stand_ins
from tests import processes

# Trains a line by the Estimator with all stand-ins, which TensorFlow 2.15 does not need.
PROGRAM = """
import sys
import tensorflow as tf
from estimator_lib import tf_estimator
from estimator_lib.tf_estimator import stand_ins
stand_ins.is_built_in = lambda: False
tf1 = tf.compat.v1
Estimator = tf_estimator.Estimator
assert Estimator.__module__ == 'tensorflow_estimator.python.estimator.estimator'

def model_fn(features, labels, mode):
    weight = tf1.get_variable('weight', [])
    loss = tf.reduce_mean((features * weight - labels) ** 2)
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, features * weight, loss, train)

def input_fn():
    points = tf.data.Dataset.from_tensor_slices(([1.0, 2.0], [3.0, 6.0]))
    return points.repeat().batch(2)

estimator = Estimator(model_fn, sys.argv[1]).train(input_fn, steps=30)
print(round(float(estimator.get_variable_value('weight')), 3))
"""


def test_an_estimator_trains_with_all_replacements(tmp_path):
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=processes.ROOT,
    )
    assert done.stdout == '3.0\n', done.stderr
    # The original decorator of each symbol logs that Keras should be used instead.
    assert 'tf.keras' not in done.stderr


@pytest.fixture
def without_estimator(monkeypatch):
    monkeypatch.setattr(stand_ins, 'is_built_in', lambda: False)


def test_replacements_last_for_the_imports_only(without_estimator):
    names = [one.replaced_in for one in stand_ins.REMOVED]
    before = [sys.modules.get(name) for name in names]
    with stand_ins.installed():
        within = [sys.modules[name] for name in names]
    assert not any(a is b for a, b in zip(before, within))
    assert [sys.modules.get(name) for name in names] == before


def test_replacements_end_with_an_error_too(without_estimator):
    names = [one.replaced_in for one in stand_ins.REMOVED]
    before = [sys.modules.get(name) for name in names]
    with pytest.raises(ImportError, match='inside'), stand_ins.installed():
        raise ImportError('inside')
    assert [sys.modules.get(name) for name in names] == before


def test_what_tpu_estimators_need_is_imported_and_not_used(without_estimator):
    with stand_ins.installed():
        embedding = sys.modules['tensorflow.python.tpu.tpu_embedding']
        adam = embedding.AdamParameters
    refused = r'tensorflow\.python\.tpu\.tpu_embedding\.{} was removed from TensorFlow 2\.16; '
    with pytest.raises(NotImplementedError, match=refused.format('AdamParameters')):
        adam(0.1)
    with pytest.raises(NotImplementedError, match=refused.format('TPUEmbedding')):
        embedding.TPUEmbedding()
    assert not hasattr(embedding, '__path__')
