"""Measurement of every backbone in float32 and with `use_bfloat16`, training and inference.

    python -m benchmarks.experiments.bfloat16 [--networks=resnet_v1_50,mobilenet_v2]
        [--size=224] [--turns=5]
    python -m benchmarks.experiments.bfloat16 --networks=resnet_v1_50 --trace

Training is the forward and backward pass with the updates of batch norm, on a constant input and
without an optimizer; inference is the forward pass, here with the rewrite of training, which
evaluation does without: the column shows why. Both types are measured alternately in one process, a
process for each network; a network that is in the output file already, measured the same way, is
not measured again. What counts is the least CPU time of all threads: other programs on the machine
lengthen steps and never shorten them. A network that stays float32 (see `mixed_precision.balance`)
is the same graph on both sides: what differs there is noise. `--trace` prints what kinds of ops
take the time, and the costliest ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from benchmarks import measuring, op_times

DTYPES = ('float32', 'bfloat16')
PASSES = ('training', 'inference')
NUM_CLASSES = 1000
MOST = 1.02  # of float32's time, that `use_bfloat16` may take


class How(NamedTuple):
    """Measurement of networks: sizes, batches and turns.

    Attributes:
        size: height and width of images; 0: as published, at most 224.
        batch_size: images of a step.
        steps: of a turn.
        turns: of each type.
    """

    size: int
    batch_size: int
    steps: int
    turns: int


class Side(NamedTuple):
    """A network that is ready to run.

    Attributes:
        session: of `tf.compat.v1`.
        fetches: what a step computes.
        gains: whether the rewrite computes in bfloat16 at all, see `mixed_precision.balance`.
    """

    session: Any
    fetches: Any
    gains: bool


def measure(name: str, how: How) -> Dict[str, Any]:
    """Measure seconds of a step in both types, their ratios, and the type of training."""
    results: Dict[str, Any] = {'how': how._asdict()}
    for one_pass in PASSES:
        seconds: Dict[str, List[measuring.Clocks]] = {dtype: [] for dtype in DTYPES}
        sides = {dtype: _session(name, how, one_pass, dtype) for dtype in DTYPES}
        for _ in range(how.turns):
            for dtype, (session, fetches, _) in sides.items():
                seconds[dtype].append(measuring.seconds_per_run(session, fetches, how.steps))
        results[one_pass] = _least_of_turns(seconds)
        for side in sides.values():
            side.session.close()
        results.setdefault('trains_in', DTYPES[sides['bfloat16'].gains])
    return results


def _least_of_turns(seconds: Mapping[str, Sequence[measuring.Clocks]]) -> Dict[str, float]:
    result = {}
    for clock in measuring.Clocks._fields:
        least = {
            dtype: min(getattr(one, clock) for one in found) for dtype, found in seconds.items()
        }
        for dtype, value in least.items():
            result[f'{dtype}_{clock}_seconds'] = value
        result[f'{clock}_ratio'] = least['bfloat16'] / least['float32']
    return result


def _session(name: str, how: How, one_pass: str, dtype: str) -> Side:
    """Return the session of a network, which has run a few steps."""
    import tensorflow as tf

    from estimator_lib import training

    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        tf1.set_random_seed(1)
        tf1.train.create_global_step()
        fetches, gains = _build(name, how, one_pass == 'training', dtype == 'bfloat16')
        session = tf1.Session(config=training.create_session_config(dtype == 'bfloat16'))
        measuring.initialize(session)
    for _ in range(2):
        session.run(fetches)
    return Side(session, fetches, gains)


def _build(name: str, how: How, is_training: bool, use_bfloat16: bool) -> Tuple[Any, bool]:
    """Return the fetches of a step, and whether the network gains in bfloat16."""
    import tensorflow as tf

    from estimator_lib.distribution import mixed_precision
    from model_fns.backbones import registry

    tf1 = tf.compat.v1
    network = registry.get_network(name, task='detection')
    options = registry.Options()
    style = options.apply_arithmetic(network.style(is_training, options))
    side = how.size or min(224, network.image_size)
    shape = [how.batch_size, side, side, network.image_channels]
    images = tf.random.stateless_uniform(shape, [1, 2], -1.0, 1.0)
    images = tf1.get_variable('images', initializer=images, trainable=False).read_value()
    if network.build is None:
        end_points = network.features(images, style, options)
        outputs = [end_points[network.feature_maps[max(network.feature_maps)]]]
    else:
        end_points = network.build(images, NUM_CLASSES, style, options)
        heads = (registry.LOGITS, registry.AUXILIARY_LOGITS)
        outputs = [end_points[head] for head in heads if head in end_points]
    outputs = [tf.cast(output, tf.float32) for output in outputs]
    # By the forward pass, as when training is built.
    mixed_precision.choose(tf1.get_default_graph())
    mixed_precision.apply(tf1.get_default_graph())
    gains = mixed_precision.balance(tf1.get_default_graph()).gains
    if not is_training:
        return [tf.reduce_sum(output) for output in outputs], gains
    loss = tf.add_n([tf.nn.l2_loss(one) for one in outputs])
    return measuring.forward_and_backward(loss), gains


def print_trace(name: str, how: How, one_pass: str, count: int = 25) -> None:
    """Print the kinds of ops of a step in both types, and the costliest ops of each."""
    kinds, ops = {}, {}
    for dtype in DTYPES:
        session, fetches, _ = _session(name, how, one_pass, dtype)
        ops[dtype] = op_times.trace(session, fetches, how.steps)
        kinds[dtype] = op_times.sum_kinds(ops[dtype])
        session.close()
    named = sorted(
        {kind for found in kinds.values() for kind in found},
        key=lambda kind: -max(found.get(kind, (0.0, 0))[0] for found in kinds.values()),
    )
    print(f'{name}, {one_pass}: ms (number of ops)\n{"kind":48s}', *(f'{x:>17s}' for x in DTYPES))
    for kind in named[:count]:
        sides = (kinds[dtype].get(kind, (0.0, 0)) for dtype in DTYPES)
        print(f'{kind:48s}', *(f'{took:10.1f} ({number:4d})' for took, number in sides))
    for dtype in DTYPES:
        print(f'\nthe costliest ops, {dtype}: ms')
        for op, took in op_times.costliest(ops[dtype]):
            print(f'{took:8.1f}  {op.kind:40s} {op.name}')


def missing(names: Sequence[str], how: How, results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the networks that have not been measured this way."""
    for name in names:
        found = results.get(name, {})
        if found.get('how') != how._asdict() or 'trains_in' not in found:
            yield name


