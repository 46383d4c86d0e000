"""Measurement of single ops of the networks in float32 and in bfloat16.

    python -m benchmarks.experiments.bfloat16_ops [--kinds=Conv2D,Relu] [--turns=10] [--threads=1,2]

Each op is a graph of its own on inputs that are held in variables. Both types are measured
alternately in one process, which is started once for each number of threads: a process has one
pool. The minimal CPU time of all threads is compared: other programs on the machine lengthen runs
and never shorten them. The medians show how reliable it is.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from benchmarks import measuring

DTYPES = ('float32', 'bfloat16')
_BATCH = 8


class Input(NamedTuple):
    """An input of an op: its shape, and whether it is of the type that is measured."""

    shape: Tuple[int, ...]
    follows: bool = True


class Case(NamedTuple):
    """An op of a network.

    Attributes:
        kind: of the op.
        what: which layer's it is.
        inputs: of the op; float32 where they do not follow the type.
        compute: (tf.raw_ops, the inputs) -> an output.
    """

    kind: str
    what: str
    inputs: Sequence[Input]
    compute: Callable[..., Any]


def cases() -> List[Case]:
    """Return the ops of the project's networks that take time, at a few of their sizes."""
    found: List[Case] = []
    for kernel, stride, side, channels, outputs in (
        (7, 2, 224, 3, 64),  # the first layer of ResNets
        (3, 2, 224, 3, 32),  # and that of MobileNets
        (3, 1, 56, 64, 64),
        (3, 1, 14, 256, 256),
        (3, 2, 28, 128, 128),
        (1, 1, 56, 64, 256),
        (1, 1, 28, 144, 32),
        (1, 1, 14, 1024, 256),
        (1, 1, 14, 256, 1024),
        (1, 2, 56, 256, 512),
    ):
        found += _convolution(kernel, stride, side, channels, outputs)
    for kernel, stride, side, channels in (
        (3, 1, 112, 32),
        (3, 2, 112, 96),
        (3, 1, 28, 192),
        (5, 1, 28, 120),
        (5, 2, 28, 240),
        (3, 1, 14, 512),
    ):
        found += _convolution(kernel, stride, side, channels)
    for side, channels in ((112, 64), (56, 256), (14, 1024), (7, 960)):
        found += _normalization(side, channels)
        found += _elementwise(side, channels)
    for side, channels in ((56, 24), (56, 72), (28, 120), (28, 144), (14, 200)):
        found += _normalization(side, channels)  # not whole vectors of channels
    return found + _pooling() + _heads()


