from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from model_fns.backbones import registry
from model_fns.segmentation import fields
from model_fns.segmentation.networks import aspp, decoder, heads, image_pyramid
from model_fns.segmentation.networks.network import SegmentationNetwork
from protos import segmentation_pb2
from tests.model_fns.segmentation import tiny_networks

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

IMAGES = np.random.RandomState(5).uniform(0, 255, [2, 33, 49, 3]).astype(np.float32)
ALL_HEADS = tiny_networks.ALL_HEADS
MERGED = image_pyramid.MERGED_LOGITS
SMALL_PYRAMID = aspp.Aspp(num_filters=4, dropout_keep_prob=1.0)


def _network(**changes):
    return tiny_networks.tiny_network(**{'context': SMALL_PYRAMID, **changes})


def _evaluate(build, seed=0):
    """The values of what `build` makes in a graph of its own, and the variables' names."""
    with tf.Graph().as_default():
        fetches = build(tf.constant(IMAGES))
        names = tiny_networks.variable_names()
        return tiny_networks.run(fetches, seed), names


def test_a_unet_of_a_config_has_logits_of_the_images_size():
    text = """
        num_classes: 2
        backbone { name: "efficientnet_b0" depth_multiplier: 0.1 output_stride: 32 }
        aspp { batch_norm: false }
        decoder { output_strides: [16, 8, 4, 2, 1] unet_filters: [8, 8, 4, 4, 2] }"""
    config = text_format.Parse(text, segmentation_pb2.Segmentation())
    unet = SegmentationNetwork.from_config(config, 2)
    with tf.Graph().as_default():
        logits = unet.logits(tf.constant(IMAGES), is_training=False)['semantic'][MERGED]
        names = tiny_networks.variable_names()
    assert logits.shape == [2, 33, 49, 2]
    scopes = {name.split('/')[1] for name in names if name.startswith('decoder/')}
    assert scopes == {
        f'unet_conv{index}{suffix}_{part}'
        for index in (0, 1)
        for suffix in ('', '_1', '_2', '_3', '_4')
        for part in ('depthwise', 'pointwise')
    }


# Heads and their variables.


def test_further_heads_leave_the_semantic_one_as_it_is():
    alone, names = _evaluate(lambda images: _network().logits(images, False))
    together, all_names = _evaluate(lambda images: _network(heads=ALL_HEADS).logits(images, False))
    assert list(together) == ['semantic', 'instance_center', 'offset', 'edge']
    np.testing.assert_allclose(
        together['semantic'][MERGED], alone['semantic'][MERGED], rtol=1e-5, atol=1e-6
    )
    assert {name: value[MERGED].shape for name, value in together.items()} == {
        'semantic': (2, 3, 4, 4),
        'instance_center': (2, 3, 4, 1),
        'offset': (2, 3, 4, 2),
        'edge': (2, 3, 4, 2),
    }
    assert set(all_names) - set(names) == {
        f'{scope}/{leaf}'
        for head in ('instance_center', 'offset', 'edge')
        for scope, leaves in (
            (f'{head}_head', ('weights', 'BatchNorm/gamma', 'BatchNorm/beta')),
            (f'logits/{head}', ('weights', 'biases')),
        )
        for leaf in leaves
    }


def test_last_layers():
    network = _network(heads=ALL_HEADS)
    scopes = network.last_layer_scopes()
    assert scopes == (
        'logits',
        'image_pooling',
        'aspp',
        'concat_projection',
        'decoder',
        'meta_architecture',
        'instance_center_head',
        'offset_head',
        'edge_head',
    )
    _, names = _evaluate(lambda images: network.logits(images, False))
    outside = [name for name in names if not any(scope in name for scope in scopes)]
    assert outside and all(name.startswith('tiny/') for name in outside)
    assert dataclasses.replace(network, last_layers_are_logits=True).last_layer_scopes() == (
        'logits',
    )


def test_a_decoder_may_make_the_logits():
    refinement = decoder.Decoder((8, 4), num_filters=4, sum_merge=True, output_is_logits=True)
    network = _network(refinement=refinement, last_layers_are_logits=True)
    logits, names = _evaluate(lambda images: network.logits(images, False))
    assert logits['semantic'][MERGED].shape == (2, 9, 13, 4)
    assert not [name for name in names if name.startswith('logits')]
    assert network.last_layer_scopes() == ('decoder',)


