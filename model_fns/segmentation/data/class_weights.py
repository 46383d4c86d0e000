"""Class weights of the loss: from the config, or computed so that rare classes count more.

Inverse frequency: N / (C n_c), where n_c of N labeled pixels are of class c. Median frequency (D.
Eigen and R. Fergus, "Predicting depth, surface normals and semantic labels with a common
multi-scale convolutional architecture", ICCV 2015, section 6.3.2): median(f) / f_c, where f_c is
the fraction of class c among the labeled pixels of the images that have it.
"""

from __future__ import annotations

import logging
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.segmentation.data import inputs, record_walk
from model_fns.structures import id_images, images
from protos import input_reader_pb2, segmentation_pb2

log = logging.getLogger('model_fns')

_FIELD = 'model.segmentation.loss.class_weights'


class PixelCounts(NamedTuple):
    """Labeled pixels of a number of images.

    Attributes:
        of_class: int64 [C]: pixels of each class.
        with_class: int64 [C]: labeled pixels of the images that have the class.
    """

    of_class: np.ndarray
    with_class: np.ndarray


def configured_weights(config: segmentation_pb2.SegmentationLoss, num_classes: int) -> List[float]:
    """Return the weights in a config, one for each class.

    Raises:
        errors.ConfigError: there is neither one weight nor one for each class, one is negative, or
            the config has weights and asks for computed ones too.
    """
    weights = list(config.class_weights)
    if weights and config.class_weighting != config.GIVEN:
        kind = config.ClassWeighting.Name(config.class_weighting)
        raise errors.ConfigError(
            f'{_FIELD} is set, but class_weighting is {kind}, which computes them; expected one.'
        )
    if len(weights) not in (0, 1, num_classes):
        raise errors.ConfigError(
            f'{_FIELD} has {len(weights)} numbers; expected one for each of the {num_classes} '
            'classes, or one for all.'
        )
    if not all(0 <= weight < float('inf') for weight in weights):
        raise errors.ConfigError(f'{_FIELD} is {weights}; expected numbers that are not negative.')
    return weights if len(weights) == num_classes else (weights or [1.0]) * num_classes


def class_weights(
    config: segmentation_pb2.SegmentationLoss,
    reader: Optional[input_reader_pb2.InputReader],
    class_names: Sequence[str],
    ignore_label: int,
) -> Tuple[float, ...]:
    """Return the weight of each class, computed from the training labels where the config says so.

    Args:
        config: of the loss.
        reader: of the training records; not read where the config has the weights.
        class_names: of all classes.
        ignore_label: of pixels that do not count.

    Returns:
        One for each class. A class without pixels gets the largest of the other weights.

    Raises:
        errors.ConfigError: see `configured_weights`.
        errors.DataError: no pixel has a class.
    """
    configured = configured_weights(config, len(class_names))
    if config.class_weighting == config.GIVEN:
        return tuple(configured)
    counts = count_pixels(reader, len(class_names), ignore_label, config.class_weighting_examples)
    if not counts.of_class.any():
        most = config.class_weighting_examples
        named = f'the first {most}' if most else 'all of them'
        raise errors.DataError(
            'model.segmentation.loss.class_weighting: no training record that was looked at '
            f'({named}) has a labeled pixel.'
        )
    is_inverse = config.class_weighting == config.INVERSE_FREQUENCY
    weights = inverse_frequency(counts) if is_inverse else median_frequency(counts)
    absent = [
        name
        for index, name in enumerate(class_names)
        if not counts.of_class[index] and index != ignore_label
    ]
    if absent:
        log.warning('class weights: no pixel of %s; they get the largest weight', ', '.join(absent))
    shown = ', '.join(f'{name} {weight:.3g}' for name, weight in zip(class_names, weights))
    log.info('class weights: %s', shown)
    return tuple(float(weight) for weight in weights)


def inverse_frequency(counts: PixelCounts) -> np.ndarray:
    """Compute total / (C * count) for the classes that occur: float64 [C]."""
    of_class = counts.of_class
    return _fill_absent(of_class, lambda rows: of_class.sum() / (len(of_class) * of_class[rows]))


def median_frequency(counts: PixelCounts) -> np.ndarray:
    """Compute median frequency / frequency for the classes that occur: float64 [C]."""

    def weights(rows: np.ndarray) -> np.ndarray:
        frequencies = counts.of_class[rows] / counts.with_class[rows]
        return np.median(frequencies) / frequencies

    return _fill_absent(counts.of_class, weights)


def count_pixels(
    reader: input_reader_pb2.InputReader, num_classes: int, ignore_label: int, limit: int = 0
) -> PixelCounts:
    """Count the pixels of each class.

    Args:
        reader: of the records.
        num_classes: values from num_classes on are not counted.
        ignore_label: value that is not counted.
        limit: number of records to read; 0: all.
    """

    def count(record: tf.Tensor) -> tf.Tensor:
        encoded = record_walk.text_feature(record, inputs.CLASSES_KEY)
        encoded = images.limit_pixels(encoded, reader.max_image_pixels, inputs.CLASSES_KEY)
        ids = tf.reshape(id_images.decode(encoded, inputs.CLASSES_KEY), [-1])
        counts = tf.math.bincount(ids, minlength=num_classes, maxlength=num_classes, dtype=tf.int64)
        return tf.ensure_shape(counts, [num_classes])

    of_class = np.zeros([num_classes], np.int64)
    with_class = np.zeros([num_classes], np.int64)
    labeled = np.arange(num_classes) != ignore_label
    for _, counted in record_walk.walk(reader, count, 'pixels of each class', limit):
        counts = counted * labeled
        of_class += counts
        # The denominator of Eigen and Fergus: pixels of the images that have the class, not of all.
        with_class += np.where(counts > 0, counts.sum(), 0)
    return PixelCounts(of_class, with_class)


def _fill_absent(counts: np.ndarray, compute_weights) -> np.ndarray:
    """Compute the weights of the classes that occur; the others get the largest of them."""
    present = np.flatnonzero(counts)
    computed = compute_weights(present)
    # Not 0: a class without pixels among the records that were read may be in others.
    weights = np.full([len(counts)], computed.max())
    weights[present] = computed
    return weights
