"""Declared tensors of batches: those of one model, types that are converted, tables."""

import tensorflow as tf

from estimator_lib.task_interfaces.batch_specs import ALWAYS, LEARNING, BatchSpec, BatchTensor


def test_integers_of_any_width_and_named_types_are_converted():
    label = BatchTensor('label', tf.int64, ('batch',))
    assert label.converts(tf.int32) and label.converts(tf.uint8)
    assert not label.converts(tf.float32) and not label.converts(tf.bool)
    image = BatchTensor('image', tf.float32, ('batch',), converted=(tf.uint8,))
    assert image.converts(tf.uint8) and not image.converts(tf.int32)
    assert not image.converts(tf.float64)


def test_a_model_fixes_sizes_and_conditions():
    condition = 'with `wheels`'
    spec = BatchSpec(
        (BatchTensor('image', tf.float32, ('batch', 'C'), 'pixels', ALWAYS),),
        (BatchTensor('wheel', tf.int32, ('batch', 'C', 'n'), '', LEARNING, condition),),
    )
    assert spec.table() == [
        '| in | name | form | needed | values |',
        '| --- | --- | --- | --- | --- |',
        '| features | `image` | float32 [batch, C] | always | pixels |',
        '| labels | `wheel` | int32 [batch, C, n] | training, evaluation, with `wheels` |  |',
    ]
    without, with_wheels = spec.of_model({'C': 3}), spec.of_model({'C': 3}, [condition])
    assert without.features[0].shape == ('batch', 3)
    assert without.labels[0].shape == ('batch', 3, 'n')
    assert without.labels[0].needed == frozenset() and with_wheels.labels[0].needed == LEARNING