def _convolution(
    kernel: int, stride: int, side: int, channels: int, outputs: Optional[int] = None
) -> Sequence[Case]:
    """Return a convolution and its two gradients; depthwise where `outputs` is None."""
    image = (_BATCH, side, side, channels)
    weights = (kernel, kernel, channels, outputs or 1)
    smaller = (_BATCH, -(-side // stride), -(-side // stride), outputs or channels)
    how = {'strides': [1, stride, stride, 1], 'padding': 'SAME'}
    kind = 'Conv2D' if outputs else 'DepthwiseConv2dNative'
    what = f'{kernel}x{kernel}/{stride} {side}x{side}x{channels}'
    what += f' to {outputs}' if outputs else ''

    def forward(ops: Any, x: Any, w: Any) -> Any:
        return getattr(ops, kind)(input=x, filter=w, **how)

    def weights_input(ops: Any, x: Any, dy: Any) -> Any:
        compute = getattr(ops, f'{kind}BackpropFilter')
        return compute(input=x, filter_sizes=weights, out_backprop=dy, **how)

    def image_input(ops: Any, w: Any, dy: Any) -> Any:
        compute = getattr(ops, f'{kind}BackpropInput')
        return compute(input_sizes=image, filter=w, out_backprop=dy, **how)

    return [
        Case(kind, what, [Input(image), Input(weights)], forward),
        Case(f'{kind}BackpropFilter', what, [Input(image), Input(smaller)], weights_input),
        Case(f'{kind}BackpropInput', what, [Input(weights), Input(smaller)], image_input),
    ]


def _normalization(side: int, channels: int) -> Sequence[Case]:
    image = Input((_BATCH, side, side, channels))
    vector = Input((channels,), False)
    what = f'{side}x{side}x{channels}'

    def norm(is_training: bool) -> Callable[..., Any]:
        return lambda ops, x, gamma, beta, mean, variance: (
            ops.FusedBatchNormV3(
                x=x,
                scale=gamma,
                offset=beta,
                mean=mean,
                variance=variance,
                epsilon=1e-3,
                exponential_avg_factor=0.1 if is_training else 1.0,
                is_training=is_training,
            ).y
        )

    def gradient(ops: Any, dy: Any, x: Any, gamma: Any, mean: Any, variance: Any) -> Any:
        # As the kernel keeps them: what it names variance is of the same use here.
        return ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=gamma,
            reserve_space_1=mean,
            reserve_space_2=variance,
            reserve_space_3=variance,
            epsilon=1e-3,
            is_training=True,
        ).x_backprop

    return [
        Case('FusedBatchNormV3', f'{what}, inference', [image] + [vector] * 4, norm(False)),
        Case('FusedBatchNormV3', f'{what}, training', [image] + [vector] * 4, norm(True)),
        Case('FusedBatchNormGradV3', what, [image, image] + [vector] * 3, gradient),
    ]


def _elementwise(side: int, channels: int) -> Sequence[Case]:
    image = Input((_BATCH, side, side, channels))
    what = f'{side}x{side}x{channels}'
    return [
        Case('Relu', what, [image], lambda ops, x: ops.Relu(features=x)),
        Case(
            'ReluGrad', what, [image] * 2, lambda ops, g, x: ops.ReluGrad(gradients=g, features=x)
        ),
        Case('Relu6', what, [image], lambda ops, x: ops.Relu6(features=x)),
        Case(
            'Relu6Grad', what, [image] * 2, lambda ops, g, x: ops.Relu6Grad(gradients=g, features=x)
        ),
        Case('AddV2', what, [image] * 2, lambda ops, x, y: ops.AddV2(x=x, y=y)),
        Case('AddN', f'{what}, two', [image] * 2, lambda ops, x, y: ops.AddN(inputs=[x, y])),
        Case('Mul', what, [image] * 2, lambda ops, x, y: ops.Mul(x=x, y=y)),
        Case('Cast', f'{what}, to the other', [image], _to_the_other),
        Case('Mean', what, [image], lambda ops, x: ops.Mean(input=x, axis=[1, 2], keep_dims=True)),
    ]


def _to_the_other(ops: Any, x: Any) -> Any:
    return ops.Cast(x=x, DstT=DTYPES[x.dtype.name == DTYPES[0]])


def _pooling() -> Sequence[Case]:
    image = Input((_BATCH, 112, 112, 64))
    smaller = Input((_BATCH, 56, 56, 64))
    how = {'ksize': [1, 3, 3, 1], 'strides': [1, 2, 2, 1], 'padding': 'SAME'}
    what = '3x3/2 112x112x64'
    return [
        Case('MaxPool', what, [image], lambda ops, x: ops.MaxPool(input=x, **how)),
        Case(
            'MaxPoolGrad',
            f'{what}, after the pooling',  # which tells it where the maxima were
            [image, smaller],
            lambda ops, x, dy: ops.MaxPoolGrad(
                orig_input=x, orig_output=ops.MaxPool(input=x, **how), grad=dy, **how
            ),
        ),
        Case('AvgPool', what, [image], lambda ops, x: ops.AvgPool(value=x, **how)),
        Case(
            'AvgPoolGrad',
            what,
            [smaller],
            lambda ops, dy: ops.AvgPoolGrad(orig_input_shape=image.shape, grad=dy, **how),
        ),
    ]


def _heads() -> Sequence[Case]:
    image = Input((_BATCH, 40, 40, 256))
    bias = Input((256,))
    larger = Input((_BATCH, 80, 80, 256))
    logits = Input((_BATCH * 1917, 91))
    what = '40x40x256'
    how = {'align_corners': True}
    return [
        Case('BiasAdd', what, [image, bias], lambda ops, x, b: ops.BiasAdd(value=x, bias=b)),
        Case('BiasAddGrad', what, [image], lambda ops, dy: ops.BiasAddGrad(out_backprop=dy)),
        Case(
            'ResizeBilinear',
            f'{what} twice as large',
            [image],
            lambda ops, x: ops.ResizeBilinear(images=x, size=[80, 80], **how),
        ),
        Case(
            'ResizeNearestNeighbor',
            f'{what} twice as large',
            [image],
            lambda ops, x: ops.ResizeNearestNeighbor(images=x, size=[80, 80]),
        ),
        Case(
            'ResizeNearestNeighborGrad',
            f'{what} of twice as large',
            [larger],
            lambda ops, dy: ops.ResizeNearestNeighborGrad(grads=dy, size=[40, 40]),
        ),
        Case(
            'ConcatV2',
            what,
            [image, image],
            lambda ops, x, y: ops.ConcatV2(values=[x, y], axis=3),
        ),
        Case('Softmax', '15336x91', [logits], lambda ops, x: ops.Softmax(logits=x)),
        Case('Sigmoid', '15336x91', [logits], lambda ops, x: ops.Sigmoid(x=x)),
        Case(
            'MatMul',
            '512x2048 to 1024',
            [Input((512, 2048)), Input((2048, 1024))],
            lambda ops, x, w: ops.MatMul(a=x, b=w),
        ),
        Case(
            'Pad',
            what,
            [image],
            lambda ops, x: ops.Pad(input=x, paddings=[[0] * 2, [1] * 2, [1] * 2, [0] * 2]),
        ),
    ]


def measure(
    case: Case, turns: int, least_seconds: float = 0.02, threads: int = 0
) -> Dict[str, Any]:
    """Return milliseconds of one run of an op in both types, of `turns` turns of several runs each.

    Args:
        case: the op.
        turns: how often each type is measured.
        least_seconds: how long a turn runs the op at least.
        threads: see `measuring.on_threads`.
    """
    import tensorflow as tf

    from estimator_lib import training

    tf1 = tf.compat.v1
    seconds: Dict[str, List[measuring.Clocks]] = {name: [] for name in DTYPES}
    with tf.Graph().as_default():
        targets = {name: _build(case, name).op for name in DTYPES}
        session_config = measuring.set_threads(training.create_session_config(), threads)
        with tf1.Session(config=session_config) as session:
            session.run(tf1.global_variables_initializer())
            runs = {}
            for name, target in targets.items():
                session.run(target)
                once = measuring.seconds_per_run(session, target, 2).wall
                runs[name] = max(1, min(200, int(least_seconds / once)))
            for _ in range(turns):
                for name, target in targets.items():
                    seconds[name].append(measuring.seconds_per_run(session, target, runs[name]))
    result: Dict[str, Any] = {'kind': case.kind, 'what': case.what}
    for name, found in seconds.items():
        for clock in measuring.Clocks._fields:
            values = [1000 * getattr(one, clock) for one in found]
            result[f'{name}_{clock}_min_ms'] = min(values)
            result[f'{name}_{clock}_median_ms'] = statistics.median(values)
    result['ratio'] = result['bfloat16_cpu_min_ms'] / result['float32_cpu_min_ms']
    return result


def _build(case: Case, dtype: str) -> Any:
    import tensorflow as tf

    held = []
    for number, one in enumerate(case.inputs):
        value = tf.random.stateless_uniform(one.shape, [number, 1], 0.5, 1.5)
        value = tf.cast(value, dtype if one.follows else 'float32')
        held.append(tf.Variable(value, trainable=False).read_value())
    return case.compute(tf.raw_ops, *held)


def table(results: Sequence[Dict[str, Any]]) -> str:
    """Format CPU milliseconds, minimum and median, and the ratio of bfloat16's to float32's."""
    lines = [
        f'{"op (CPU ms, min/median)":36s} {"layer":34s} {"float32":>17s} {"bfloat16":>17s} '
        f'{"ratio":>6s}'
    ]
    for one in results:
        sides = ' '.join(
            f'{one[f"{name}_cpu_min_ms"]:8.2f}/{one[f"{name}_cpu_median_ms"]:8.2f}'
            for name in DTYPES
        )
        lines.append(f'{one["kind"]:36s} {one["what"]:34s} {sides} {one["ratio"]:6.2f}')
    return '\n'.join(lines)


def measure_here(kinds: Sequence[str], turns: int, threads: int) -> List[Dict[str, Any]]:
    """Return the results of all cases of those kinds (of none: of all), on so many threads."""
    chosen = [case for case in cases() if not kinds or case.kind in kinds]
    return [measure(case, turns, threads=threads) for case in chosen]


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--kinds', default='', help='ops, by commas; left out: all')
    parser.add_argument('--turns', type=int, default=10, help='how often each type is measured')
    parser.add_argument('--threads', default='1,2', help='numbers of threads, by commas')
    parser.add_argument(
        '--output', default='benchmark_bfloat16_ops.json', help='where the JSON goes'
    )
    parser.add_argument('--here', action='store_true', help='in this process, as JSON to stdout')
    arguments = parser.parse_args()
    kinds = [kind for kind in arguments.kinds.split(',') if kind]
    numbers = [int(threads) for threads in arguments.threads.split(',')]
    if arguments.here:
        measuring.quiet()
        print(json.dumps(measure_here(kinds, arguments.turns, numbers[0])))
        return
    results = {}
    for threads in numbers:
        passed = [f'--kinds={arguments.kinds}', f'--turns={arguments.turns}']
        results[str(threads)] = measuring.run_apart(
            'experiments.bfloat16_ops', ['--here', *passed, f'--threads={threads}']
        )
        print(f'{threads} thread{"s" if threads > 1 else ""}\n{table(results[str(threads)])}\n')
    with open(arguments.output, 'w') as file:
        json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
