"""A segmentation network for small devices: from pixels to a class for each."""

from __future__ import annotations

import copy
from typing import Callable, Collection, Dict, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Arrays, Features, Tensors
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces import deployable as interface
from estimator_lib.task_interfaces.resizing import SHRINK, Resize
from model_fns.segmentation import fields, serving
from model_fns.segmentation.networks import sizes

_MEANINGS = {
    fields.SEMANTIC_PREDICTIONS: 'the class of each pixel, counted from 0 as in labels.txt',
    fields.SEMANTIC_PROBABILITIES: 'of each class at each pixel',
    fields.INSTANCE_CENTERS: 'how much of a center of an instance each pixel is',
    fields.CENTER_OFFSETS: 'rows and columns from each pixel to the center of its instance',
    fields.EDGE_PREDICTIONS: 'the class of the edge that each pixel is on; 0: none',
}

_CLASSES = (fields.SEMANTIC_PREDICTIONS, fields.SEMANTIC_PROBABILITIES)

# Lines of the program beside a file: the classes of pixels at the size of the image.
_IDS = f"ids = outputs['{fields.SEMANTIC_PREDICTIONS}'][0]"
_ARGMAX = f"ids = outputs['{fields.SEMANTIC_PROBABILITIES}'][0].argmax(-1)"
_REPORT = (
    'ids = ids[: content[0], : content[1]]',
    # Aligned corners, a half up, as the nearest resize of the network: NumPy alone is enough.
    'places = [np.linspace(0, old - 1, side) for old, side in zip(content, size)]',
    'ids = ids[tuple(np.ix_(*(np.floor(place + 0.5).astype(int) for place in places)))]',
    "Image.fromarray(ids.astype(np.uint8)).save(os.path.splitext(path)[0] + '_classes.png')",
    'numbers, counts = np.unique(ids, return_counts=True)',
    'results = [',
    "    {'class': names[number], 'pixels': int(count)} for number, count in zip(numbers, counts)",
    ']',
)


