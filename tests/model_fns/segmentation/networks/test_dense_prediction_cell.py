from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.segmentation.networks import dense_prediction_cell as cells
from model_fns.segmentation.networks import head_layers
from protos import segmentation_pb2
from tests.model_fns.backbones import recorded_backbones, slow_layers

tf1 = tf.compat.v1

Branch = cells.Branch

BRANCHES = (
    Branch(-1, kernel_size=1),
    Branch(0, kernel_size=3, rate=(1, 3)),
    Branch(1, grid=(4, 2)),
    Branch(-1, grid=(1, 1)),
)
TEXT = """
branches { kernel_size: 1 }
branches { input: 0 rate_height: 1 rate_width: 3 }
branches { operation: PYRAMID_POOLING input: 1 grid_height: 4 grid_width: 2 }
branches { operation: PYRAMID_POOLING }
"""
ENTRIES = [
    {'op': 'conv', 'kernel': 1, 'input': -1},
    {'op': 'conv', 'kernel': 3, 'rate': [1, 3], 'input': 0},
    {'op': 'pyramid_pooling', 'grid_size': [4, 2], 'input': 1},
    {'op': 'pyramid_pooling', 'grid_size': 1, 'input': -1},
]


def _config(text):
    config = text_format.Parse(text, segmentation_pb2.DensePredictionCell())
    return Section(config, 'dense_prediction_cell')


def _style(is_training=False):
    return head_layers.head_style(
        is_training=is_training,
        fine_tune_batch_norm=is_training,
        weight_decay=0.5,
        batch_norm_decay=0.9,
    )


def _from_file(tmp_path, text):
    path = tmp_path / 'cell.json'
    path.write_text(text)
    return cells.Cell.from_config(_config(f'json_path: "{path}"'))


def test_reads_branches():
    cell = cells.Cell.from_config(
        _config(TEXT + 'num_filters: 48 separable_convolution: false dropout_keep_prob: 0.7')
    )
    assert cell == cells.Cell(BRANCHES, 48, separable=False, dropout_keep_prob=0.7)
    assert cells.Cell.from_config(_config(TEXT)) == cells.Cell(BRANCHES)


def test_reads_the_file_of_a_search(tmp_path):
    assert _from_file(tmp_path, json.dumps(ENTRIES)) == cells.Cell(BRANCHES)


def test_variables_have_the_published_names():
    with tf.Graph().as_default() as graph:
        cell = cells.Cell(BRANCHES, num_filters=8)
        outputs = cells.apply_cell(tf.zeros([2, 9, 13, 5]), cell, _style())
    assert outputs.shape == [2, 9, 13, 8]
    weights = {
        name: shape
        for name, (shape, _) in recorded_backbones.variables_of(graph).items()
        if name.endswith('weights')
    }
    assert weights == {
        'meta_architecture/branch0/weights': (1, 1, 5, 8),
        'meta_architecture/branch1_depthwise/depthwise_weights': (3, 3, 8, 1),
        'meta_architecture/branch1_pointwise/weights': (1, 1, 8, 8),
        'meta_architecture/branch2/weights': (1, 1, 8, 8),
        'meta_architecture/branch3/weights': (1, 1, 5, 8),
        'meta_architecture/concat_projection/weights': (1, 1, 32, 8),
    }
    assert len(graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)) == 5
    assert len(recorded_backbones.variables_of(graph)) == 6 * 5


@pytest.mark.parametrize('separable', [True, False])
@pytest.mark.parametrize('is_static', [True, False])
def test_computes_what_its_definition_says(separable, is_static):
    features = np.random.RandomState(0).normal(size=[2, 9, 13, 3]).astype(np.float32)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        shape = features.shape if is_static else [None, None, None, 3]
        inputs = tf1.placeholder(tf.float32, shape)
        cell = cells.Cell(BRANCHES, num_filters=4, separable=separable)
        outputs = cells.apply_cell(inputs, cell, _style())
        recorded_backbones.set_weights(session)
        actual = session.run(outputs, {inputs: features})
        variables = session.run(
            {v.op.name: v for v in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)}
        )
    recorded_backbones.assert_close(
        actual, _slow_cell(features, variables, separable), 1e-4, 'outputs'
    )


