"""Measurement of training steps of networks of later years, beside torchvision and timm.

    python -m benchmarks.training.beside_torch --torch_python=PYTHON
        [--models=convnext_tiny,efficientnetv2_s,resnet_v1_5_50] [--types=float32] [--turns=3]
    python -m benchmarks.training.beside_torch --torch_python=PYTHON
        --models=faster_rcnn_resnet50_fpn

PYTHON is one with `torch`, `torchvision` and `timm`; without it there is nothing to compare, and
the command says so. A step is the forward and the backward pass, the loss and the update by
momentum, on one batch that stays the same: no reading, no augmentation. The batch and the size of
the images are equal on both sides, and so are, of detectors, the proposals and the boxes that the
second stage learns from. Each side runs in a process of its own, alternately, with all cores; the
least of all steps counts, by the clock and of the processor.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from benchmarks import measuring, recipes, steps

DTYPES = steps.DTYPES
# The network of the other side, by recipe; see `torch_side`.
OTHERS = {
    'convnext_tiny': 'torchvision:convnext_tiny',
    'efficientnetv2_s': 'timm:tf_efficientnetv2_s',
    'resnet_v1_5_50': 'torchvision:resnet50',
    'mobilenet_v2': 'torchvision:mobilenet_v2',
    'ssdlite_mobilenet_v3_large': 'detection:ssdlite320_mobilenet_v3_large',
    'retinanet_resnet50': 'detection:retinanet_resnet50_fpn',
    'faster_rcnn_resnet50_fpn': 'detection:fasterrcnn_resnet50_fpn',
    'deeplab_v3_mobilenet_v3_large': 'segmentation:mobilenet_v3_large',
}
DEFAULT_MODELS = ['convnext_tiny', 'efficientnetv2_s', 'resnet_v1_5_50']
_OURS, _THEIRS = 'ours', 'theirs'
_PACKAGES = ('torch', 'torchvision', 'timm')
_HEAD = (
    'model', 'batch', 'type', 'here, s', 'there, s', 'ratio', 'here, cpu s', 'there, cpu s',
    'ratio of cpu',
)  # fmt: skip
_WARM_UP = 2
_RUNS = 4  # of a process


class Row(NamedTuple):
    """Seconds of a step of a model in a type.

    Attributes:
        model: the name of its recipe.
        batch_size: images of a step.
        dtype: one of `DTYPES`.
        here: of this project.
        there: of the other side.
    """

    model: str
    batch_size: int
    dtype: str
    here: measuring.Clocks
    there: measuring.Clocks


def measure_ours(config: Any) -> measuring.Clocks:
    """Return the least seconds of a step in this process, on one batch of the config's reader."""
    import tensorflow as tf

    from estimator_lib import training
    from estimator_lib.data import inputs
    from model_fns import build_task

    tf1 = tf.compat.v1
    task = build_task(config)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        features, labels = training.train_input_fn(task, config)()
        features, _ = inputs.pop_reader_state(features)
        measuring.initialize(session)
        batch = session.run((features, labels))

    def input_fn() -> Any:
        # Of a constant, TensorFlow would compute parts of the network once.
        return tf.nest.map_structure(
            lambda values: tf1.placeholder_with_default(values, values.shape), batch
        )

    with measuring.training_session(task, config, input_fn=input_fn) as (session, spec):
        measuring.seconds_per_run(session, spec.train_op, _WARM_UP)
        runs = [measuring.seconds_per_run(session, spec.train_op, 1) for _ in range(_RUNS)]
        return measuring.least(runs)


def describe(config: Any, other: str) -> Dict[str, Any]:
    """Return the settings of the other side: those of a config.

    Args:
        config: `TrainEvalPipelineConfig`.
        other: one of `OTHERS`.
    """
    found = {'network': other, 'batch_size': config.train_config.batch_size}
    if config.model.HasField('classification'):
        model = config.model.classification
        return {**found, 'size': model.image_height, 'num_classes': model.num_classes}
    if config.model.HasField('segmentation'):
        segmentation = config.model.segmentation
        return {**found, 'size': segmentation.crop_height, 'num_classes': segmentation.num_classes}
    model = getattr(config.model, config.model.WhichOneof('model'))
    found['size'] = model.image_resizer.fixed_shape_resizer.height
    found['num_classes'] = model.num_classes + 1  # the background
    if not config.model.HasField('faster_rcnn'):
        return found
    return {
        **found,
        'proposals': model.first_stage_max_proposals,
        'region_batch': model.first_stage_minibatch_size,
        'box_batch': model.second_stage_batch_size,
    }


