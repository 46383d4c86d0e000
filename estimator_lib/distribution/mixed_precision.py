"""Mixed precision for `train_config.use_bfloat16`: the type of each kind of op in training.

A graph rewrite of TensorFlow computes matrix products, and the ops between them, in a half type.
Variables, statistics and losses stay float32. On processors the half type is bfloat16. On GPUs it
is float16: TensorFlow's rewrite knows no other there, and all GPUs with tensor cores multiply it.
float16 needs loss scaling (`optimization.loss_scale`). The rewrite covers networks, heads and
losses. Variables, checkpoints, evaluation and exported graphs do not change.

The rewrite's lists assume that each op has a bfloat16 kernel as fast as that of float32. By
measurement (docs/performance.md, "Ops") that is true except for:

    op                                    time / float32's time   treatment
    DepthwiseConv2dNativeBackpropInput    0.6; stride 2: 6-24   stays float32
    DepthwiseConv2dNativeBackpropFilter   0.7-1; 5x5: 2-3.3     stays float32
    FusedBatchNormV3 and its gradient     0.6-0.8; channels no  stays float32 in a network where
                                          multiple of 16: 1.8-9 many of its numbers are such, and
                                                                where swishes follow it
    gradients of Conv2D with explicit     10-50                 layers pad before it in training
      padding

A network with too few products for its conversions stays float32 as a whole; `balance` decides.

Evaluation computes in float32, as exports do: there TensorFlow fuses batch norm with the
convolution before it, which it does not do in bfloat16.

The rewrite is only used on processors with bfloat16 instructions and on GPUs with tensor cores. The
kernels of other processors would convert each number twice.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any, Dict, NamedTuple, Optional

import tensorflow as tf

from estimator_lib import tf_estimator
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

# Cost of training in bfloat16, forward and backward, for each output number of batch norm. The unit
# is a multiply-add of a convolution, which gains about 30 picoseconds in bfloat16. The values are
# fitted to the ratios of the small networks in docs/performance.md. They agree with its table of
# ops, where a conversion and back costs about 20. Sums and gates (a swish has two or three for each
# number of batch norm) include slow ReLU6 and sigmoids. Where batch norm stays float32 they do too,
# and need no conversions of their own.
_COST = 30.0
_COST_BY_FLOAT32_NORMS = 65.0
_LEAST_BY_FLOAT32_NORMS = 45.0
_COST_OF_OTHERS = 10.0
_OTHERS = ('AddV2', 'Mul')

# Channels that the kernel of batch norm takes at once, and the largest fraction of a network's
# normalized numbers in maps whose channels are no multiple of that.
# A register of AVX-512 holds 16 numbers of float32.
_VECTOR = 16
_MOST_UNEVEN = 0.1

# The rewrite reads changes of its lists (of products, and of ops after them) from these variables.
_PRODUCTS = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_REMOVE'
_FOLLOWING = 'TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_INFERLIST_REMOVE'
_CHOICE = 'mixed_precision_choice'
_of_user: Dict[str, Optional[str]] = {}  # values before `apply`; None: not set


def rewrite(session_config: tf.compat.v1.ConfigProto) -> None:
    """Switch on the rewrite to this machine's half type in a session that trains.

    Args:
        session_config: the config of the session, changed in place.
    """
    rewrites = session_config.graph_options.rewrite_options
    half = half_types.half_type()
    if half is tf.float16:
        rewrites.auto_mixed_precision = rewrites.ON
    elif half is tf.bfloat16:
        rewrites.auto_mixed_precision_onednn_bfloat16 = rewrites.ON


def create_loss_scale(config: train_pb2.TrainConfig) -> Optional[LossScale]:
    """Create the loss scaling of a training graph; return None where nothing is float16."""
    return LossScale(config.loss_scale) if half_types.scales_losses(config) else None


def choose(graph: tf.Graph) -> None:
    """Store in a training graph the kinds of ops that stay float32 on processors.

    Args:
        graph: a graph with the forward pass.
    """
    on_gpu = half_types.half_type() is tf.float16
    costs = balance(graph)
    products = () if on_gpu else DEPTHWISE if costs.gains else (*_ALL_PRODUCTS, *DEPTHWISE)
    following = NORMS if costs.norms_stay and not on_gpu else ()
    # Text, since collections are saved with the graph.
    chosen = {_PRODUCTS: products, _FOLLOWING: following}.items()
    graph.get_collection_ref(_CHOICE)[:] = [f'{name}={",".join(kinds)}' for name, kinds in chosen]


def apply(graph: tf.Graph) -> None:
    """Add the choice of `choose` to the environment of the process, where the rewrite reads it.

    Entries of the user stay. Entries of an earlier call are removed: of several training graphs in
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
    """Restore the environment as it was before `apply`."""
    while _of_user:
        variable, value = _of_user.popitem()
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value


