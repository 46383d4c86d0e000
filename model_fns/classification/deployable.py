"""Classifier in files for small devices: from pixels to logits and probabilities."""

from __future__ import annotations

from typing import Callable, Dict, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import IMAGE, Arrays, Features, Tensors
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces import deployable as interface
from model_fns.classification import preprocessing

# Outputs of the task, of which the first two are those of files.
LOGITS = 'logits'  # float32 [batch, classes]
PROBABILITIES = 'probabilities'  # float32 [batch, classes]
CLASSES = 'classes'  # int64 [batch]: labels


class ClassificationDeployable(interface.Deployable):
    """Network of a classifier for one image of a fixed size.

    Args:
        input_shape: (height, width, channels) of the network's input.
        family: how pixels become the network's input.
        logits: features -> logits [batch, num_classes], in inference.
        postprocess: logits -> outputs, see `ClassificationTask.postprocess`.
        num_classes: number of the logits.

    Attributes:
        activation: function that computes probabilities of logits.
        meaning_of_probabilities: what they are, for people.
    """

    activation = staticmethod(tf.nn.softmax)
    meaning_of_probabilities = 'of each class, in the order of labels.txt; their sum is 1'

    def __init__(
        self,
        input_shape: Tuple[int, int, int],
        family: preprocessing.Family,
        logits: Callable[[Features], tf.Tensor],
        postprocess: Callable[[tf.Tensor], Tensors],
        num_classes: int,
    ):
        self.input_shape = input_shape
        self.meanings = {
            LOGITS: 'of each class, in the order of labels.txt',
            PROBABILITIES: self.meaning_of_probabilities,
        }
        self.kind = 'classify'
        self.resize = family.rule()
        self.report = (
            f"probabilities = outputs['{PROBABILITIES}'][0]",
            'results = [',
            "    {'class': names[index], 'score': round(float(probabilities[index]), 6)}",
            "    for index in np.argsort(-probabilities, kind='stable')[:5]",
            ']',
        )
        # Programs that take one output take the first.
        self.contents = dict.fromkeys((PROBABILITIES, LOGITS), interface.Content.CLASS_SCORES)
        self.sizes = dict.fromkeys((PROBABILITIES, LOGITS), (num_classes,))
        self._num_classes = num_classes
        self._family = family
        self._logits = logits
        self._postprocess = postprocess

    def pixels(self, features: Features) -> tf.Tensor:
        """Return the pixels of each image: the input of the file.

        They are from 0 to 255, and a little outside where a family resizes bicubically. The network
        was trained so: without these values its logits differ.

        Returns:
            float32 [batch, height, width, channels].
        """
        return self._family.denormalize(features[IMAGE])

    def network(self, pixels: tf.Tensor) -> Tensors:
        """Build the logits and probabilities of pixels: float32 [batch, classes] each."""
        logits = self._logits({IMAGE: self._family.normalize(pixels)})
        return {LOGITS: logits, PROBABILITIES: self.activation(logits)}

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Build the outputs of `ClassificationTask.postprocess`, with those of the file.

        Returns:
            Logits and probabilities are float32 [batch, classes].
        """
        del features
        return {**self._postprocess(found[LOGITS]), **found}

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare the outputs, and the most probable classes."""
        classes = agreement.class_agreement(
            [one[PROBABILITIES] for one in expected],
            [np.argmax(one[LOGITS], -1) for one in found],
        )
        return {CLASSES: classes, **agreement.compare(expected, found, exact)}