def line(name: str, result: Mapping[str, Any]) -> str:
    """Return a line of the table: CPU and wall seconds of both types, the ratio, of both passes."""
    parts = [f'{name:28s}']
    for one_pass in PASSES:
        found = result[one_pass]
        for clock in ('cpu', 'wall'):
            sides = '/'.join(f'{found[f"{dtype}_{clock}_seconds"]:6.3f}' for dtype in DTYPES)
            parts.append(f'{sides} {found[f"{clock}_ratio"]:5.2f}')
    if result['trains_in'] == 'float32':
        parts.append('stays float32')
    return '  '.join(parts)


def _measure_apart(name: str, arguments: argparse.Namespace) -> Dict[str, Any]:
    """Run `measure` in a process of its own, whose memory is freed at its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'result.json')
        command = [
            sys.executable,
            '-m',
            'benchmarks.experiments.bfloat16',
            '--here',
            f'--output={path}',
        ]
        command += [f'--{field}={getattr(arguments, field)}' for field in How._fields]
        subprocess.run([*command, f'--networks={name}'], check=True, stdout=sys.stderr)
        with open(path) as file:
            return json.load(file)[name]


def _write(results: Mapping[str, Any], path: str) -> None:
    with open(f'{path}.tmp', 'w') as file:
        json.dump(results, file, indent=2)
    os.replace(f'{path}.tmp', path)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--networks', default='', help='by commas; left out: all')
    parser.add_argument('--size', type=int, default=0, help='of images; 0: as published, to 224')
    parser.add_argument('--batch_size', type=int, default=8, help='images of a step')
    parser.add_argument('--steps', type=int, default=1, help='timed steps of each turn')
    parser.add_argument('--turns', type=int, default=5, help='how often each type is measured')
    parser.add_argument('--output', default='benchmark_bfloat16.json', help='where the JSON goes')
    parser.add_argument('--trace', action='store_true', help='print what takes the time instead')
    parser.add_argument('--here', action='store_true', help='measure in this process')
    arguments = parser.parse_args()
    measuring.quiet()
    how = How(*(getattr(arguments, field) for field in How._fields))
    names = [name for name in arguments.networks.split(',') if name] or _all_networks()
    if arguments.trace:
        for name in names:
            for one_pass in PASSES:
                print_trace(name, how, one_pass)
        return
    results: Dict[str, Any] = {}
    if os.path.exists(arguments.output):
        with open(arguments.output) as file:
            results = json.load(file)
    print(f'{"network":28s}  training: CPU s, wall s (float32/bfloat16 ratio); inference')
    for name in missing(names, how, dict(results)):
        if arguments.here:
            results[name] = measure(name, how)
        else:
            try:
                results[name] = _measure_apart(name, arguments)
            except subprocess.CalledProcessError:
                print(f'{name:28s}  could not be run this way')
                continue
        _write(results, arguments.output)
    slower = []
    names = [name for name in names if name in results]
    for name in names:
        print(line(name, results[name]))
        # What stays float32 is one graph measured twice.
        in_both = results[name]['trains_in'] == 'bfloat16'
        if in_both and results[name]['training']['cpu_ratio'] > MOST:
            slower.append(name)
    print(f'slower to train in bfloat16 by more than 2 %: {", ".join(slower) or "none"}')


def _all_networks() -> Sequence[str]:
    from model_fns.backbones import registry

    return registry.network_names('detection')


if __name__ == '__main__':
    main()
