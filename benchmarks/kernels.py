"""Measures forms of what layers compute: gradients of atrous convolutions, and hard swish.

    python -m benchmarks.kernels [--turns=4] [--threads=2] [--kinds=atrous,hard_swish]

Atrous convolutions, forward pass and both gradients, as the layers have them, beside two ways of
TensorFlow: `tf.nn.convolution`, which goes through space to batch, and `tf.nn.conv2d` with gaps, of
which not every processor has gradients. Hard swish and its gradient as the layers build it, with
the gate kept for the gradient, and with the gate computed anew in the gradient. All forms of a case
compute the same from the same inputs, which is checked, and are measured in turns within one
process. Milliseconds are of the processor, all threads together, the least of the turns: other
programs on the machine lengthen runs and never shorten them.
"""

from __future__ import annotations

import argparse
import functools
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from benchmarks import measuring

MOST_DIFFERENCE = 1e-4  # of two forms, as a share of the largest number
OURS = 'layers'


class Case(NamedTuple):
    """Something that can be computed in several ways.

    Attributes:
        kind: `atrous` or `hard_swish`.
        what: the sizes.
        build: builds all forms in the default graph; outputs by the name of the form, the same
            outputs each. `OURS` is the first.
    """

    kind: str
    what: str
    build: Callable[[], Dict[str, Sequence[Any]]]


def atrous(batch: int, side: int, channels: int, outputs: int, rate: int) -> Case:
    """A 3 x 3 convolution with gaps between the taps, as DeepLab's last block and its ASPP have."""
    what = f'{batch}x{side}x{side}x{channels} to {outputs}, rate {rate}'
    shape = [batch, side, side, channels]
    return Case('atrous', what, functools.partial(_build_atrous, shape, outputs, rate))


def hard_swish(batch: int, side: int, channels: int) -> Case:
    """An activation of MobileNet V3."""
    shape = [batch, side, side, channels]
    what = f'{batch}x{side}x{side}x{channels}'
    return Case('hard_swish', what, functools.partial(_build_hard_swish, shape))


def cases() -> List[Case]:
    """The sizes of the networks that have such layers."""
    return [
        atrous(2, 33, 256, 256, 2),
        atrous(2, 33, 512, 512, 4),
        atrous(2, 33, 1024, 256, 6),
        atrous(2, 33, 1024, 256, 12),
        atrous(1, 33, 2048, 256, 18),
        hard_swish(8, 56, 240),
        hard_swish(8, 20, 480),
        hard_swish(8, 10, 960),
    ]


def _held(shape: Sequence[int], seed: int) -> Any:
    """Random numbers in a variable, so that nothing about them is computed beforehand."""
    import tensorflow as tf

    values = tf.random.stateless_uniform(shape, [seed, 1], -4.0, 4.0)
    return tf.Variable(values, trainable=False).read_value()


def _build_atrous(shape: Sequence[int], outputs: int, rate: int) -> Dict[str, Sequence[Any]]:
    import tensorflow as tf

    from model_fns import layers

    tf1 = tf.compat.v1
    image, upstream = _held(shape, 1), _held([*shape[:3], outputs], 2)
    style = layers.LayerStyle(is_training=True, activation=None)
    ours = layers.conv2d(image, outputs, 3, style, 'layer', rate=rate, use_bias=False)
    (weights,) = tf1.trainable_variables()
    forms = {
        OURS: ours,
        'tf.nn.convolution': tf.nn.convolution(image, weights, padding='SAME', dilations=rate),
        'tf.nn.conv2d': tf.nn.conv2d(image, weights, 1, 'SAME', dilations=rate),
    }
    return {
        name: [computed, *tf.gradients(computed, [image, weights], upstream)]
        for name, computed in forms.items()
    }


def _build_hard_swish(shape: Sequence[int]) -> Dict[str, Sequence[Any]]:
    import tensorflow as tf

    from model_fns import layers

    image, upstream = _held(shape, 1), _held(shape, 2)
    forms = {OURS: layers.hard_swish, 'gate_kept': _gate_kept, 'recomputed': _recomputed}
    computed = {name: form(image) for name, form in forms.items()}
    return {
        name: [outputs, *tf.gradients(outputs, image, upstream)]
        for name, outputs in computed.items()
    }


def _gate(inputs: Any) -> Any:
    import tensorflow as tf

    return tf.nn.relu6(inputs + 3.0)


