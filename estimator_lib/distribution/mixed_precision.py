"""`train_config.use_bfloat16`: in which type which kinds of ops compute, and where that gains.

A rewrite of TensorFlow's goes over a session's graph and lets matrix products, and what lies
between them, compute in a half type; variables, statistics and losses stay float32. On processors
that is bfloat16. On GPUs it is float16, the one half type that TensorFlow's rewrite knows there,
and the one that all GPUs with tensor cores multiply; it needs loss scaling (see
`optimization.loss_scale`). The rewrite reaches networks, heads and losses alike, and leaves
variables, checkpoints, evaluation and exported graphs as they are.

The rewrite's own lists of ops take it for granted that bfloat16 has a kernel as good as float32's.
Measured (`python -m benchmarks.experiments.bfloat16_ops`, docs/performance.md), that holds for all
but these:

    op                                    time of float32's     what is done
    DepthwiseConv2dNativeBackpropInput    0.6; stride 2: 6-24   stays float32
    DepthwiseConv2dNativeBackpropFilter   0.7-1; 5x5: 2-3.3     stays float32
    FusedBatchNormV3 and its gradient     0.6-0.8; channels no  stays float32 in a network where
                                          multiple of 16: 1.8-9 many of its numbers are such, and
                                                                where swishes follow it
    gradients of Conv2D with explicit     10-50                 layers pad before it in training
      padding

A network whose products are too few for all that is converted between them stays float32 whole:
see `balance`.

That is for training. Evaluation computes in float32: there batch norm is fused with the convolution
before it, which TensorFlow does not do in bfloat16, and what an export answers is float32 as well.

All of this is of processors that multiply in bfloat16 by themselves; on others, nothing is
rewritten: their kernels would convert each number twice. Nor is it on GPUs without tensor cores.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any, Dict, NamedTuple, Optional

import tensorflow as tf

from estimator_lib.distribution import half_types
from estimator_lib.optimization.loss_scale import LossScale
from protos import train_pb2

# Kinds of ops that the rewrite leaves in float32: always, and where batch norm is uneven.
DEPTHWISE = ('DepthwiseConv2dNativeBackpropFilter', 'DepthwiseConv2dNativeBackpropInput')
NORMS = ('FusedBatchNormV3', 'FusedBatchNormGradV3')

# All kinds of products that the rewrite knows for processors.
_ALL_PRODUCTS = (
    'BatchMatMul',
    'BatchMatMulV2',
    'Conv2D',
    'Conv2DBackpropFilter',
    'Conv2DBackpropInput',
    'Conv3D',
    'Conv3DBackpropFilterV2',
    'Conv3DBackpropInputV2',
    'DepthwiseConv2dNative',
    'Einsum',
    'MatMul',
)

# What training in bfloat16 costs, forward and backward, for each number that batch norm puts out:
# in multiply-adds of convolutions, each of which gains some 30 picoseconds. Fitted to the ratios of
# the small networks in docs/performance.md; in keeping with its table of ops, by which a conversion
# and back costs about 20. Sums and gates (a swish has two or three for each number of batch norm)
# have slow ReLU6 and sigmoids among them; with batch norm in float32 they stay float32 too, and
# need no conversions of their own.
_COST = 30.0
_COST_BY_FLOAT32_NORMS = 65.0
_LEAST_BY_FLOAT32_NORMS = 45.0
_COST_OF_OTHERS = 10.0
_OTHERS = ('AddV2', 'Mul')

# Channels that the kernel of batch norm takes at once, and the part of a network's normalized
# numbers that may be in maps with a rest.
_VECTOR = 16
_MOST_UNEVEN = 0.1

# The rewrite takes changes of its lists (of products, and of what may follow them) from here alone.
_PRODUCTS = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_REMOVE'
_FOLLOWING = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_INFERLIST_REMOVE'
_CHOICE = 'mixed_precision_choice'
_of_user: Dict[str, Optional[str]] = {}  # what these variables had before `apply`; None: nothing


def rewrite(session_config: tf.compat.v1.ConfigProto) -> None:
    """Let a session that trains compute in the half type of this machine; see `choose`.

    Args:
        session_config: changed in place.
    """
    rewrites = session_config.graph_options.rewrite_options
    half = half_types.half_type()
    if half is tf.float16:
        rewrites.auto_mixed_precision = rewrites.ON
    elif half is tf.bfloat16:
        rewrites.auto_mixed_precision_onednn_bfloat16 = rewrites.ON


def create_loss_scale(config: train_pb2.TrainConfig) -> Optional[LossScale]:
    """Return the loss scaling of a training graph; None where nothing is computed in float16."""
    return LossScale(config.loss_scale) if half_types.scales_losses(config) else None


def choose(graph: tf.Graph) -> None:
    """Notes in a training graph which kinds of ops the rewrite leaves in float32 on processors.

    Args:
        graph: with the forward pass in it.
    """
    on_gpu = half_types.half_type() is tf.float16
    found = balance(graph)
    products = () if on_gpu else DEPTHWISE if found.gains else (*_ALL_PRODUCTS, *DEPTHWISE)
    following = NORMS if found.norms_stay and not on_gpu else ()
    # Text, since collections are saved with the graph.
    chosen = {_PRODUCTS: products, _FOLLOWING: following}.items()
    graph.get_collection_ref(_CHOICE)[:] = [f'{name}={",".join(kinds)}' for name, kinds in chosen]


def apply(graph: tf.Graph) -> None:
    """Add what `choose` has noted to the environment of the process, where the rewrite looks.

    Entries of the user stay. What an earlier call added does not: of several graphs that train in
    one process the last one decides.

    Args:
        graph: a training graph.
    """
    for choice in graph.get_collection(_CHOICE):
        variable, kinds = choice.split('=')
        of_user = _of_user.setdefault(variable, os.environ.get(variable))
        entries = [*(of_user or '').split(','), *kinds.split(',')]
        os.environ[variable] = ','.join(dict.fromkeys(filter(None, entries)))


def restore() -> None:
    """Give the environment back as it was before `apply`."""
    while _of_user:
        variable, value = _of_user.popitem()
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value


class EnvironmentHook(tf.estimator.SessionRunHook):
    """Applies the choice for as long as a session trains, however that ends.

    `FunctionTrainer` has no coordinator of threads, and restores the environment itself.
    """

    def after_create_session(self, session: Any, coord: Optional[tf.train.Coordinator]) -> None:
        """Apply the choice before the first step, which the session compiles."""
        apply(session.graph)
        if coord is not None:
            # A hook is not told of an error. A coordinator is, and it waits for its threads.
            thread = threading.Thread(target=_restore_when_stopped, args=(coord,), daemon=True)
            thread.start()
            coord.register_thread(thread)


def _restore_when_stopped(coord: tf.train.Coordinator) -> None:
    coord.wait_for_stop()
    restore()


class Balance(NamedTuple):
    """What training in bfloat16 gains and costs on a processor, as far as a forward pass tells.

    In multiply-adds of convolutions for each number that batch norm puts out (in all, where there
    is none). Neither the batch size nor, for the most part, the size of images matters: all of it
    grows with them.

    Attributes:
        products: what convolutions and matrix products multiply and add.
        cost: of conversions, and of slow kernels.
        norms_stay: whether batch norm stays float32: its kernel is slow for this network, or what
            follows it is.
    """

    products: float
    cost: float
    norms_stay: bool

    @property
    def gains(self) -> bool:
        """Whether bfloat16 is faster."""
        return self.products > self.cost


def balance(graph: tf.Graph) -> Balance:
    """Weigh what bfloat16 gains and costs.

    Args:
        graph: with the forward pass in it.
    """
    products = others = normalized = uneven = 0.0
    for op in graph.get_operations():
        # What initializers compute is of no training step.
        if not op.outputs or op.outputs[0].shape.rank is None or '/Initializer/' in op.name:
            continue
        numbers = _numbers(op.outputs[0])
        if op.type in ('Conv2D', 'MatMul'):
            # The weights have an axis for their outputs; the others are summed over.
            axis = 0 if op.type == 'MatMul' and op.get_attr('transpose_b') else -1
            weights = op.inputs[1]
            products += numbers * _numbers(weights) / (weights.shape[axis] or 1)
        elif op.type in _OTHERS and op.outputs[0].shape.rank == 4:
            others += numbers
        elif op.type == NORMS[0] and op.outputs[0].shape.rank == 4:
            normalized += numbers
            uneven += numbers * (op.outputs[0].shape[-1] % _VECTOR != 0)
    if not normalized:
        return Balance(products, 0.0, False)
    others /= normalized
    cost = _COST + _COST_OF_OTHERS * others
    by_float32_norms = _COST_BY_FLOAT32_NORMS - _COST_OF_OTHERS * others
    by_float32_norms = max(by_float32_norms, _LEAST_BY_FLOAT32_NORMS)
    norms_stay = uneven / normalized > _MOST_UNEVEN or by_float32_norms < cost
    return Balance(products / normalized, by_float32_norms if norms_stay else cost, norms_stay)


def _numbers(tensor: tf.Tensor) -> int:
    """Of a tensor. Sides that are not known are alike: then it is channels that are counted."""
    return math.prod(side or 1 for side in tensor.shape.as_list())


def description(graph: tf.Graph) -> str:
    """What `train_config.use_bfloat16` does on this machine, a line.

    Args:
        graph: with the forward pass of training in it.
    """
    half = half_types.half_type()
    if half is None:
        return 'precision: float32'
    if half is tf.float16:
        return (
            'precision: training computes in float16 on the GPU where TensorFlow has it safe, with '
            'loss scaling; variables, losses and evaluation are float32'
        )
    found = balance(graph)
    if not found.gains:
        return (
            'precision: training stays float32 because bfloat16 would be no faster: this network '
            f'has {found.products:.0f} multiply-adds for each number that would be converted '
            f'between them, and more than {found.cost:.0f} would have to make up for that'
        )
    return (
        'precision: training computes in bfloat16 where that is faster; variables, losses and '
        'evaluation are float32'
    )
