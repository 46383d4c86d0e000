"""The tiny task as what files for devices are made of."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.export.deployable import Deployable
from estimator_lib.task import IMAGE
from tests.estimator_lib import tiny_task


class TinyDeployable(Deployable):
    """Logits and class of an image of 6 x 6 pixels."""

    input_shape = (tiny_task.SIZE, tiny_task.SIZE, 3)

    def __init__(self, task):
        self.meanings = {'logits': 'of the classes', 'classes': 'the best'}
        self._task = task

    def pixels(self, features):
        return (features[IMAGE] + 1.0) * 127.5

    def network(self, pixels):
        return self._task.predict({IMAGE: pixels / 127.5 - 1.0}, 'infer')

    def finish(self, raw, ops):
        return {**raw, 'classes': tf.argmax(raw['logits'], -1)}

    def outputs(self, found, features):
        return {name: found[name] for name in self.meanings}


class DeployedTask(tiny_task.TinyTask):
    """A task whose network goes into files."""

    def deployable(self, ops, options):
        del ops, options
        return TinyDeployable(self)
