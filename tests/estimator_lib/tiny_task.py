"""A small task for tests of the engine: images to two numbers and a label."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_lib.task import IMAGE, SOURCE_ID, CheckpointMapping, Presentation, Task
from estimator_lib.task_interfaces.deployable import NO_CHANGES, Deployable

tf1 = tf.compat.v1

SIZE = 6


class Presented(Presentation):
    """Part of a task that is its own presentation."""

    @property
    def presentation(self):
        """The task."""
        return self


class TinyTask(Task):
    """One convolution with batch norm on images of 6 x 6 pixels, and the mean of its channels."""

    name = 'tiny'

    def __init__(self, channels=2):
        self._channels = channels

    def decode(self, serialized):
        raise NotImplementedError

    def augment(self, example, seed):
        return example

    def prepare(self, example, mode):
        raise NotImplementedError

    def predict(self, features, mode, labels=None):
        weights = _variable('Tiny/conv/weights', [3, 3, 3, self._channels])
        outputs = tf.nn.conv2d(features[IMAGE], weights, 1, 'SAME')
        statistics = {
            key: _variable(f'Tiny/conv/BatchNorm/{name}', [self._channels], trainable)
            for key, name, trainable in (
                ('scale', 'gamma', True),
                ('offset', 'beta', True),
                ('mean', 'moving_mean', False),
                ('variance', 'moving_variance', False),
            )
        }
        outputs = tf.raw_ops.FusedBatchNormV3(
            x=outputs, epsilon=0.001, is_training=False, **statistics
        ).y
        return {'logits': tf.reduce_mean(tf.nn.relu(outputs), [1, 2])}

    def losses(self, predictions, features, labels):
        return {'tiny_loss': tf.reduce_mean(predictions['logits'])}

    def postprocess(self, predictions, features):
        logits = predictions['logits']
        return {'logits': logits, 'classes': tf.argmax(logits, -1)}

    def metrics(self, outputs, features, labels):
        return {}

    def metric_names(self):
        return ['accuracy']

    def loss_names(self):
        return ['tiny_loss']

    def serving_features(self, images):
        resized = tf.image.resize(tf.cast(images, tf.float32), [SIZE, SIZE])
        source_id = tf.fill(tf.shape(images)[:1], '')
        return {IMAGE: resized * (2.0 / 255.0) - 1.0, SOURCE_ID: source_id}

    def export_outputs(self, outputs):
        return {name: outputs[name] for name in ('logits', 'classes')}

    def deployable(self, ops, options=NO_CHANGES):
        options.refuse_others((), 'a tiny task knows none')
        return TinyDeployable(self)


class TinyDeployable(Deployable):
    """The task's network of pixels."""

    input_shape = (SIZE, SIZE, 3)

    def __init__(self, task):
        self.meanings = {'logits': 'two numbers', 'classes': 'the larger one'}
        self._task = task

    def pixels(self, features):
        return (features[IMAGE] + 1.0) * (255.0 / 2.0)

    def network(self, pixels):
        return self._task.predict({IMAGE: pixels * (2.0 / 255.0) - 1.0}, 'infer')

    def finish(self, raw, ops):
        return self._task.postprocess(raw, {})

    def outputs(self, found, features):
        return found


def with_files(texts):
    """Checkpoints of a task with files beside its own."""
    checkpoints = CheckpointMapping()
    checkpoints.asset_files = texts
    return checkpoints


def values(channels=2, scale=1.0):
    """Values for the task's variables, by name."""
    random = np.random.RandomState(0)
    shapes = {
        'Tiny/conv/weights': [3, 3, 3, channels],
        'Tiny/conv/BatchNorm/gamma': [channels],
        'Tiny/conv/BatchNorm/beta': [channels],
        'Tiny/conv/BatchNorm/moving_mean': [channels],
        'Tiny/conv/BatchNorm/moving_variance': [channels],
    }
    return {
        name: (scale * random.uniform(0.2, 1.0, shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def save(path, arrays):
    """Write arrays as a checkpoint, by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = {
            name: tf1.Variable(value, name=f'v{index}')
            for index, (name, value) in enumerate(arrays.items())
        }
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver(variables).save(session, str(path))


def expected_logits(images, arrays):
    """What the task computes, by an op at a time in eager mode.

    Args:
        images: uint8 [batch, height, width, 3].
        arrays: values of the variables.
    """
    resized = tf.image.resize(tf.cast(images, tf.float32), [SIZE, SIZE]) * (2.0 / 255.0) - 1.0
    outputs = tf.nn.conv2d(resized, arrays['Tiny/conv/weights'], 1, 'SAME')
    prefix = 'Tiny/conv/BatchNorm/'
    gamma, beta, mean, variance = (
        arrays[prefix + name] for name in ('gamma', 'beta', 'moving_mean', 'moving_variance')
    )
    outputs = gamma * (outputs - mean) / np.sqrt(variance + 0.001) + beta
    return np.maximum(outputs.numpy(), 0).mean(axis=(1, 2))


def _variable(name, shape, trainable=True):
    collections = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
    return tf1.get_variable(name, shape, trainable=trainable, collections=collections)