def _slope(inputs: Any, gate: Any) -> Any:
    """The derivative of x relu6(x + 3) / 6: the gate, and x where the gate is open in part."""
    import tensorflow as tf

    return (gate + tf.raw_ops.Relu6Grad(gradients=inputs, features=gate)) * (1.0 / 6.0)


def _gate_kept(inputs: Any) -> Any:
    """Hard swish with one gradient, for which the gate is held."""
    import tensorflow as tf

    @tf.custom_gradient
    def compute(values: Any) -> Tuple[Any, Callable[[Any], Any]]:
        gate = _gate(values)
        return values * gate * (1.0 / 6.0), lambda upstream: upstream * _slope(values, gate)

    return compute(inputs)


def _recomputed(inputs: Any) -> Any:
    """Hard swish with one gradient, which holds nothing but the inputs."""
    import tensorflow as tf

    @tf.custom_gradient
    def compute(values: Any) -> Tuple[Any, Callable[[Any], Any]]:
        outputs = values * _gate(values) * (1.0 / 6.0)

        def gradient(upstream: Any) -> Any:
            # Behind the outputs, else the optimizer of graphs finds the gate that is there.
            with tf.control_dependencies([outputs]):
                again = tf.identity(values)
            return upstream * _slope(again, _gate(again))

        return outputs, gradient

    return compute(inputs)


def measure(case: Case, turns: int, runs: int = 2, threads: int = 0) -> Dict[str, Any]:
    """The least milliseconds of the forms of a case, and by how much their numbers differ.

    Args:
        case: what is computed.
        turns: how often each form is measured.
        runs: of a form in each turn.
        threads: see `measuring.on_threads`.

    Returns:
        `cpu_ms` by the form, without those that this processor has no kernels for, and
        `largest_difference` of any form from ours, as a share of the largest number.
    """
    import tensorflow as tf

    from estimator_lib import training

    least: Dict[str, float] = {}
    difference = 0.0
    with tf.Graph().as_default():
        forms = case.build()
        session_config = measuring.on_threads(training.create_session_config(), threads)
        with tf.compat.v1.Session(config=session_config) as session:
            measuring.initialize(session)
            expected = session.run(forms[OURS])
            for name, outputs in forms.items():
                try:
                    found = session.run(outputs)
                except (tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
                    continue
                least[name] = float('inf')
                difference = max(difference, *map(_difference, found, expected))
            # Operations, not their outputs: no number is copied out of the session.
            targets = {name: [output.op for output in forms[name]] for name in least}
            for _ in range(turns):
                for name, target in targets.items():
                    took = measuring.seconds_per_run(session, target, runs).cpu
                    least[name] = min(least[name], 1000 * took)
    return {
        'kind': case.kind,
        'what': case.what,
        'cpu_ms': least,
        'largest_difference': difference,
    }


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def line(result: Mapping[str, Any]) -> str:
    """A line of the table: milliseconds of each form, and of each other one as a multiple."""
    ours = result['cpu_ms'][OURS]
    forms = (
        f'{name} {took:7.1f}' + ('' if name == OURS else f' ({took / ours:.2f})')
        for name, took in result['cpu_ms'].items()
    )
    name = f'{result["kind"]} {result["what"]}'
    return f'{name:42s} {"  ".join(forms)}  differ by {result["largest_difference"]:.0e}'


def main() -> None:
    """The command."""
    kinds = sorted({case.kind for case in cases()})
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--turns', type=int, default=4, help='how often each form is measured')
    parser.add_argument('--threads', type=int, default=0, help='of an op; 0: all cores')
    parser.add_argument('--kinds', default=','.join(kinds), help='by commas')
    parser.add_argument('--output', default='benchmark_kernels.json', help='where the JSON goes')
    arguments = parser.parse_args()
    chosen = arguments.kinds.split(',')
    unknown = sorted(set(chosen) - set(kinds))
    if unknown:
        parser.error(f'--kinds: {", ".join(unknown)}; expected some of {", ".join(kinds)}')
    measuring.quiet()
    results = []
    for case in cases():
        if case.kind in chosen:
            results.append(measure(case, arguments.turns, threads=arguments.threads))
            print('CPU ms: ' + line(results[-1]), flush=True)
    with open(arguments.output, 'w') as file:
        json.dump(results, file, indent=2)
    unequal = [one['what'] for one in results if one['largest_difference'] > MOST_DIFFERENCE]
    if unequal:
        raise SystemExit(f'forms differ by more than {MOST_DIFFERENCE}: {"; ".join(unequal)}')


if __name__ == '__main__':
    main()
