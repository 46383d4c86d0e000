"""Trains in float32 and in bfloat16 from the same seed, and compares the losses.

    python -m benchmarks.loss_curves [--steps=200] [--window=20]

A small single-shot detector on the embedded demo's scenes; both runs see the same examples in the
same order. Losses are averaged over windows of steps. Whether the processor computes in bfloat16
by itself (`avx512_bf16`) makes a difference in time, not in what is compared.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Dict, List

import numpy as np

from benchmarks import measuring

_SIZE = 64
_BATCH_SIZE = 8


def small_detector(seed: int) -> Any:
    """The demo's pipeline config with inputs of a quarter of its pixels."""
    from google.protobuf import text_format

    from model_fns.datasets import demo
    from protos import pipeline_pb2

    text = demo.demo_pipeline_text('detection')
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    resizer = config.model.ssd.image_resizer.fixed_shape_resizer
    resizer.height = resizer.width = _SIZE
    config.train_config.batch_size = _BATCH_SIZE
    config.train_config.random_seed = seed
    return config


def losses(config: Any, use_bfloat16: bool, steps: int) -> List[float]:
    """The total loss of each step of a training run."""
    from model_fns import build_task

    config.train_config.use_bfloat16 = use_bfloat16
    with measuring.training_session(build_task(config), config) as (session, spec):
        return [float(session.run([spec.loss, spec.train_op])[0]) for _ in range(steps)]


def smoothed(curve: List[float], window: int) -> np.ndarray:
    """Means over windows of steps; what is left over at the end is left out."""
    whole = len(curve) // window
    return np.reshape(curve[: whole * window], [whole, window]).mean(axis=1)


def compare(steps: int, window: int, seed: int) -> Dict[str, Any]:
    """Both smoothed curves, and the largest of their differences as a share of float32's."""
    config = small_detector(seed)
    curves = {
        name: smoothed(losses(config, use_bfloat16, steps), window)
        for name, use_bfloat16 in (('float32', False), ('bfloat16', True))
    }
    differences = np.abs(curves['bfloat16'] - curves['float32']) / curves['float32']
    print('steps        float32   bfloat16  difference')
    for index, difference in enumerate(differences):
        print(
            f'{index * window + 1:4d}-{(index + 1) * window:<4d} '
            f'{curves["float32"][index]:10.4f} {curves["bfloat16"][index]:10.4f} '
            f'{100 * difference:9.1f} %'
        )
    return {
        **{name: curve.tolist() for name, curve in curves.items()},
        'largest_relative_difference': float(differences.max()),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--window', type=int, default=20, help='steps that are averaged')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default='benchmark_losses.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    results = compare(arguments.steps, arguments.window, arguments.seed)
    print(f'largest difference {100 * results["largest_relative_difference"]:.1f} %')
    with open(arguments.output, 'w') as file:
        json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
