"""A segmentation network as files for small devices have it: pixels in, a class for each out."""

from __future__ import annotations

from typing import Callable, Dict, Sequence, Tuple

import tensorflow as tf

from estimator_lib.export import agreement
from estimator_lib.export import deployable as interface
from estimator_lib.task import Arrays, Features, Tensors
from model_fns.segmentation import fields, serving
from model_fns.segmentation.networks import sizes

_MEANINGS = {
    fields.SEMANTIC_PREDICTIONS: 'the class of each pixel, counted from 0 as in labels.txt',
    fields.SEMANTIC_PROBABILITIES: 'of each class at each pixel',
    fields.INSTANCE_CENTERS: 'how much of a center of an instance each pixel is',
    fields.CENTER_OFFSETS: 'rows and columns from each pixel to the center of its instance',
    fields.EDGE_PREDICTIONS: 'the class of the edge that each pixel is on; 0: none',
}


class SegmentationDeployable(interface.Deployable):
    """See `Deployable`. Images of other sizes are scaled down where they are larger, and padded.

    Args:
        size: height and width of the input.
        infer: images -> outputs of the network by their names in `fields`, at the images' size.
        postprocess: (outputs, features) -> outputs, see `SegmentationTask.postprocess`.
        heads: the names in `fields` that `infer` gives.
        mean_pixel: the color of padding.
    """

    def __init__(
        self,
        size: Tuple[int, int],
        infer: Callable[[tf.Tensor], Tensors],
        postprocess: Callable[[Tensors, Features], Tensors],
        heads: Sequence[str],
        mean_pixel: Sequence[float],
    ):
        self.input_shape = (*size, 3)
        self.meanings = {name: _MEANINGS[name] for name in heads}
        self._infer = infer
        self._postprocess = postprocess
        self._mean_pixel = tuple(mean_pixel)

    def pixels(self, features: Features) -> tf.Tensor:
        """See `Deployable`."""

        def placed(one: Sequence[tf.Tensor]) -> tf.Tensor:
            image, content = one
            height, width = tf.unstack(content)
            size = self._size_in_input(content)
            # The padding is of the mean color: zeros around what differs from it.
            found = sizes.resize(image[tf.newaxis, :height, :width] - self._mean_pixel, size)[0]
            return _padded(found, self.input_shape[:2]) + self._mean_pixel

        images = tf.map_fn(
            tf.autograph.experimental.do_not_convert(placed),
            (features[fields.IMAGE], _contents(features)),
            fn_output_signature=tf.TensorSpec(self.input_shape, tf.float32),
        )
        return tf.clip_by_value(images, 0.0, 255.0)

    def network(self, pixels: tf.Tensor) -> Tensors:
        """See `Deployable`."""
        outputs = self._infer(pixels)
        return {name: outputs[name] for name in self.meanings}

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """See `Deployable`; outputs are at the size of the features' images, zeros in padding."""
        frame = sizes.size_of(features[fields.IMAGE])

        def at_size_of_image(name: str, value: tf.Tensor, content: tf.Tensor) -> tf.Tensor:
            size = self._size_in_input(content)
            part = value[tf.newaxis, : size[0], : size[1]]
            return _padded(serving.resized(name, part, size, tf.unstack(content))[0], frame)

        outputs = {
            name: tf.map_fn(
                tf.autograph.experimental.do_not_convert(
                    lambda one, name=name: at_size_of_image(name, *one)
                ),
                (value, _contents(features)),
                fn_output_signature=tf.TensorSpec([None, None, *value.shape[3:]], value.dtype),
            )
            for name, value in found.items()
        }
        return self._postprocess(outputs, features)

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """The numbers, and the classes of pixels."""
        classes = agreement.class_agreement(
            [one[fields.SEMANTIC_PROBABILITIES] for one in expected],
            [one[fields.SEMANTIC_PREDICTIONS] for one in found],
        )
        parts = agreement.compare(expected, found, exact)
        return {**parts, fields.SEMANTIC_PREDICTIONS: classes}

    def _size_in_input(self, content: tf.Tensor) -> sizes.Size:
        """Height and width of what is no padding, in the input.

        Args:
            content: int32 [2]: its height and width in the features.
        """
        room, sides = tf.constant(self.input_shape[:2]), tf.cast(content, tf.int64)
        # In whole numbers: times a rounded factor, the side that fills the input can lose a pixel.
        scaled = sides * tf.cast(room, tf.int64)[:, tf.newaxis] // sides[:, tf.newaxis]
        smaller = tf.maximum(tf.cast(tf.reduce_min(scaled, axis=0), tf.int32), 1)
        is_larger = tf.reduce_any(content > room)
        return tuple(tf.unstack(tf.where(is_larger, smaller, content)))


def _contents(features: Features) -> tf.Tensor:
    """int32 [batch, 2]: height and width of what is no padding in the features' images."""
    if serving.RESIZED_SIZE in features:
        return features[serving.RESIZED_SIZE]
    return features[fields.TRUE_IMAGE_SHAPE][:, :2]


def _padded(values: tf.Tensor, size: sizes.Size) -> tf.Tensor:
    """[height, width, ..] with zeros at the bottom and right."""
    height, width = (side - tf.shape(values)[axis] for axis, side in enumerate(size))
    return tf.pad(values, [[0, height], [0, width], *([[0, 0]] * (values.shape.rank - 2))])
