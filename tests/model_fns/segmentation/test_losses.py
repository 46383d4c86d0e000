"""Losses, against recorded values, slow loops and by hand."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from model_fns.segmentation import losses
from model_fns.segmentation.data import targets
from protos import segmentation_pb2

tf1 = tf.compat.v1

MODELS = ('mobilenet_v2_aspp_decoder', 'resnet_v1_50_beta')
IGNORE = 255
SETTINGS = re.compile(
    r'loss__upsample_(?P<upsample>\w+)__top_k_(?P<share>[\d.]+)__weights_(?P<weights>\w+?)'
    r'(__hard_example_mining_step_(?P<mining>\d+)__at_step_(?P<step>\d+))?$'
)


def compute(named):
    with tf1.Session() as session:
        return session.run(named)


def semantic(logits, labels, weights=(), step=None, scale=losses.MERGED_LOGITS, **settings):
    """One semantic loss."""
    with tf.Graph().as_default():
        named = losses.semantic_loss(
            {scale: tf.constant(logits, tf.float32)},
            tf.constant(labels, tf.int32),
            IGNORE,
            weights,
            segmentation_pb2.SegmentationLoss(**settings),
            None if step is None else tf.constant(step, tf.int64),
        )
        return compute(named)[losses.loss_name('semantic', scale)]


@pytest.mark.parametrize('mode', ['train', 'train_no_bn_tuning'])
@pytest.mark.parametrize('model', MODELS)
def test_semantic_losses_equal_the_recorded_ones(shared, model, mode):
    recorded = np.load(shared / 'golden' / 'segmentation' / f'{model}.npz')
    keys = [key for key in recorded.files if key.startswith(f'{mode}/loss__')]
    assert len(keys) == 9
    for key in keys:
        found = SETTINGS.search(key)
        loss = semantic(
            recorded[f'{mode}/logits'],
            recorded['labels'][..., 0],
            recorded['label_weights'] if found['weights'] == 'list' else (),
            step=None if found['step'] is None else int(found['step']),
            upsample_logits=found['upsample'] == 'True',
            top_k_percent_pixels=float(found['share']),
            hard_example_mining_step=int(found['mining'] or 0),
        )
        np.testing.assert_allclose(loss, recorded[key], rtol=2e-6, err_msg=key)


def slow_cross_entropy(logits, labels):
    """Of each pixel, 0 where the label is ignored."""
    found = np.zeros(labels.shape)
    for pixel in np.ndindex(labels.shape):
        if labels[pixel] != IGNORE:
            powers = np.exp(logits[pixel] - logits[pixel].max())
            found[pixel] = -np.log(powers[labels[pixel]] / powers.sum())
    return found


def random_pixels(seed=0, classes=4):
    random = np.random.RandomState(seed)
    labels = random.choice([*range(classes), IGNORE], [2, 5, 7])
    return random.normal(size=[2, 5, 7, classes]) * 3, labels


def test_class_weights_are_not_in_the_denominator():
    logits, labels = random_pixels()
    weights = np.array([0.5, 1, 2, 7])
    pixels = slow_cross_entropy(logits, labels)
    counted = labels != IGNORE
    weighted = pixels * np.where(counted, weights[np.where(counted, labels, 0)], 0)
    expected = weighted.sum() / counted.sum()
    assert semantic(logits, labels, weights) == pytest.approx(expected, rel=1e-5)
    assert semantic(logits, labels, [3.0]) == pytest.approx(3 * semantic(logits, labels), rel=1e-5)
    assert semantic(logits, labels, weight=0.25) == pytest.approx(
        semantic(logits, labels) / 4, rel=1e-5
    )


def test_hard_pixels_are_those_of_the_batch():
    logits, labels = random_pixels()
    pixels = np.sort(slow_cross_entropy(logits, labels).ravel())[::-1]
    # 0.3 of 70 pixels, ignored ones included.
    found = semantic(logits, labels, top_k_percent_pixels=0.3)
    assert found == pytest.approx(pixels[:21].mean(), rel=1e-5)


@pytest.mark.parametrize('step, count', [(0, 70), (5, 42), (10, 14), (1000, 14)])
def test_share_of_hard_pixels_falls(step, count):
    logits, labels = random_pixels()
    pixels = np.sort(slow_cross_entropy(logits, labels).ravel())[::-1][:count]
    found = semantic(
        logits, labels, step=step, top_k_percent_pixels=0.2, hard_example_mining_step=10
    )
    assert found == pytest.approx(pixels[pixels > 0].mean(), rel=1e-5)


def test_mining_without_a_step_is_a_mistake():
    with pytest.raises(ValueError, match='global_step'):
        semantic(*random_pixels(), top_k_percent_pixels=0.2, hard_example_mining_step=10)


@pytest.mark.parametrize('share', [1.0, 0.5])
def test_nothing_but_ignored_pixels(share):
    logits, labels = random_pixels()
    found = semantic(logits, np.full_like(labels, IGNORE), top_k_percent_pixels=share)
    assert found == 0.0


def test_number_of_class_weights():
    with pytest.raises(errors.ConfigError, match='3 weights; .* 4 classes'):
        semantic(*random_pixels(), weights=[1, 2, 3])


def test_names():
    assert losses.loss_names(['semantic', 'edge'], ['logits_0.50', 'merged_logits']) == [
        'semantic_loss_0.50',
        'semantic_loss',
        'edge_loss_0.50',
        'edge_loss',
    ]
    assert semantic(*random_pixels(), scale='logits_0.50') > 0


@pytest.fixture(scope='module')
def largest():
    with tf.Graph().as_default(), tf1.Session() as session:
        values = tf1.placeholder(tf.float32, [None])
        count = tf1.placeholder(tf.int32, [])
        mean = losses.mean_of_largest(values, count)
        gradient = tf.gradients(mean, values)[0]
        yield lambda array, number: session.run([mean, gradient], {values: array, count: number})


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.sampled_from([0.0, 0.0, 0.25, 1.0, 1.5, 3.0]), min_size=1, max_size=12),
    share=st.floats(0, 1),
)
def test_mean_of_largest_equals_a_sort(largest, values, share):
    count = int(share * len(values))
    top = np.sort(values)[::-1][:count]
    top = top[top > 0]
    mean, gradient = largest(values, count)
    assert mean == pytest.approx(top.mean() if top.size else 0.0)
    of_some = np.array(values) > 0
    assert gradient[of_some].sum() == pytest.approx(1.0 if top.size else 0.0)


def test_equal_losses_share_the_gradient(largest):
    _, gradient = largest([2.0, 5.0, 2.0, 0.0], 2)
    np.testing.assert_allclose(gradient, [0.25, 0.5, 0.25, 0.0])


def test_a_loss_that_is_no_number_is_not_hidden(largest):
    assert np.isnan(largest([1.0, np.nan, 2.0], 1)[0])
    assert np.isinf(largest([1.0, np.inf, 2.0], 1)[0])


def test_gradient_of_hard_pixels_equals_that_of_a_sort():
    logits, labels = random_pixels()
    with tf.Graph().as_default():
        variable = tf.constant(logits, tf.float32)
        config = segmentation_pb2.SegmentationLoss(top_k_percent_pixels=0.3)
        ours = losses.semantic_loss(
            {losses.MERGED_LOGITS: variable}, tf.constant(labels, tf.int32), IGNORE, (), config
        )['semantic_loss']
        counted = labels != IGNORE
        pixels = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=np.where(counted, labels, 0), logits=variable
        )
        sorted_loss = tf.reduce_mean(tf.nn.top_k(tf.reshape(pixels * counted, [-1]), 21)[0])
        found, expected = compute(
            [tf.gradients(ours, variable), tf.gradients(sorted_loss, variable)]
        )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_heat_map_is_compared_where_it_counts():
    heatmap = np.array([[[0.0, 1.0], [0.5, 0.0]]])
    predicted = np.array([[[0.5, 0.0], [0.5, 9.0]]])[..., np.newaxis]
    counted = np.array([[[True, True], [True, False]]])
    config = segmentation_pb2.InstanceCenterHead(weight=12.0)
    with tf.Graph().as_default():
        named = losses.center_loss(
            {losses.MERGED_LOGITS: tf.constant(predicted, tf.float32)},
            tf.constant(heatmap, tf.float32),
            tf.constant(counted),
            config,
        )
        assert compute(named) == {'instance_center_loss': pytest.approx(12 * (0.25 + 1) / 3)}


def test_offsets_are_compared_in_instances_at_the_size_of_the_labels():
    # Resized with aligned corners, the middle column is the mean of the outer ones.
    predicted = np.array([[[[0.0, 2.0], [4.0, 2.0]]]])
    offsets = np.array([[[[1.0, 1.0], [0.0, 0.0], [7.0, 7.0]]]])
    config = segmentation_pb2.OffsetHead(weight=1.0)

    def loss(weights):
        with tf.Graph().as_default():
            named = losses.offset_loss(
                {losses.MERGED_LOGITS: tf.constant(predicted, tf.float32)},
                tf.constant(offsets, tf.float32),
                tf.constant(weights, tf.float32),
                config,
            )
            return compute(named)['offset_loss']

    assert loss([[[1, 1, 0]]]) == pytest.approx(((1 + 1) + (2 + 2)) / 2)
    assert loss([[[0, 0, 0]]]) == 0.0


@pytest.mark.parametrize('given_weight, edge_weight', [(0.0, 3.0), (5.0, 5.0)])
def test_edges_count_more(given_weight, edge_weight):
    logits = np.random.RandomState(1).normal(size=[1, 1, 6, 2])
    # 6 pixels: one is an edge, three are none, two are not known.
    edges = np.array([[[0, 1, 0, 0, targets.IGNORED_EDGE, targets.IGNORED_EDGE]]])
    pixels = slow_cross_entropy(logits, np.where(edges < 0, IGNORE, edges))
    weights = np.array([[[1, edge_weight, 1, 1, 0, 0]]])
    config = segmentation_pb2.EdgeHead(weight=2.0, edge_pixel_weight=given_weight)
    with tf.Graph().as_default():
        named = losses.edge_loss(
            {losses.MERGED_LOGITS: tf.constant(logits, tf.float32)},
            tf.constant(edges, tf.int32),
            config,
        )
        found = compute(named)
    expected = 2 * (pixels * weights).sum() / weights.sum()
    assert found == {'edge_loss': pytest.approx(expected, rel=1e-5)}


def test_graph_does_not_grow_with_batch_and_classes():
    def size(batch, classes):
        with tf.Graph().as_default() as graph:
            logits = tf1.placeholder(tf.float32, [batch, 5, 5, classes])
            config = segmentation_pb2.SegmentationLoss(top_k_percent_pixels=0.3)
            losses.semantic_loss(
                {losses.MERGED_LOGITS: logits},
                tf1.placeholder(tf.int32, [batch, 9, 9]),
                IGNORE,
                [1.0] * classes,
                config,
            )
            return len(graph.get_operations())

    assert size(1, 2) == size(7, 150)


@pytest.mark.parametrize('upsample', [True, False])
def test_dice_against_a_loop(upsample):
    random = np.random.RandomState(3)
    logits = random.randn(2, 3, 4, 5)
    labels = random.randint(0, 4, [2, 3, 4])  # class 4 is in no image
    labels[0, :, 0] = IGNORE
    config = segmentation_pb2.SegmentationLoss(dice_weight=2.0, upsample_logits=upsample)
    with tf.Graph().as_default():
        named = losses.dice_loss(
            {losses.MERGED_LOGITS: tf.constant(logits, tf.float32)},
            tf.constant(labels, tf.int32),
            IGNORE,
            config,
        )
        found = compute(named)
    counted = labels != IGNORE
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    lost = []
    for index in range(4):
        p, y = shares[..., index][counted], (labels == index)[counted]
        lost.append(1 - 2 * (p * y).sum() / (p.sum() + y.sum()))
    assert found == {'semantic_dice_loss': pytest.approx(2 * np.mean(lost), rel=1e-5)}


def test_dice_of_what_is_right_is_nothing():
    labels = np.array([[[0, 1], [1, 0]]])
    config = segmentation_pb2.SegmentationLoss(dice_weight=1.0)
    with tf.Graph().as_default():
        logits = {losses.MERGED_LOGITS: 50.0 * tf.one_hot(labels, 3)}
        found = compute(losses.dice_loss(logits, tf.constant(labels, tf.int32), IGNORE, config))
        found_wrong = compute(
            losses.dice_loss(logits, tf.constant(1 - labels, tf.int32), IGNORE, config)
        )
    assert found == {'semantic_dice_loss': pytest.approx(0.0, abs=1e-6)}
    assert found_wrong == {'semantic_dice_loss': pytest.approx(1.0, abs=1e-6)}