def _slow_cell(features, variables, separable):
    def layer(image, scope, rate=(1, 1)):
        scope = f'meta_architecture/{scope}'
        if f'{scope}/weights' in variables:
            weights = variables[f'{scope}/weights']
        else:
            depthwise = variables[f'{scope}/depthwise_weights'][..., 0]
            weights = depthwise[..., np.newaxis] * np.eye(depthwise.shape[-1])
        image = slow_layers.conv2d(image, _with_holes(weights, rate))
        return slow_layers.relu(
            slow_layers.batch_norm(image, variables, f'{scope}/BatchNorm', 1e-5)
        )

    first = layer(features, 'branch0')
    if separable:
        second = layer(layer(first, 'branch1_depthwise', (1, 3)), 'branch1_pointwise')
    else:
        second = layer(first, 'branch1', (1, 3))
    # 9 features in 4 cells are windows of (9 - 1) / 4 + 1 = 3; 13 in 2 cells are windows of 7.
    third = _stretched(layer(_means(second, 3, 7), 'branch2'), 9, 13)
    fourth = layer(features.mean((1, 2), keepdims=True), 'branch3')
    fourth = np.broadcast_to(fourth, [2, 9, 13, 4])
    return layer(np.concatenate([first, second, third, fourth], 3), 'concat_projection')


def _with_holes(weights, rate):
    """The kernel with rate - 1 zeros between its taps, in a square."""
    if rate == (1, 1):
        return weights
    reach = max(rate)
    kernel = np.zeros([2 * reach + 1, 2 * reach + 1, *weights.shape[2:]])
    for i in range(3):
        for j in range(3):
            kernel[reach + (i - 1) * rate[0], reach + (j - 1) * rate[1]] = weights[i, j]
    return kernel


def _means(image, height, width):
    rows, columns = image.shape[1] - height + 1, image.shape[2] - width + 1
    means = np.zeros([image.shape[0], rows, columns, image.shape[3]])
    for y in range(rows):
        for x in range(columns):
            means[:, y, x] = image[:, y : y + height, x : x + width].mean((1, 2))
    return means


def _stretched(image, height, width):
    """Bilinear interpolation that leaves corners where they are."""
    for axis, size in ((1, height), (2, width)):
        known = image.shape[axis]
        places = np.linspace(0, known - 1, size)
        image = np.apply_along_axis(
            lambda line, at, count: np.interp(at, np.arange(count), line),
            axis,
            image,
            places,
            known,
        )
    return image


def test_training_drops_decays_and_differentiates():
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        cell = cells.Cell(BRANCHES, 4, batch_norm_decay=0.75, dropout_keep_prob=0.5)
        features = tf.random.stateless_normal([2, 9, 13, 3], [1, 2])
        outputs = cells.apply_cell(features, cell, _style(is_training=True))
        gradients = tf.gradients(tf.reduce_sum(outputs**2), tf1.trainable_variables())
        updates = graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
        factors = {
            operation.get_attr('exponential_avg_factor')
            for operation in graph.get_operations()
            if operation.type == 'FusedBatchNormV3'
        }
        dropped = [op for op in graph.get_operations() if 'concat_dropout' in op.name]
        session.run(tf1.global_variables_initializer())
        values, _ = session.run([gradients, updates])
    assert factors == {0.25}
    assert dropped
    assert len(updates) == 2 * 6
    assert all(np.isfinite(value).all() for value in values)


def test_rates_follow_the_output_stride():
    cell = cells.Cell(
        (Branch(-1, kernel_size=1), Branch(-1, rate=(6, 21)), Branch(-1, grid=(2, 2)))
    )
    finer = cell.change_output_stride(16, 8)
    assert [branch.rate for branch in finer.branches] == [(1, 1), (12, 42), (1, 1)]
    assert finer.change_output_stride(8, 16) == cell
    assert cell.change_output_stride(16, 16) == cell
    with pytest.raises(errors.ConfigError, match='export: branch 1 .* rates 6 and 21 .* 2 times'):
        cell.change_output_stride(16, 32, 'export')


