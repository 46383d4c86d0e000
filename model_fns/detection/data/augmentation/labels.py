"""Augmentation steps that drop objects or change their classes."""

from __future__ import annotations

import functools
from typing import Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.detection import fields
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import randomness, steps
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


def convert_class_logits_to_softmax(
    example: Example, seed: tf.Tensor, temperature: float = 1.0
) -> Example:
    """Convert the multi-class scores from logits to probabilities.

    Args:
        example: an example with `MULTICLASS_SCORES`.
        seed: int64 [2], not used.
        temperature: divisor of logits.

    Raises:
        errors.ConfigError: examples have no such scores.
    """
    del seed
    if fields.MULTICLASS_SCORES not in example:
        raise errors.ConfigError(
            'examples have no multi-class scores; expected '
            'train_input_reader.load_multiclass_scores with it.'
        )
    scores = example[fields.MULTICLASS_SCORES] / temperature
    return {**example, fields.MULTICLASS_SCORES: tf.nn.softmax(scores)}


@steps.BUILDERS.register('drop_label_probabilistically')
def _build_drop(config: augmentation_pb2.DropLabelProbabilistically, where: str) -> steps.Step:
    steps.check_least(config, where, label_map.FIRST_ID, 'label')
    steps.check_shares(config, where, 'drop_probability')
    return functools.partial(
        drop_label_probabilistically,
        class_index=label_map.to_index(config.label),
        probability=config.drop_probability,
    )


@steps.BUILDERS.register('remap_labels')
def _build_remap(config: augmentation_pb2.RemapLabels, where: str) -> steps.Step:
    old = list(config.original_labels)
    is_right = bool(old) and min(old) >= label_map.FIRST_ID
    expected = f'ids of classes, from {label_map.FIRST_ID} up'
    steps.check(is_right, where, config, 'original_labels', expected)
    steps.check_least(config, where, label_map.FIRST_ID, 'new_label')
    return functools.partial(
        remap_labels,
        class_indices=[label_map.to_index(label) for label in old],
        new_class_index=label_map.to_index(config.new_label),
    )


@steps.BUILDERS.register('convert_class_logits_to_softmax')
def _build_softmax(config: augmentation_pb2.ConvertClassLogitsToSoftmax, where: str) -> steps.Step:
    temperature = steps.check_positive(config, where, 'temperature')
    return functools.partial(convert_class_logits_to_softmax, temperature=temperature)