def measure(names: List[str], python: str, turns: int, dtypes: Sequence[str] = DTYPES) -> List[Row]:
    """Measure both sides of models.

    Args:
        names: of `OTHERS`.
        python: command of the other side's Python.
        turns: processes of each side.
        dtypes: some of `DTYPES`.
    """

    def measure_side(side: str, path: str) -> List[float]:
        whose, dtype = side.split('/')
        if whose == _OURS:
            arguments = [f'--side={dtype}', f'--config={path}']
            return measuring.run_apart('benchmarks.training.beside_torch', arguments)
        name = os.path.basename(os.path.dirname(path))
        settings = {
            **describe(_load(path), OTHERS[name]),
            'dtype': dtype,
            'warm_up': _WARM_UP,
            'runs': _RUNS,
        }
        arguments = [json.dumps(settings)]
        return measuring.run_apart('benchmarks.training.torch_side', arguments, python=python)

    sides = [f'{whose}/{dtype}' for dtype in dtypes for whose in (_OURS, _THEIRS)]
    rows = []
    for name, path, found in recipes.measure_alternating(names, sides, turns, measure_side):
        batch_size = _load(path).train_config.batch_size
        least = {side: measuring.least(runs) for side, runs in found.items()}
        rows += [
            Row(name, batch_size, dtype, least[f'{_OURS}/{dtype}'], least[f'{_THEIRS}/{dtype}'])
            for dtype in dtypes
        ]
    return rows


def format_row(row: Row) -> List[str]:
    """Return the cells of a row."""
    numbers = [
        f'{value:.2f}'
        for here, there in zip(row.here, row.there)
        for value in (here, there, here / there)
    ]
    return [row.model, str(row.batch_size), row.dtype, *numbers]


def find_lack(python: str) -> str:
    """Return why a Python cannot run the other side; empty if it can."""
    if not python:
        return 'there is no --torch_python'
    command = [python, '-c', f'import {", ".join(_PACKAGES)}']
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return f'{python} cannot be run: {error.strerror}'
    lines = done.stderr.strip().splitlines()
    return f'{python}: {lines[-1] if lines else "it fails"}' if done.returncode else ''


def _load(path: str) -> Any:
    from estimator_lib import config as config_lib

    return config_lib.load_pipeline_config(path)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the benchmark from the command line."""
    parser = measuring.create_parser(__doc__, 'torch')
    parser.add_argument('--torch_python', default='', help=f'a Python with {", ".join(_PACKAGES)}')
    recipes.add_arguments(parser, DEFAULT_MODELS, list(OTHERS))
    types = measuring.names_of(DTYPES)
    parser.add_argument('--types', type=types, default=DTYPES, help='left out: both')
    parser.add_argument('--side', choices=DTYPES, help='our side, in this process')
    parser.add_argument('--config', help='of that side')
    flags = parser.parse_args(arguments)
    measuring.quiet()
    if flags.side:
        config = _load(flags.config)
        config.train_config.use_bfloat16 = flags.side == 'bfloat16'
        print(json.dumps(measure_ours(config)))
        return
    lack = find_lack(flags.torch_python)
    if lack:
        print(f'skipped: {lack}; expected a Python with {", ".join(_PACKAGES)}.')
        return
    rows = measure(flags.models, flags.torch_python, flags.turns, flags.types)
    print(measuring.format_table(_HEAD, [format_row(row) for row in rows]))
    with open(flags.output, 'w') as file:
        json.dump([row._asdict() for row in rows], file, indent=2)


if __name__ == '__main__':
    main()
