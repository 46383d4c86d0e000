"""Comparison of the losses of training in float32 and in bfloat16 from the same seed.

    python -m benchmarks.accuracy.loss_curves [--steps=200] [--window=20] [--architectures=detector]

A small single-shot detector on MobileNet V1, a classifier on ResNet-50 and DeepLab on MobileNet V2,
on the embedded demo's pictures; both runs see the same examples in the same order. Losses are
averaged over windows of steps. A difference is relative to float32's loss of the same window; the
largest of all windows and the mean are reported. Two more runs in float32 with other seeds show the
random differences. Native bfloat16 in the processor (`avx512_bf16`) changes the time, not the
losses.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple

import numpy as np

from benchmarks import measuring, pipelines

_SIZE = 64
_BATCH_SIZE = 8


def _parsed(text: str) -> Any:
    from google.protobuf import text_format

    from protos import pipeline_pb2

    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


def small_detector() -> Any:
    """Return the demo's pipeline config with inputs of a quarter of its pixels."""
    from model_fns.datasets import demo

    config = _parsed(demo.demo_pipeline_text('detection'))
    resizer = config.model.ssd.image_resizer.fixed_shape_resizer
    resizer.height = resizer.width = _SIZE
    return config


def small_classifier() -> Any:
    """Return the demo's classifier on ResNet-50."""
    from model_fns.datasets import demo

    config = _parsed(demo.demo_pipeline_text('classification'))
    # With the demo's rate and batches of 8 the losses of a ResNet rise, and curves that diverge say
    # nothing of precision.
    momentum = config.train_config.optimizer.momentum_optimizer
    momentum.learning_rate.constant_learning_rate.learning_rate = 0.0001
    model = config.model.classification
    model.ClearField('dropout_keep_prob')  # ResNets have none
    backbone = model.backbone
    backbone.Clear()
    backbone.name = 'resnet_v1_50'
    backbone.batch_norm_decay = 0.97
    return config


def small_segmenter() -> Any:
    """Return the demo's masks at a quarter of their pixels."""
    from model_fns.cli import builtin_configs
    from model_fns.datasets import demo

    config = _parsed(builtin_configs.builtin_configs()['demo_masks'].read_text())
    model = config.model.segmentation
    model.crop_height = model.crop_width = _SIZE + 1
    dataset = demo.demo_dataset()
    pipelines.read_records(config, dataset.pattern('scenes', 'train'), dataset.label_map)
    return config


ARCHITECTURES: Mapping[str, Callable[[], Any]] = {
    'detector': small_detector,
    'classifier': small_classifier,
    'segmenter': small_segmenter,
}


def losses(config: Any, use_bfloat16: bool, steps: int, seed: int) -> List[float]:
    """Return the total loss of each step of a training run."""
    from model_fns import build_task

    config.train_config.batch_size = _BATCH_SIZE
    config.train_config.random_seed = seed
    config.train_config.use_bfloat16 = use_bfloat16
    with measuring.training_session(build_task(config), config) as (session, spec):
        return [float(session.run([spec.loss, spec.train_op])[0]) for _ in range(steps)]


def smoothed(curve: List[float], window: int) -> np.ndarray:
    """Average over windows of steps; an incomplete last window is dropped."""
    whole = len(curve) // window
    return np.reshape(curve[: whole * window], [whole, window]).mean(axis=1)


class Difference(NamedTuple):
    """Relative differences of a smoothed curve from another."""

    largest: float
    mean: float


def difference(curve: np.ndarray, other: np.ndarray) -> Difference:
    """Return the largest and the mean difference of two curves over the windows."""
    shares = np.abs(curve - other) / other
    return Difference(float(shares.max()), float(shares.mean()))


def compare(architecture: str, steps: int, window: int, seed: int) -> Dict[str, Any]:
    """Return all smoothed curves of an architecture, and how far each is from float32's.

    Returns:
        `curves` by the name of the run, and `differences` from that of `float32`, by name too.
    """
    runs = {
        'float32': (False, seed),
        'bfloat16': (True, seed),
        'other_seed': (False, seed + 1),
        'third_seed': (False, seed + 2),
    }
    curves = {
        name: smoothed(losses(ARCHITECTURES[architecture](), use_bfloat16, steps, run_seed), window)
        for name, (use_bfloat16, run_seed) in runs.items()
    }
    differences = {
        name: difference(curve, curves['float32'])._asdict()
        for name, curve in curves.items()
        if name != 'float32'
    }
    in_lists = {name: curve.tolist() for name, curve in curves.items()}
    return {'window': window, 'curves': in_lists, 'differences': differences}


def lines(name: str, found: Mapping[str, Any]) -> List[str]:
    """Return the results of `compare` as a table."""
    curves, window = found['curves'], found['window']
    rows = [f'{name}\n{"steps":10s}' + ' '.join(f'{run:>10s}' for run in curves)]
    for index, values in enumerate(zip(*curves.values())):
        steps = f'{index * window + 1}-{(index + 1) * window}'
        rows.append(f'{steps:10s}' + ' '.join(f'{value:10.4f}' for value in values))
    for kind in Difference._fields:
        shares = (f'{run} {100 * one[kind]:.1f} %' for run, one in found['differences'].items())
        rows.append(f'{kind} difference from float32: {", ".join(shares)}')
    return rows


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--window', type=int, default=20, help='steps that are averaged')
    parser.add_argument('--seed', type=int, default=1, help='the others are the next two')
    parser.add_argument('--architectures', default=','.join(ARCHITECTURES), help='by commas')
    parser.add_argument('--output', default='benchmark_losses.json', help='where the JSON goes')
    arguments = parser.parse_args()
    names = arguments.architectures.split(',')
    unknown = sorted(set(names) - set(ARCHITECTURES))
    if unknown:
        parser.error(
            f'--architectures: {", ".join(unknown)}; expected some of {", ".join(ARCHITECTURES)}'
        )
    if not 0 < arguments.window <= arguments.steps:
        parser.error(f'--window is {arguments.window}; expected 1 to {arguments.steps} steps')
    measuring.quiet()
    results = {}
    for name in names:
        results[name] = compare(name, arguments.steps, arguments.window, arguments.seed)
        print('\n'.join(lines(name, results[name])), end='\n\n', flush=True)
        with open(arguments.output, 'w') as file:
            json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
