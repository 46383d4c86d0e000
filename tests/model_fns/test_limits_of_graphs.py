"""Limits of graphs of Estimators: what docs/python.md says of each, and the way around it."""

import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import tf_estimator
from estimator_lib.model_fn import create_model_fn
from model_fns import build_task, layers
from model_fns.structures import label_map
from tests import tiny_detection
from tests.estimator_lib import line_task

tf1 = tf.compat.v1


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def points():
    return tf.data.Dataset.from_tensors(line_task.batch())


def test_equality_of_tensors_is_identity():
    seen = []

    def keep_zeros(features, labels):
        del labels
        mask = tf.constant([0, 1])
        seen.append(mask == 0)
        kept = tf.boolean_mask(features['x'], tf.equal(mask, 0))
        return tf_estimator.EstimatorSpec('infer', predictions={'x': kept})

    def input_fn():
        def read(x):
            seen.append(x == 0)
            return {'x': x}

        return tf.data.Dataset.from_tensors([3, 4]).map(read)

    with tf.Graph().as_default(), tf1.Session() as session:
        features = tf1.data.make_one_shot_iterator(input_fn()).get_next()
        spec = keep_zeros(features, None)
        assert session.run(spec.predictions['x']).tolist() == [3]
    assert seen == [False, False]


def create_hook(config, folder):
    estimator = tf_estimator.Estimator(
        create_model_fn(line_task.Line(), config), model_dir=str(folder)
    )
    return tf_estimator.experimental.InMemoryEvaluatorHook(estimator, points)


def test_an_evaluation_in_memory_has_no_moving_averages(config, tmp_path):
    config.train_config.optimizer.use_moving_average = True
    config.eval_config.use_moving_averages = True
    with pytest.raises(ValueError, match='does not support custom saver'):
        create_hook(config, tmp_path).begin()
    config.eval_config.use_moving_averages = False
    create_hook(config, tmp_path).begin()


class Layered(line_task.Line):
    """The line through a layer of this package."""

    def predict(self, features, mode, labels=None):
        style = layers.LayerStyle(is_training=mode == 'train')
        x = tf.reshape(features['image'], [-1, 1])
        return {'y': layers.fully_connected(x, 1, style.linear(), 'last')[:, 0]}


def test_layers_keep_their_variables_in_graphs_that_are_no_functions(config):
    model_fn = create_model_fn(Layered(), config)

    def predict(x):
        return model_fn({'image': x}, None, 'infer').predictions

    with pytest.raises(ValueError, match='expected .* a tf.Graph'):
        tf1.wrap_function(predict, [tf.TensorSpec([None, 1, 1, 1])])
    with tf.Graph().as_default(), tf1.Session() as session:
        outputs = predict(tf.zeros([2, 1, 1, 1]))
        session.run(tf1.global_variables_initializer())
        assert session.run(outputs)['y'].tolist() == [0, 0]  # the bias, of zeros


def test_an_iterator_without_initializer_holds_no_names_of_classes(tmp_path):
    label_map.LabelMap.from_names(['green', 'blue']).write(str(tmp_path / 'label_map.pbtxt'))
    config = config_lib.parse_pipeline_config(tiny_detection.config_text(tmp_path), 'x')
    task = build_task(config)

    def read():
        return tf.data.TFRecordDataset([]).map(task.decode)

    with tf.Graph().as_default(), pytest.raises(ValueError, match='make_initializable_iterator'):
        tf1.data.make_one_shot_iterator(read())
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = tf1.data.make_initializable_iterator(read())
        tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        example = iterator.get_next()
        session.run(tf1.tables_initializer())  # as the Scaffold of each Estimator does
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(example)


def test_metrics_of_keras_3_have_no_update_op(config, tmp_path):
    def mean(features, labels, predictions):
        del labels, predictions
        metric = tf.keras.metrics.Mean()
        metric.update_state(features['image'])
        return {'mean': metric}

    estimator = tf_estimator.Estimator(create_model_fn(line_task.Line(), config), str(tmp_path))
    added = tf_estimator.add_metrics(estimator, mean)

    def build():
        with tf.Graph().as_default():
            return added.model_fn(*line_task.batch(), 'eval', added.config).eval_metric_ops

    if getattr(tf.keras, '__version__', '2').startswith('2'):
        assert 'mean' in build()
    else:
        with pytest.raises(AttributeError, match="no attribute 'updates'"):
            build()
