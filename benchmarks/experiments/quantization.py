"""Measurement of quantization-aware training: a step with it against a float step.

    python -m benchmarks.experiments.quantization [--networks mobilenet_v1 mobilenet_v2] \
        [--size=224] [--batch_size=8] [--steps=8] [--delay=0]

Each network is trained on random images twice, in two sessions whose steps alternate, so that what
else the machine does falls on both; the figures are the least time of a step, by the clock and of
all threads of this process, and their ratio. The seconds to build the graph are those until the
first step.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Dict, List, Optional

from benchmarks import measuring

_CLASSES = 100


class Training:
    """A classifier's training graph in a session of its own.

    Args:
        network: its name in the registry.
        size: of the images, in pixels.
        batch_size: of a step.
        quantization: see `layers.LayerStyle.quantization`.
    """

    def __init__(self, network: str, size: int, batch_size: int, quantization: Optional[Any]):
        import tensorflow as tf

        from model_fns.backbones import registry

        tf1 = tf.compat.v1
        started = time.perf_counter()
        described = registry.get_network(network)
        options = registry.Options(quantization=quantization)
        with tf.Graph().as_default() as graph:
            step = tf1.train.create_global_step()
            images = tf.Variable(tf.random.uniform([batch_size, size, size, 3], -1.0, 1.0))
            labels = tf.one_hot(tf.range(batch_size), _CLASSES)
            style = options.apply_arithmetic(described.style(True, options))
            ends = described.build(tf.convert_to_tensor(images), _CLASSES, style, options)
            logits = ends[registry.LOGITS]
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))
            losses = [loss, *tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)]
            with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
                optimizer = tf1.train.MomentumOptimizer(1e-3, 0.9)
                trained = [one for one in tf1.trainable_variables() if one is not images]
                self._train = optimizer.minimize(tf.add_n(losses), step, trained)
            self._session = tf1.Session(graph=graph)
            self._session.run(tf1.global_variables_initializer())
            self.ops = len(graph.get_operations())
        self.step()
        self.build_seconds = time.perf_counter() - started

    def step(self) -> measuring.Clocks:
        """Make a step; return its times."""
        before = measuring.clocks()
        self._session.run(self._train)
        after = measuring.clocks()
        return measuring.Clocks(after.wall - before.wall, after.cpu - before.cpu)


def compare(network: str, size: int, batch_size: int, steps: int, delay: int) -> Dict[str, Any]:
    """Measure the float and the quantized training of one network."""
    from model_fns import layers

    kinds = {
        'float': Training(network, size, batch_size, None),
        'quantized': Training(network, size, batch_size, layers.Quantization(delay=delay)),
    }
    times: Dict[str, List[measuring.Clocks]] = {kind: [] for kind in kinds}
    for index in range(steps + 1):
        for kind, training in kinds.items():
            taken = training.step()
            if index:
                times[kind].append(taken)
    row: Dict[str, Any] = {'network': network}
    for kind, found in times.items():
        row[f'{kind}_ms'] = 1e3 * min(one.wall for one in found)
        row[f'{kind}_cpu_ms'] = 1e3 * min(one.cpu for one in found)
        row[f'{kind}_ops'] = kinds[kind].ops
        row[f'{kind}_build_s'] = kinds[kind].build_seconds
    row['ratio'] = row['quantized_ms'] / row['float_ms']
    row['cpu_ratio'] = row['quantized_cpu_ms'] / row['float_cpu_ms']
    return row


def main() -> None:
    """Print a table, and the same as JSON where a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--networks', nargs='+', default=['mobilenet_v1', 'mobilenet_v2'])
    parser.add_argument('--size', type=int, default=224, help='of the images, in pixels')
    parser.add_argument('--batch_size', type=int, default=8)
    parser.add_argument('--steps', type=int, default=8, help='that are timed, of each kind')
    parser.add_argument('--delay', type=int, default=0, help='of the quantization')
    parser.add_argument('--output', help='a JSON file')
    arguments = parser.parse_args()
    measuring.quiet()
    rows = []
    for network in arguments.networks:
        row = compare(
            network, arguments.size, arguments.batch_size, arguments.steps, arguments.delay
        )
        rows.append(row)
        print(
            f'{network:16s} step {row["float_ms"]:.0f} ms float, {row["quantized_ms"]:.0f} ms '
            f'quantized: {row["ratio"]:.2f} times (of all threads {row["cpu_ratio"]:.2f} times); '
            f'graph {row["float_ops"]} and {row["quantized_ops"]} ops, first step after '
            f'{row["float_build_s"]:.1f} and {row["quantized_build_s"]:.1f} s'
        )
    if arguments.output:
        with open(arguments.output, 'w') as file:
            json.dump(rows, file, indent=2)


if __name__ == '__main__':
    main()
