"""Augmentation steps that drop objects or change their classes."""

from __future__ import annotations

import functools
from typing import Sequence

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import steps
from model_fns.structures import label_map
from protos import augmentation_pb2


def drop_label_probabilistically(
    example: Example, seed: tf.Tensor, class_index: int, probability: float = 1.0
) -> Example:
    """Drop objects of one class at random, each by its own draw.

    Args:
        example: any example.
        seed: int64 [2].
        class_index: index of the class, from 0.
        probability: probability of dropping an object of it.
    """
    classes = example[fields.CLASSES]
    draws = randomness.uniform_tensor(seed, tf.shape(classes))
    dropped = tf.logical_and(tf.equal(classes, class_index), draws < probability)
    return examples.keep_boxes(example, tf.logical_not(dropped))


def remap_labels(
    example: Example, seed: tf.Tensor, class_indices: Sequence[int], new_class_index: int
) -> Example:
    """Merge several classes into one.

    Args:
        example: any example.
        seed: int64 [2], not used.
        class_indices: indices of the classes that disappear, from 0.
        new_class_index: index of the class that their objects get.
    """
    del seed
    classes = example[fields.CLASSES]
    old = tf.constant(class_indices, classes.dtype)
    is_old = tf.reduce_any(tf.equal(classes[:, tf.newaxis], old), 1)
    new = tf.where(is_old, tf.constant(new_class_index, classes.dtype), classes)
    return {**example, fields.CLASSES: new}


@steps.BUILDERS.register('drop_label_probabilistically')
def _build_drop(config: augmentation_pb2.DropLabelProbabilistically, where: str) -> steps.Step:
    del where
    return functools.partial(
        drop_label_probabilistically,
        # Labels of configs are ids, from 1, as in the published steps.
        class_index=label_map.to_index(config.label),
        probability=config.drop_probability,
    )


@steps.BUILDERS.register('remap_labels')
def _build_remap(config: augmentation_pb2.RemapLabels, where: str) -> steps.Step:
    del where
    return functools.partial(
        remap_labels,
        class_indices=[label_map.to_index(label) for label in config.original_labels],
        new_class_index=label_map.to_index(config.new_label),
    )
