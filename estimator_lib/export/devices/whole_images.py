"""Networks in files that take whole images, and resize them inside."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Arrays, Features, Tensors
from estimator_lib.task_interfaces.deployable import Deployable, Ops, PluginNode
from estimator_lib.task_interfaces.resizing import CENTRAL_CROP, INSIDE, STRETCH, Resize

tf1 = tf.compat.v1

IMAGE = 'image'  # of `--input`


class WholeImages(Deployable):
    """Network with the resizing of its images, for uint8 images of any size.

    Args:
        network: the network for images of one size.

    Raises:
        errors.UserError: the rule of its images needs more than the size of the input.
    """

    input_dtype = tf.uint8
    takes_images = True

    def __init__(self, network: Deployable):
        self._network = network
        rule = network.resize
        if rule is None or rule.rule not in (STRETCH, CENTRAL_CROP) or rule.padding is not None:
            raise errors.UserError(
                f'--input={IMAGE}: the file would resize images by {STRETCH} or {CENTRAL_CROP}, '
                f'and this model needs {rule or "another rule"}; leave it out.'
            )
        self._rule: Resize = rule
        self.input_shape = (None, None, network.input_shape[2])
        self.resize = Resize(INSIDE)
        self.kind, self.report = network.kind, network.report
        self.meanings, self.contents = network.meanings, network.contents
        self.sizes, self.notes = network.sizes, network.notes

    def pixels(self, features: Features) -> tf.Tensor:
        """Refuse: features have resized images."""
        raise NotImplementedError

    def network(self, pixels: tf.Tensor) -> Tensors:
        """Resize images uint8 [B, height, width, channels], and build the network."""
        images = tf.cast(pixels, tf.float32)
        if self._rule.rule == CENTRAL_CROP:
            sides = tf.shape(images)[1:3]
            lengths = tf.cast(sides, tf.float32)
            # As `tf.image.central_crop`: the start is rounded down and taken from both ends.
            start = tf.cast((lengths - lengths * self._rule.fraction) / 2, tf.int32)
            end = sides - start
            images = images[:, start[0] : end[0], start[1] : end[1]]
        height, width, channels = self._network.input_shape
        resized = tf1.image.resize_bilinear(images, [height, width])
        return self._network.network(tf.ensure_shape(resized, [None, height, width, channels]))

    def finish(self, raw: Tensors, ops: Ops) -> Tensors:
        """Build the outputs of the file."""
        return self._network.finish(raw, ops)

    def intermediates(self, raw: Tensors) -> Tensors:
        """Return the values by which a file is compared."""
        return self._network.intermediates(raw)

    def plugin_node(self) -> Optional[PluginNode]:
        """Return the node that ends the file."""
        return self._network.plugin_node()

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Build the outputs of the task."""
        return self._network.outputs(found, features)

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare the outputs of a file with those of TensorFlow."""
        return self._network.agreement(expected, found, exact)

    def largest_differences(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """Compute the largest differences of outputs."""
        return self._network.largest_differences(expected, found)
