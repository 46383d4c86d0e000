"""Tiny models of the tasks with lively weights, and what their files for small devices compute."""

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.checkpoints import model_variables
from estimator_lib.export import formats, samples
from estimator_lib.export.devices import device_files, static_graph
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import DeploymentOptions
from tests.model_fns.segmentation import tiny_networks

tf1 = tf.compat.v1


def save(task, prefix, lively=True, steps=0, filled=None, deviation=0.4):
    """Write a checkpoint of a task's network.

    Args:
        task: of the network.
        prefix: of the checkpoint.
        lively: whether weights are large but for those of detectors' heads; else as they are at
            first.
        steps: forward passes of training, in which ranges of a quantization move.
        filled: values of variables whose names begin with a text.
        deviation: of large weights.
    """
    mode = tf_estimator.ModeKeys.TRAIN if steps else tf_estimator.ModeKeys.PREDICT
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(0)
        tf1.train.create_global_step()
        features = task.serving_features(tf.constant(np.stack(images(4))))
        predictions = task.predict(features, mode)
        session.run(tf1.global_variables_initializer())
        if lively:
            enliven(session, deviation)
        for variable in tf1.global_variables():
            for start, value in (filled or {}).items():
                if variable.op.name.startswith(start):
                    variable.load(np.full(variable.shape, value), session)
        for _ in range(steps):
            session.run(predictions)
        variables = model_variables.with_companions(tf1.get_default_graph())
        return tf1.train.Saver(variables).save(session, str(prefix), write_meta_graph=False)


def enliven(session, deviation=0.4):
    """Give the variables of a session's graph large values, but for those of detectors' heads."""
    tiny_networks.lively(session, deviation=deviation)
    heads = session.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    session.run([one.initializer for one in heads if 'Predictor' in one.op.name])


def images(count, height=40, width=44, seed=0):
    """Return images uint8 [height, width, 3] of patches on noise."""
    random = np.random.RandomState(seed)
    found = []
    for _ in range(count):
        image = random.randint(0, 80, [height, width, 3])
        top, left = random.randint(0, height // 2), random.randint(0, width // 2)
        image[top : top + 15, left : left + 15] += random.randint(0, 170, 3)
        found.append(image.astype(np.uint8))
    return found


class Served:
    """A task's checkpoint, as a function of images: what an export answers."""

    def __init__(self, task, checkpoint):
        self._session = tf1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            self._images = tf1.placeholder(tf.uint8, [1, None, None, 3])
            features = task.serving_features(self._images)
            predictions = task.predict(features, tf_estimator.ModeKeys.PREDICT)
            self._outputs = task.export_outputs(task.postprocess(predictions, features))
            variables = model_variables.with_companions(self._session.graph)
            tf1.train.Saver(variables).restore(self._session, checkpoint)

    def __call__(self, image):
        return self._session.run(self._outputs, {self._images: image[np.newaxis]})


class Deployed:
    """The file of a task's checkpoint with what a program does around it, as the same function."""

    def __init__(
        self,
        task,
        config,
        checkpoint,
        folder,
        quantize='none',
        calibration=(),
        format_name='tflite',
        batch=1,
        **options,
    ):
        writer = formats.create_writer(format_name)
        self.deployable = task.deployable(writer.ops, DeploymentOptions(**options))
        self.graph = static_graph.build(self.deployable, Source(task, config, checkpoint), batch)
        path = str(folder / writer.file_name)
        representative = samples.pixels(task, self.deployable, calibration)
        writer.convert(self.graph, path, quantize, representative)
        self.file: device_files.FileModel = writer.load(path)
        self._task = task

    def pixels(self, image):
        return samples.pixels(self._task, self.deployable, [image])[0]

    def __call__(self, image):
        return self.finished(self.file.run(self.pixels(image)), image)

    def finished(self, found, image):
        """Return what a program makes of the outputs of the file for an image."""
        with tf.Graph().as_default(), tf1.Session() as session:
            features = self._task.serving_features(tf.constant(image[np.newaxis]))
            tensors = {name: tf.constant(value) for name, value in found.items()}
            return session.run(self.deployable.outputs(tensors, features))
