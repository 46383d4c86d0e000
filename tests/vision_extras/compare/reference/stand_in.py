"""A stand-in for the API whose models are our own detectors: both sides must agree."""

import sys
import types

import tensorflow as tf

from estimator_lib.optimization import learning_rates, optimizers
from model_fns.detection import detector, fields
from model_fns.detection.boxes.targets import Groundtruth
from protos import pipeline_pb2

tf1 = tf.compat.v1


class StandIn:
    """A detector with the published methods of a model."""

    def __init__(self, config, is_training):
        self._model = detector.build_detector(config)
        self._is_training = is_training

    def preprocess(self, images):
        return self._model.preprocess(images, None), None

    def predict(self, images, true_shapes):
        return {
            fields.PREPROCESSED: images,
            **self._model.predict(images, true_shapes, None, self._is_training),
        }

    def provide_groundtruth(self, boxes, classes, groundtruth_weights_list):
        most = tf.reduce_max([tf.shape(each)[0] for each in boxes])

        def padded(rows):
            pads = [[0, most - tf.shape(rows)[0]]] + [[0, 0]] * (rows.shape.rank - 1)
            return tf.pad(rows, pads)

        groups = [boxes, classes, groundtruth_weights_list]
        values = [tf.stack([padded(rows) for rows in group]) for group in groups]
        valid = tf.stack([tf.range(most) < tf.shape(each)[0] for each in boxes])
        self._groundtruth = Groundtruth(*values, valid)

    def loss(self, predictions, true_shapes):
        losses = self._model.losses(predictions, true_shapes, self._groundtruth)
        return {f'Loss/{name}': loss for name, loss in losses.items()}

    def postprocess(self, predictions, true_shapes):
        return self._model.postprocess(predictions, true_shapes)


def _build_optimizer(config):
    rate = learning_rates.create_learning_rate(
        optimizers.learning_rate_config(config), tf1.train.get_global_step(), 1000
    )
    return optimizers.create_optimizer(config, rate), ()


def install(monkeypatch):
    """Make the stand-in the package `object_detection`."""
    builders = 'object_detection.builders'
    modules = {
        'object_detection': types.ModuleType('object_detection'),
        'object_detection.protos.pipeline_pb2': pipeline_pb2,
        f'{builders}.model_builder': types.SimpleNamespace(
            build=lambda config, is_training: StandIn(config, is_training)
        ),
        f'{builders}.optimizer_builder': types.SimpleNamespace(build=_build_optimizer),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
