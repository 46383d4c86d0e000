"""From logits to what is predicted of each pixel, with numbers by hand."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation import fields
from model_fns.segmentation.networks import heads, inference

tf1 = tf.compat.v1

SEMANTIC, CENTER = heads.Head('semantic', 2), heads.Head('instance_center', 1)
OFFSET, EDGE = heads.Head('offset', 2), heads.Head('edge', 2)


def run(build):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(build())


def constant(value):
    return tf.constant(value, tf.float32)


def test_values_at_the_size_of_the_output():
    logits = {
        'semantic': np.log([[[[1.0, 3.0], [3.0, 1.0]]]]),
        'instance_center': [[[[2.0], [4.0]]]],
        'offset': [[[[1.0, 10.0], [3.0, 30.0]]]],
    }
    values = run(
        lambda: inference.resized_values(
            (SEMANTIC, CENTER, OFFSET), {k: constant(v) for k, v in logits.items()}, (1, 3), (1, 5)
        )
    )
    np.testing.assert_allclose(values['semantic'][0, 0, :, 0], [0.25, 0.5, 0.75], rtol=1e-6)
    np.testing.assert_allclose(values['instance_center'][0, 0, :, 0], [2, 3, 4])
    # Two intervals of columns where the image has four; rows have none.
    np.testing.assert_allclose(values['offset'][0, 0, :, 1], [5, 10, 15])
    np.testing.assert_allclose(values['offset'][0, 0, :, 0], 0)


def test_the_mean_of_a_view_and_its_mirror():
    values = {
        'semantic': [[[[1.0, 0.0], [0.5, 0.5]]], [[[0.0, 1.0], [0.25, 0.75]]]],
        'offset': [[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, -6.0], [7.0, -8.0]]]],
    }
    means = run(
        lambda: inference.mean_of_mirrored(
            (SEMANTIC, OFFSET), {k: constant(v) for k, v in values.items()}
        )
    )
    np.testing.assert_allclose(means['semantic'], [[[[0.625, 0.375], [0.25, 0.75]]]])
    np.testing.assert_allclose(means['offset'], [[[[4.0, 5.0], [4.0, 5.0]]]])


def test_the_mean_of_views():
    def build():
        return inference.mean_of_views([{'a': constant([2.0])}, {'a': constant([6.0])}])

    assert run(build)['a'] == 4


def test_names_of_outputs():
    values = {
        'semantic': [[[[0.2, 0.8]]]],
        'edge': [[[[0.7, 0.3]]]],
        'instance_center': [[[[0.5]]]],
        'offset': [[[[1.0, 2.0]]]],
    }
    outputs = run(
        lambda: inference.predictions(
            (SEMANTIC, CENTER, OFFSET, EDGE), {k: constant(v) for k, v in values.items()}
        )
    )
    assert {name: value.tolist() for name, value in outputs.items()} == {
        fields.SEMANTIC_PREDICTIONS: [[[1]]],
        fields.SEMANTIC_PROBABILITIES: [[[[pytest.approx(0.2), pytest.approx(0.8)]]]],
        fields.EDGE_PREDICTIONS: [[[0]]],
        fields.INSTANCE_CENTERS: [[[0.5]]],
        fields.CENTER_OFFSETS: [[[[1, 2]]]],
    }


def test_classes_chosen_before_resizing_are_never_mixed():
    logits = {'semantic': np.log([[[[1.0, 3.0], [4.0, 1.0]]]]), 'offset': [[[[0.0, 4], [0, 8]]]]}
    outputs = run(
        lambda: inference.predictions_before_resizing(
            (SEMANTIC, OFFSET), {k: constant(v) for k, v in logits.items()}, (1, 4), (1, 7)
        )
    )
    assert outputs[fields.SEMANTIC_PREDICTIONS].tolist() == [[[1, 1, 0, 0]]]
    np.testing.assert_allclose(
        outputs[fields.SEMANTIC_PROBABILITIES][0, 0, :, 1], [0.75, 0.5667, 0.3833, 0.2], atol=1e-4
    )
    np.testing.assert_allclose(
        outputs[fields.CENTER_OFFSETS][0, 0, :, 1], [2, 8 / 3, 10 / 3, 4], rtol=1e-5
    )


def test_the_names_of_outputs_are_those_of_predictions():
    all_heads = (SEMANTIC, CENTER, OFFSET, EDGE)
    values = {head.name: tf.zeros([1, 2, 2, head.channels]) for head in all_heads}
    for chosen in (all_heads, (SEMANTIC,), (SEMANTIC, OFFSET)):
        found = inference.predictions(chosen, values)
        assert sorted(found) == sorted(inference.output_names(chosen))
