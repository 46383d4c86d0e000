"""A toy task for tests of the engine: a line fitted to points, so that every number is known."""

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.task import IMAGE, SOURCE_ID, Task
from protos import pipeline_pb2

tf1 = tf.compat.v1


class Line(Task):
    """y = a x: records hold x, the label is 3 x."""

    name = 'line'

    @classmethod
    def from_config(cls, config):
        return cls()

    def decode(self, serialized):
        keys = {'x': tf.io.FixedLenFeature([], tf.float32)}
        x = tf.io.parse_single_example(serialized, keys)['x']
        return {IMAGE: tf.reshape(x, [1, 1, 1]), SOURCE_ID: tf.strings.as_string(x)}

    def augment(self, example, seed):
        return example

    def prepare(self, example, mode):
        return example, {'y': 3.0 * tf.reshape(example[IMAGE], [])}

    def predict(self, features, mode, labels=None):
        slope = tf1.get_variable(
            'slope',
            [],
            initializer=tf1.zeros_initializer(),
            collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES],
        )
        tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, 0.0 * tf.square(slope))
        return {'y': slope * tf.reshape(features[IMAGE], [-1])}

    def losses(self, predictions, features, labels):
        return {'squared': tf.reduce_mean(tf.square(predictions['y'] - labels['y']))}

    def loss_names(self):
        return ('squared',)

    def postprocess(self, predictions, features):
        return predictions

    def metrics(self, outputs, features, labels):
        return {'error': tf1.metrics.mean(tf.abs(outputs['y'] - labels['y']))}

    def metric_names(self):
        return ('error',)

    def training_metrics(self, predictions, features, labels):
        return {'error': tf1.metrics.mean(tf.abs(predictions['y'] - labels['y']))}

    def serving_features(self, images):
        return {IMAGE: tf.cast(images[:, :1, :1, :1], tf.float32)}

    def export_outputs(self, outputs):
        return outputs


CONFIG = """
train_config {{
  batch_size: 2
  num_steps: 6
  optimizer {{
    sgd_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.05 }} }} }}
    use_moving_average: false
  }}
  checkpoints {{ save_every_n_steps: 2 keep_max: 2 }}
  progress {{ every_n_steps: 3 }}
}}
train_input_reader {{ shuffle: false tf_record_input_reader {{ input_path: '{records}' }} }}
eval_config {{ batch_size: 3 num_visualizations: 0 }}
eval_input_reader {{ shuffle: false tf_record_input_reader {{ input_path: '{records}' }} }}
eval_input_reader {{
  name: 'again' shuffle: false tf_record_input_reader {{ input_path: '{records}' }}
}}
export_config {{ final {{ enabled: false }} }}
"""


def write_points(path, points=(1.0, 2.0, 3.0, 4.0)):
    """Write a record for each x."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for x in points:
            example = tf.train.Example()
            example.features.feature['x'].float_list.value.append(x)
            writer.write(example.SerializeToString())


def create_config(folder):
    """The config of a run on the points 1, 2, 3 and 4, which are written to a folder."""
    path = folder / 'points.tfrecord'
    write_points(path)
    return text_format.Parse(CONFIG.format(records=path), pipeline_pb2.TrainEvalPipelineConfig())


def batch(x=(1.0, 2.0)):
    """Features and labels of points."""
    image = tf.reshape(tf.constant(x), [-1, 1, 1, 1])
    source_ids = tf.strings.as_string(tf.constant(x))
    return {IMAGE: image, SOURCE_ID: source_ids}, {'y': 3.0 * tf.constant(x)}


def slope_after(steps, batches=((1.0, 2.0), (3.0, 4.0)), rate=0.05):
    """Gradient descent by hand."""
    slope = 0.0
    for step in range(steps):
        x = np.array(batches[step % len(batches)])
        slope -= rate * np.mean(2 * (slope - 3.0) * x * x)
    return slope


def error_after(steps):
    """The mean distance from the labels 3 x; that of x is 2.5."""
    return abs(slope_after(steps) - 3.0) * 2.5