class EnvironmentHook(tf_estimator.SessionRunHook):
    """Hook that applies the choice while a session trains, and removes it also after an error.

    `FunctionTrainer` has no coordinator of threads, and restores the environment itself.
    """

    def after_create_session(self, session: Any, coord: Optional[tf.train.Coordinator]) -> None:
        """Apply the choice before the first step, which the session compiles."""
        apply(session.graph)
        if coord is not None:
            # Hooks are not called after an error, but the coordinator is, and waits for its
            # threads.
            thread = threading.Thread(target=_restore_when_stopped, args=(coord,), daemon=True)
            thread.start()
            coord.register_thread(thread)


def _restore_when_stopped(coord: tf.train.Coordinator) -> None:
    coord.wait_for_stop()
    restore()


class Balance(NamedTuple):
    """Gain and cost of training in bfloat16 on a processor, estimated from a forward pass.

    The unit is multiply-adds of convolutions for each output number of batch norm (in all, where
    there is no batch norm). The batch size and mostly also the image size cancel out.

    Attributes:
        products: multiply-adds of convolutions and matrix products.
        cost: cost of conversions and slow kernels.
        norms_stay: whether batch norm stays float32, because its kernel or the ops after it are
            slow for this network.
    """

    products: float
    cost: float
    norms_stay: bool

    @property
    def gains(self) -> bool:
        """True if bfloat16 is faster."""
        return self.products > self.cost


def balance(graph: tf.Graph) -> Balance:
    """Weigh the gain of bfloat16 against its cost.

    Args:
        graph: a graph with the forward pass.
    """
    products = others = normalized = uneven = 0.0
    for op in graph.get_operations():
        # Initializers are no part of a training step.
        if not op.outputs or op.outputs[0].shape.rank is None or '/Initializer/' in op.name:
            continue
        numbers = _numbers(op.outputs[0])
        if op.type in ('Conv2D', 'MatMul'):
            # Each output number sums over all axes of the weights but that of the outputs.
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
    """Return the size of a tensor, with 1 for unknown sides: known are at least the channels."""
    return math.prod(side or 1 for side in tensor.shape.as_list())


def description(graph: tf.Graph) -> str:
    """Describe the effect of `train_config.use_bfloat16` on this machine in one line.

    Args:
        graph: a graph with the forward pass of training.
    """
    half = half_types.half_type()
    if half is None:
        return 'precision: float32'
    if half is tf.float16:
        return (
            'precision: training computes in float16 on the GPU where TensorFlow has it safe, with '
            'loss scaling; variables, losses and evaluation are float32'
        )
    costs = balance(graph)
    if not costs.gains:
        return (
            'precision: training stays float32 because bfloat16 would be no faster: this network '
            f'has {costs.products:.0f} multiply-adds for each number that would be converted '
            f'between them, and more than {costs.cost:.0f} would have to make up for that'
        )
    return (
        'precision: training computes in bfloat16 where that is faster; variables, losses and '
        'evaluation are float32'
    )