def test_without_batch_norm_logits_are_a_sum_over_rates():
    network = _network(context=None, logits_rates=(1, 2), logits_kernel_size=3)

    def build(images):
        logits = network.logits(images, False)['semantic'][MERGED]
        features, _ = network.backbone.build(
            network.backbone.normalize(images), False, network.options
        )
        weights = {v.op.name: v for v in tf1.global_variables()}
        expected = 0.0
        for scope, rate in (('logits/semantic', 1), ('logits/semantic_1', 2)):
            expected += weights[f'{scope}/biases'] + tf.nn.conv2d(
                features, weights[f'{scope}/weights'], 1, 'SAME', dilations=rate
            )
        return logits, expected

    with tf.Graph().as_default(), tf1.variable_scope('', reuse=tf1.AUTO_REUSE):
        logits, expected = tiny_networks.run(build(tf.constant(IMAGES)))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures('initial_values')
def test_logits_start_small():
    with tf.Graph().as_default() as graph:
        graph.seed = 1
        _network(context=aspp.Aspp()).logits(tf.constant(IMAGES), True)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            values = {v.op.name: session.run(v) for v in tf1.trainable_variables()}
    assert 0.007 < values['logits/semantic/weights'].std() < 0.011
    assert not values['logits/semantic/biases'].any()


# Training.


def test_frozen_batch_norm_has_no_updates_but_trains_gamma_and_beta():
    with tf.Graph().as_default() as graph:
        network = _network(fine_tune_batch_norm=False)
        logits = network.logits(tf.constant(IMAGES), True)['semantic'][MERGED]
        evaluated = network.logits(tf.constant(IMAGES), False)['semantic'][MERGED]
        trained = tf1.trainable_variables()
        loss = tf.reduce_sum(tf.square(logits))
        norms = [tf.norm(gradient) for gradient in tf.gradients(loss, trained)]
        logits, evaluated, norms = tiny_networks.run([logits, evaluated, norms])
        assert not graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
    np.testing.assert_allclose(logits, evaluated, rtol=1e-5, atol=1e-6)
    by_name = {variable.op.name: norm for variable, norm in zip(trained, norms)}
    assert min(norm for name, norm in by_name.items() if 'BatchNorm' in name) > 0


def test_variables_are_shared_and_penalised_once():
    with tf.Graph().as_default():
        network = _network(scales=(0.5, 1.0))
        images = tf.constant(IMAGES)
        network.logits(images, True)
        count = len(tf1.global_variables()), len(tf1.losses.get_regularization_losses())
        network.infer(images, scales=(0.75, 1.0), flip=True)
        after = len(tf1.global_variables()), len(tf1.losses.get_regularization_losses())
    assert after == count
    with tf.Graph().as_default():
        _network().logits(tf.constant(IMAGES), True)
        once = len(tf1.global_variables()), len(tf1.losses.get_regularization_losses())
    assert count == once


def test_scales_update_moving_statistics_once_by_their_sum():
    name = 'tiny/conv1/BatchNorm/moving_mean'

    def after_updates(scales):
        with tf.Graph().as_default(), tf1.Session() as session:
            _network(scales=scales).logits(tf.constant(IMAGES), True)
            updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
            old = tiny_networks.lively(session)[name]
            session.run(updates)
            (moving,) = [v for v in tf1.global_variables() if v.op.name == name]
            return session.run(moving) - old, len(updates)

    half, count = after_updates((0.5,))
    full, _ = after_updates((1.0,))
    both, count_of_both = after_updates((0.5, 1.0))
    assert count_of_both == count
    assert np.abs(half - full).max() > 1e-4
    np.testing.assert_allclose(both, half + full, rtol=1e-3, atol=1e-5)


# Several scales in training.


def test_each_scale_is_a_pass_over_resized_images():
    def build(images):
        network = _network(heads=ALL_HEADS)
        seen = tf.constant(tiny_networks.align_corners(IMAGES, 17, 25), tf.float32)
        return network.logits(images, False, scales=(0.5, 1.0)), network.logits(seen, False)

    (scaled, small), _ = _evaluate(build)
    for name in scaled:
        expected = tiny_networks.align_corners(small[name][MERGED], 3, 4)
        # Seen at half the size, objects and the ways to their centers are half as long.
        factor = 2.0 if name == 'offset' else 1.0
        np.testing.assert_allclose(
            scaled[name]['logits_0.50'], factor * expected, rtol=1e-3, atol=1e-4
        )


# Inference.


