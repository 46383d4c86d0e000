"""Trains in float32 and in bfloat16 from the same seed, and compares the losses.

    python -m benchmarks.loss_curves [--steps=200] [--window=20] [--architectures=detector]

A small single-shot detector on MobileNet V1, a ResNet classifier and DeepLab on MobileNet V2, on
the embedded demo's pictures; both runs see the same examples in the same order. Losses are averaged
over windows of steps. How much a difference means, two more runs in float32 with other seeds say:
what they differ from the first by is what chance alone does. Whether the processor computes in
bfloat16 by itself (`avx512_bf16`) makes a difference in time, not in what is compared.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Callable, Dict, List, Mapping

import numpy as np

from benchmarks import measuring, pipelines

_SIZE = 64
_BATCH_SIZE = 8


def _parsed(text: str) -> Any:
    from google.protobuf import text_format

    from protos import pipeline_pb2

    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


def small_detector() -> Any:
    """The demo's pipeline config with inputs of a quarter of its pixels."""
    from model_fns.datasets import demo

    config = _parsed(demo.demo_pipeline_text('detection'))
    resizer = config.model.ssd.image_resizer.fixed_shape_resizer
    resizer.height = resizer.width = _SIZE
    return config


def small_classifier() -> Any:
    """The demo's classifier on a residual network."""
    from model_fns.datasets import demo

    config = _parsed(demo.demo_pipeline_text('classification'))
    backbone = config.model.classification.backbone
    backbone.Clear()
    backbone.name = 'resnet_v1_18'
    backbone.batch_norm_decay = 0.97
    return config


def small_segmenter() -> Any:
    """The demo's masks at a quarter of their pixels."""
    from model_fns import builtin_configs
    from model_fns.datasets import demo

    config = _parsed(builtin_configs.builtin_configs()['demo_masks'].read_text())
    model = config.model.segmentation
    model.crop_height = model.crop_width = _SIZE + 1
    dataset = demo.demo_dataset()
    pipelines.read_by(config, dataset.pattern('scenes', 'train'), dataset.label_map)
    return config


ARCHITECTURES: Mapping[str, Callable[[], Any]] = {
    'detector': small_detector,
    'classifier': small_classifier,
    'segmenter': small_segmenter,
}


def losses(config: Any, use_bfloat16: bool, steps: int, seed: int) -> List[float]:
    """The total loss of each step of a training run."""
    from model_fns import build_task

    config.train_config.batch_size = _BATCH_SIZE
    config.train_config.random_seed = seed
    config.train_config.use_bfloat16 = use_bfloat16
    with measuring.training_session(build_task(config), config) as (session, spec):
        return [float(session.run([spec.loss, spec.train_op])[0]) for _ in range(steps)]


def smoothed(curve: List[float], window: int) -> np.ndarray:
    """Means over windows of steps; what is left over at the end is left out."""
    whole = len(curve) // window
    return np.reshape(curve[: whole * window], [whole, window]).mean(axis=1)


def difference(curve: np.ndarray, other: np.ndarray) -> float:
    """The mean difference of two curves over the windows, as a share of the second."""
    return float(np.mean(np.abs(curve - other) / other))


def compare(architecture: str, steps: int, window: int, seed: int) -> Dict[str, Any]:
    """All smoothed curves of an architecture, and by how much they differ from float32's."""
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
    print(f'{architecture}\nsteps    ', *(f'{name:>10s}' for name in curves))
    for index in range(len(curves['float32'])):
        row = ' '.join(f'{curve[index]:10.4f}' for curve in curves.values())
        print(f'{index * window + 1:4d}-{(index + 1) * window:<4d} {row}')
    of_seeds = [
        difference(curves[name], curves['float32']) for name in ('other_seed', 'third_seed')
    ]
    return {
        **{name: curve.tolist() for name, curve in curves.items()},
        'difference_of_bfloat16': difference(curves['bfloat16'], curves['float32']),
        'difference_of_seeds': float(np.mean(of_seeds)),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--window', type=int, default=20, help='steps that are averaged')
    parser.add_argument('--seed', type=int, default=1, help='the others are the next two')
    parser.add_argument('--architectures', default=','.join(ARCHITECTURES), help='by commas')
    parser.add_argument('--output', default='benchmark_losses.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    results = {}
    for name in arguments.architectures.split(','):
        found = compare(name, arguments.steps, arguments.window, arguments.seed)
        results[name] = found
        print(
            'mean difference from float32: '
            f'bfloat16 {100 * found["difference_of_bfloat16"]:.1f} %, '
            f'other seeds {100 * found["difference_of_seeds"]:.1f} %\n'
        )
        with open(arguments.output, 'w') as file:
            json.dump(results, file, indent=2)


if __name__ == '__main__':
    main()