class SegmentationDeployable(interface.Deployable):
    """Segmentation network for one image size; larger images are scaled down, smaller ones padded.

    Ids are int32.

    Args:
        size: height and width of the input.
        infer: images -> outputs of the network by their names in `fields`, at the images' size.
        postprocess: (outputs, features) -> outputs, see `SegmentationTask.postprocess`.
        heads: names in `fields` of the outputs of `infer`.
        mean_pixel: the color of padding.
        num_classes: number of probabilities of a pixel; None: not known.
        resizes: whether the config resizes images before they are scaled down.
    """

    def __init__(
        self,
        size: Tuple[int, int],
        infer: Callable[[tf.Tensor], Tensors],
        postprocess: Callable[[Tensors, Features], Tensors],
        heads: Sequence[str],
        mean_pixel: Sequence[float],
        num_classes: Optional[int] = None,
        resizes: bool = False,
    ):
        self.input_shape = (*size, len(mean_pixel))
        self.scales_down_to = size
        self.meanings = {name: _MEANINGS[name] for name in heads}
        self.kind = 'semantic'
        if not resizes:
            padding = tuple(float(value) for value in mean_pixel)
            self.resize = Resize(SHRINK, padding=padding, aligns_corners=True)
        self.report = (_IDS, *_REPORT)
        self.contents = {fields.SEMANTIC_PROBABILITIES: interface.Content.CLASS_SCORES}
        self.sizes = {
            name: (*size, num_classes) if name == fields.SEMANTIC_PROBABILITIES else size
            for name in _CLASSES
            if name in self.meanings
        }
        self._infer = infer
        self._postprocess = postprocess
        self._mean_pixel = tuple(mean_pixel)

    def only_masks(self) -> SegmentationDeployable:
        """Return the network with the probabilities as its only output, a mask for each class.

        A host takes the classes of them.

        Raises:
            errors.UserError: the network has further outputs, which no masks hold.
        """
        further = [name for name in self.meanings if name not in _CLASSES]
        if further:
            raise errors.UserError(
                f'--confidence_masks: the network has the output {further[0]} too, which masks of '
                'classes do not hold; leave the flag out.'
            )
        result = copy.copy(self)
        name = fields.SEMANTIC_PROBABILITIES
        result.meanings = {name: self.meanings[name]}
        result.sizes = {name: self.sizes[name]}
        result.report = (_ARGMAX, *_REPORT)
        return result

    def of_file(self, outputs: Collection[str]) -> SegmentationDeployable:
        """Return the network, without the classes where the file has only masks."""
        missing = set(self.meanings) - set(outputs)
        return self.only_masks() if missing == {fields.SEMANTIC_PREDICTIONS} else self

    def pixels(self, features: Features) -> tf.Tensor:
        """Build the input of the file: each image scaled down if necessary, then padded."""

        def place(pair: Sequence[tf.Tensor]) -> tf.Tensor:
            image, content = pair
            height, width = tf.unstack(content)
            size = self._size_in_input(content)
            # Padding has the mean color: subtract it, pad with zeros, and add it again.
            resized = sizes.resize(image[tf.newaxis, :height, :width] - self._mean_pixel, size)[0]
            return serving.pad(resized, self.input_shape[:2]) + self._mean_pixel

        images = tf.map_fn(
            tf.autograph.experimental.do_not_convert(place),
            (features[fields.IMAGE], serving.image_contents(features)),
            fn_output_signature=tf.TensorSpec(self.input_shape, tf.float32),
        )
        # The mean color is subtracted and added again: roundings may leave [0, 255].
        return tf.clip_by_value(images, 0.0, 255.0)

    def network(self, pixels: tf.Tensor) -> Tensors:
        """Build the outputs of the heads."""
        outputs = self._infer(pixels)
        return {name: _cast_ids(outputs[name], tf.int32) for name in self.meanings}

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Build the task's outputs at the size of the features' images, zero in the padding."""
        if fields.SEMANTIC_PREDICTIONS not in found:
            ids = tf.argmax(found[fields.SEMANTIC_PROBABILITIES], 3, tf.int32)
            found = {fields.SEMANTIC_PREDICTIONS: ids, **found}
        contents = serving.image_contents(features)
        size = tf.map_fn(
            tf.autograph.experimental.do_not_convert(
                lambda content: tf.stack(self._size_in_input(content))
            ),
            contents,
        )
        outputs = serving.fit_outputs(found, size, features)
        outputs = {name: _cast_ids(value, tf.int64) for name, value in outputs.items()}
        return self._postprocess(outputs, features)

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare the outputs, and the classes of the pixels."""
        parts = agreement.compare(expected, found, exact)
        if fields.SEMANTIC_PREDICTIONS in self.meanings:
            parts[fields.SEMANTIC_PREDICTIONS] = agreement.class_agreement(
                [outputs[fields.SEMANTIC_PROBABILITIES] for outputs in expected],
                [outputs[fields.SEMANTIC_PREDICTIONS] for outputs in found],
            )
        return parts

    def _size_in_input(self, content: tf.Tensor) -> sizes.Size:
        """Compute height and width of the image without padding, in the input of the file.

        Args:
            content: int32 [2]: height and width of the image in the features.
        """
        room, sides = tf.constant(self.input_shape[:2]), tf.cast(content, tf.int64)
        # In integers: with a rounded factor, the side that fills the input can lose a pixel.
        scaled = sides * tf.cast(room, tf.int64)[:, tf.newaxis] // sides[:, tf.newaxis]
        smaller = tf.maximum(tf.cast(tf.reduce_min(scaled, axis=0), tf.int32), 1)
        is_larger = tf.reduce_any(content > room)
        return tuple(tf.unstack(tf.where(is_larger, smaller, content)))


def _cast_ids(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Cast ids: in files they are int32, since LiteRT and MediaPipe read no int64."""
    return tf.cast(value, dtype) if value.dtype.is_integer else value