def test_a_single_view_is_the_softmax_of_upsampled_logits():
    def build(images):
        network = _network(heads=ALL_HEADS)
        return network.logits(images, False), network.infer(images)

    (logits, outputs), _ = _evaluate(build)
    up = {k: tiny_networks.align_corners(v[MERGED], 33, 49) for k, v in logits.items()}
    exponentials = np.exp(up['semantic'])
    probabilities = exponentials / exponentials.sum(-1, keepdims=True)
    assert outputs[fields.SEMANTIC_PREDICTIONS].dtype == np.int64
    np.testing.assert_allclose(
        outputs[fields.SEMANTIC_PROBABILITIES], probabilities, rtol=1e-3, atol=1e-5
    )
    agree = outputs[fields.SEMANTIC_PREDICTIONS] == up['semantic'].argmax(-1)
    assert agree.mean() > 0.999  # but for rounding at a tie
    np.testing.assert_allclose(
        outputs[fields.INSTANCE_CENTERS], up['instance_center'][..., 0], rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(outputs[fields.CENTER_OFFSETS], up['offset'], rtol=1e-3, atol=1e-4)
    assert (outputs[fields.EDGE_PREDICTIONS] == up['edge'].argmax(-1)).mean() > 0.999


def test_classes_may_be_chosen_before_resizing():
    def build(images):
        network = _network(heads=ALL_HEADS, upsample_before_predicting=False)
        return network.logits(images, False), network.infer(images, (65, 97))

    (logits, outputs), _ = _evaluate(build)
    small = logits['semantic'][MERGED]
    rows = np.floor(np.arange(65) * 2 / 64 + 0.5).astype(int)
    columns = np.floor(np.arange(97) * 3 / 96 + 0.5).astype(int)
    np.testing.assert_array_equal(
        outputs[fields.SEMANTIC_PREDICTIONS], small.argmax(-1)[:, rows][:, :, columns]
    )
    np.testing.assert_array_equal(
        outputs[fields.EDGE_PREDICTIONS],
        logits['edge'][MERGED].argmax(-1)[:, rows][:, :, columns],
    )
    exponentials = np.exp(small - small.max(-1, keepdims=True))
    probabilities = exponentials / exponentials.sum(-1, keepdims=True)
    np.testing.assert_allclose(
        outputs[fields.SEMANTIC_PROBABILITIES],
        tiny_networks.align_corners(probabilities, 65, 97),
        rtol=1e-3,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        outputs[fields.CENTER_OFFSETS],
        2.0 * tiny_networks.align_corners(logits['offset'][MERGED], 65, 97),
        rtol=1e-3,
        atol=1e-4,
    )


def test_inference_at_the_scales_of_training():
    def build(images):
        network = _network(scales=(0.5, 1.0))
        merged = network.outputs(network.logits(images, False), (33, 49))
        return network.infer(images), merged, network.infer(images, scales=(1.0,), flip=True)

    (single, merged, flipped), _ = _evaluate(build)
    for name, value in single.items():
        np.testing.assert_array_equal(value, merged[name])
    name = fields.SEMANTIC_PROBABILITIES
    assert np.abs(flipped[name] - single[name]).max() > 1e-3


def test_offsets_are_in_pixels_of_the_output():
    def build(images):
        network = _network(heads=ALL_HEADS)
        return (
            network.infer(images),
            network.infer(images, (65, 49), flip=True),
            network.infer(images, flip=True),
        )

    (plain, tall, flipped), _ = _evaluate(build)
    assert plain[fields.CENTER_OFFSETS].shape == (2, 33, 49, 2)
    assert tall[fields.CENTER_OFFSETS].shape == (2, 65, 49, 2)
    np.testing.assert_allclose(
        tall[fields.CENTER_OFFSETS][:, ::2],
        flipped[fields.CENTER_OFFSETS] * [2.0, 1.0],
        rtol=1e-3,
        atol=1e-4,
    )


def test_one_graph_serves_any_size():
    network = _network(
        heads=ALL_HEADS,
        context=dataclasses.replace(SMALL_PYRAMID, pooling_crop=(33, 33), atrous_rates=(2,)),
        refinement=decoder.Decoder((8, 4), num_filters=4),
    )

    def infer(shape, images):
        with tf.Graph().as_default(), tf1.Session() as session:
            fed = tf1.placeholder(tf.float32, shape)
            outputs = network.infer(fed, scales=(0.75, 1.0), flip=True)
            tiny_networks.lively(session)
            return [session.run(outputs, {fed: one}) for one in images]

    random = np.random.RandomState(7)
    sizes = ((33, 49), (40, 17), (16, 64))
    images = [random.uniform(0, 255, [1, *size, 3]).astype(np.float32) for size in sizes]
    for size, image, unknown in zip(sizes, images, infer([None, None, None, 3], images)):
        (known,) = infer(image.shape, [image])
        for name in (fields.SEMANTIC_PROBABILITIES, fields.INSTANCE_CENTERS, fields.CENTER_OFFSETS):
            assert known[name].shape[:3] == (1, *size)
            np.testing.assert_allclose(unknown[name], known[name], rtol=1e-3, atol=1e-4)


# Another output stride.


def test_another_output_stride_has_the_same_variables_and_reaches_as_far():
    network = _network(context=dataclasses.replace(SMALL_PYRAMID, atrous_rates=(1, 2)))
    other = network.change_output_stride(8)
    assert other.output_stride == 8
    assert other.context.atrous_rates == (2, 4)
    assert network.change_output_stride(8, (3, 5)).context.atrous_rates == (3, 5)

    def build(images):
        coarse = network.logits(images, False)
        count = len(tf1.global_variables())
        fine = network.logits(images, False, output_stride=8)
        named = network.infer(images, output_stride=8), other.infer(images)
        assert len(tf1.global_variables()) == count
        return coarse['semantic'][MERGED], fine['semantic'][MERGED], named

    (coarse, fine, (named, direct)), _ = _evaluate(build)
    assert coarse.shape == (2, 3, 4, 4) and fine.shape == (2, 5, 7, 4)
    for name, value in named.items():
        np.testing.assert_array_equal(value, direct[name])


def test_another_output_stride_of_a_searched_cell():
    config = tiny_networks.config(
        'backbone { name: "mobilenet_v2" } dense_prediction_cell { '
        'branches { rate_height: 1 rate_width: 6 } batch_norm_decay: 0.9 }'
    )
    network = SegmentationNetwork.from_config(config, 4)
    assert network.context is None and network.batch_norm_decay == 0.9
    assert network.change_output_stride(8).cell.branches[0].rate == (2, 12)


def test_searched_backbones_have_their_own_stride_and_drop_paths_over_the_training():
    def options(text, num_steps=700):
        config = tiny_networks.config(f'backbone {{ name: "nas_hnasnet" {text} }}')
        network = SegmentationNetwork.from_config(config, 4, num_steps=num_steps)
        assert network.output_stride == 8
        return network.options

    assert options('').drop_path_steps is None
    assert options('drop_path_keep_prob: 0.75').drop_path_steps == 700
    assert options('drop_path_keep_prob: 0.75').drop_path_keep_prob == 0.75
    assert options('drop_path_keep_prob: 0.75 drop_path_steps: 9').drop_path_steps == 9
    assert options('drop_path_keep_prob: 0.75', num_steps=0).drop_path_steps is None
    assert options('drop_path_keep_prob: 1').drop_path_steps is None
    assert options('stem_filters: 8').stem_filters == 8


# The graph.


def test_size_of_the_graph_depends_on_neither_batch_nor_classes():
    def count(batch, classes):
        with tf.Graph().as_default() as graph:
            images = tf1.placeholder(tf.float32, [batch, 33, 49, 3])
            network = _network(
                heads=(heads.Head('semantic', classes), *ALL_HEADS[1:]),
                refinement=decoder.Decoder((4,), num_filters=4),
                scales=(0.5, 1.0),
            )
            network.logits(images, True)
            network.infer(images, scales=(0.5, 1.0), flip=True)
            return len(graph.get_operations())

    assert count(1, 2) == count(8, 2) == count(1, 150)


def test_a_mirrored_view_adds_no_layers():
    def count(flip):
        with tf.Graph().as_default() as graph:
            _network().infer(tf.constant(IMAGES), scales=(0.5, 1.0), flip=flip)
            kinds = [operation.type for operation in graph.get_operations()]
            return kinds.count('Conv2D')

    assert count(True) == count(False)


# Compute type.


@pytest.mark.bfloat16
@pytest.mark.parametrize('refinement', [None, decoder.Decoder(num_filters=4)], ids=['aspp', 'both'])
def test_low_precision_follows_float32_and_gives_float32(refinement):
    def build(images, dtype):
        options = registry.Options(output_stride=16, compute_dtype=dtype)
        network = _network(options=options, refinement=refinement)
        logits = network.logits(images, True)['semantic'][MERGED]
        assert logits.dtype == tf.float32
        return logits

    exact, names = _evaluate(lambda images: build(images, tf.float32))
    rounded, same = _evaluate(lambda images: build(images, tf.bfloat16))
    assert names == same
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.1 * np.abs(exact).max())
    assert not np.array_equal(rounded, exact)
