from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import registry
from model_fns.backbones.searched import cells, nasnet
from model_fns.backbones.searched.cells import CURRENT, PREVIOUS, Cell, DropPath, Place, Term

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(
    is_training=True,
    initializer=layers.Initializer('truncated_normal', 2.0, fan='out'),
    batch_norm=layers.BatchNorm(scale=True),
)
KEEP_ALL = DropPath(1.0, 1, 1)


def _factors(drop_path, cell, step, count=2, batch=4000, scope='cell'):
    with tf.Graph().as_default(), tf1.Session() as session:
        global_step = tf1.train.create_global_step()
        with tf1.variable_scope(scope):
            factors = drop_path.factors(cell, count, tf.constant(batch))
        session.run(global_step.assign(step))
        return np.stack(session.run(factors))


@pytest.mark.parametrize(
    'cell, step, keep',
    [
        (21, 0, 1.0),
        (21, 250000, 0.7),
        (21, 900000, 0.7),
        (21, 125000, 0.85),
        (10, 250000, 0.85),  # The 11th of 22 cells: half of the way to 0.7.
        (10, 125000, 0.925),
    ],
)
def test_paths_are_kept_by_step_and_cell(cell, step, keep):
    factors = _factors(DropPath(0.7, 250000, 22), cell, step)
    assert factors.shape == (2, 4000, 1, 1, 1)
    values = np.unique(factors)
    expected = [1.0 / keep] if keep == 1.0 else [0.0, 1.0 / keep]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    # Four standard deviations of a share of 8000 draws are at most 0.021.
    assert abs(np.mean(factors > 0) - keep) < 0.021


def test_draws_are_those_of_the_step_the_scope_and_the_operation():
    drop_path = DropPath(0.5, 10, 1)
    factors = _factors(drop_path, 0, 10, batch=64)
    np.testing.assert_array_equal(_factors(drop_path, 0, 10, batch=64), factors)
    assert np.any(factors[0] != factors[1])
    assert np.any(_factors(drop_path, 0, 11, batch=64) != factors)
    assert np.any(_factors(drop_path, 0, 10, batch=64, scope='other') != factors)


def test_what_is_dropped_is_left_out_and_identities_stay():
    cell = Cell(((Term('identity', 1, CURRENT), Term('max_pool', 3, PREVIOUS)),), outputs=(0, 2))
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.train.create_global_step()
        maps = [tf.random.stateless_normal([3, 4, 4, 2], [seed, 0]) for seed in (1, 2)]
        drop_path = DropPath(1e-9, 1, 1)
        outputs = cells.build_cell(cell, *maps, Place(0, 2, 1), STYLE, drop_path)
        session.run(tf1.global_variables_initializer())
        kept, pooled = session.run([outputs, tf.nn.max_pool2d(maps[1], 3, 1, 'SAME')])
        session.run(step.assign(1))
        dropped = session.run(outputs)
    np.testing.assert_allclose(kept[..., 2:] - kept[..., :2], pooled, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(dropped[..., 2:], dropped[..., :2])


def test_inference_drops_nothing():
    drop_path = DropPath(0.1, 1, 1)
    with tf.Graph().as_default() as graph:
        maps = [tf1.placeholder(tf.float32, [None, None, None, 2]) for _ in range(2)]
        style = STYLE.but(is_training=False)
        cells.build_cell(nasnet.NORMAL_CELL, *maps, Place(0, 2, 1), style, drop_path)
    assert not [op for op in graph.get_operations() if 'drop_path' in op.name]


def test_states_are_activated_once():
    with tf.Graph().as_default() as graph:
        maps = [tf1.placeholder(tf.float32, [2, 8, 8, 2]) for _ in range(2)]
        cells.build_cell(nasnet.NORMAL_CELL, *maps, Place(0, 2, 1), STYLE, KEEP_ALL)
    kinds = collections.Counter(op.type for op in graph.get_operations())
    # The input, its projection and the previous map, and one within each of 5 pairs of layers.
    assert kinds['Relu'] == 8
    assert kinds['DepthwiseConv2dNative'] == 10


def test_draws_of_a_cell_are_one_operation():
    with tf.Graph().as_default() as graph:
        maps = [tf1.placeholder(tf.float32, [None, 8, 8, 2]) for _ in range(2)]
        drop_path = DropPath(0.5, 10, 1)
        cells.build_cell(nasnet.NORMAL_CELL, *maps, Place(0, 2, 1), STYLE, drop_path)
    drawn = [op.name for op in graph.get_operations() if op.type == 'StatelessRandomUniformV2']
    assert [name for name in drawn if 'drop_path' in name] == drawn and len(drawn) == 1
    (unpacked,) = (op for op in graph.get_operations() if op.type == 'Unpack')
    assert len(unpacked.outputs) == 8  # Ten operations, of which two are identities.


def test_a_state_with_other_channels_is_projected():
    cell = Cell(((Term('identity', 1, CURRENT), Term('identity', 1, CURRENT)),), outputs=(1, 2))
    with tf.Graph().as_default():
        maps = [tf1.placeholder(tf.float32, [2, 8, 8, channels]) for channels in (3, 5)]
        outputs = cells.build_cell(cell, *maps, Place(0, 4, 1), STYLE, KEEP_ALL)
        weights = {v.op.name: v.shape for v in tf1.global_variables() if 'weights' in v.op.name}
    assert outputs.shape == [2, 8, 8, 8]
    assert weights == {
        '1x1/weights': [1, 1, 3, 4],
        'cell_output/reduction_1/path_conv/weights': [1, 1, 5, 4],
    }


def test_steps_without_a_probability_are_refused():
    with pytest.raises(errors.ConfigError, match='drop_path_steps: got 7 with a drop_path_keep'):
        DropPath.published(registry.Options(drop_path_steps=7), 1.0, 100, 3)
    options = registry.Options(drop_path_steps=7, drop_path_keep_prob=0.5)
    assert DropPath.published(options, 1.0, 100, 3) == DropPath(0.5, 7, 3)
    assert DropPath.published(registry.Options(), 0.6, 100, 3) == DropPath(0.6, 100, 3)