SIDES = st.integers(1, 24)


@settings(deadline=None, max_examples=20)
@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES))
def test_windows_lie_within_the_features(size, grid):
    # However finely the features are cut, a branch has their size.
    with tf.Graph().as_default():
        cell = cells.Cell((Branch(-1, grid=grid),), num_filters=2)
        outputs = cells.apply_cell(tf.zeros([1, *size, 1]), cell, _style())
    assert outputs.shape == [1, *size, 2]


@pytest.mark.parametrize(
    'text, message',
    [
        ('num_filters: 8', 'dense_prediction_cell: got neither of branches and json_path'),
        ('branches {} json_path: "x"', 'got both of branches and json_path; expected exactly one'),
        ('branches { input: 0 }', r'branches\[0\]: input: got 0; expected -1 \(the backbone\)\.'),
        (
            'branches {} branches { input: 1 }',
            r'branches\[1\]: input: got 1; expected -1 \(the backbone\), or an earlier branch, 0',
        ),
        ('branches { kernel_size: 2 }', 'kernel_size: got 2; expected an odd number'),
        ('branches { kernel_size: 0 }', 'kernel_size: got 0; expected an odd number'),
        ('branches { rate_width: 0 }', 'rate_height and rate_width: got 1 and 0; expected 1 or'),
        (
            'branches { operation: PYRAMID_POOLING grid_height: 0 }',
            'grid_height and grid_width: got 0 and 1; expected 1 or more',
        ),
        ('json_path: "no/such/cell.json"', 'no/such/cell.json: cannot be read'),
    ],
)
def test_refuses_a_config(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        cells.Cell.from_config(_config(text))


def _conv(**changes):
    entry = {'op': 'conv', 'kernel': 3, 'rate': [1, 1], 'input': -1, **changes}
    return [{key: value for key, value in entry.items() if value != 'absent'}]


@pytest.mark.parametrize(
    'entries, message',
    [
        ([], r'expected a list with an entry for each branch; got \[\]'),
        ({'op': 'conv'}, 'expected a list with an entry for each branch; got {"op": "conv"}'),
        ([3], 'entry 0: expected an object; got 3'),
        (
            _conv(op='convolution'),
            'entry 0: "op": unknown operation "convolution".* Known: conv, p',
        ),
        (_conv(op='absent'), 'entry 0: "op": unknown operation nothing'),
        (_conv(rates=3), "entry 0: unknown key 'rates' of 'conv'; did you mean 'rate'"),
        (_conv(grid_size=[1, 1]), "unknown key 'grid_size' of 'conv'"),
        (_conv(input='absent'), 'entry 0: "input": expected an integer; got nothing'),
        (_conv(input=0), 'entry 0: "input": got 0; expected -1'),
        (_conv(kernel='3'), 'entry 0: "kernel": expected an integer; got "3"'),
        (_conv(kernel=True), 'entry 0: "kernel": expected an integer; got true'),
        (_conv(kernel=-3), 'entry 0: "kernel": got -3; expected an odd number'),
        (_conv(rate='absent'), r'"rate": expected an integer or \[vertical, horizontal\]; got n'),
        (_conv(rate=[1, 2, 3]), r'entry 0: "rate": expected an integer or .*; got \[1, 2, 3\]'),
        (_conv(rate=[1, 0]), 'entry 0: "rate": got 1 and 0; expected 1 or more'),
        (
            [*_conv(), {'op': 'pyramid_pooling', 'grid_size': [0, 1], 'input': -1}],
            'entry 1: "grid_size": got 0 and 1; expected 1 or more',
        ),
    ],
)
def test_refuses_a_file(tmp_path, entries, message):
    with pytest.raises(errors.ConfigError, match=f'cell.json: .*{message}'):
        _from_file(tmp_path, json.dumps(entries))


def test_names_the_place_that_is_not_json(tmp_path):
    with pytest.raises(errors.ConfigError, match='cell.json: line 2, column 9: not JSON'):
        _from_file(tmp_path, '[\n  {"op" "conv"}]')
