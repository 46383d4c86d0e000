"""Takes a training step of every published detection config.

    python -m benchmarks.published [NAME ...] [--memory=14] [--output=benchmark_published.json]

Each config of ../shared/configs runs in a process of its own with bounded memory: it is read, its
paths are replaced by the embedded demo's records, and one step is taken as training takes it, with
its augmentations, targets, losses, gradients and optimizer, at the published input size. Models of
kinds that are not available must be refused in a sentence that names the kind. Prints a line a
config, and ends with status 1 when one has failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import resource
import subprocess
import sys
import time
from typing import Any, List, Optional, Sequence

from benchmarks import measuring, pipelines

TRAINED, REFUSED, FAILED = 'trained', 'refused', 'FAILED'

# Inputs of at most so many pixels are taken in twos.
_SMALL = 320 * 320
_MOST_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a config.

    Attributes:
        name: of the config.
        status: `TRAINED`, `REFUSED` or `FAILED`.
        seconds: from the start of the process to its end.
        variables: of the network, without the optimizer's.
        loss: in total.
        peak_memory_mib: of the process.
        message: why it was refused, or has failed.
    """

    name: str
    status: str
    seconds: float = 0.0
    variables: int = 0
    loss: Optional[float] = None
    peak_memory_mib: float = 0.0
    message: str = ''

    def __str__(self) -> str:
        line = f'{self.status:8s} {self.name[:76]:76s} {self.seconds:6.1f} s'
        if self.status == REFUSED:
            return f'{line}  {self.message}'
        if self.status == FAILED:
            return f'{line}\n    {self.message}'
        return (
            f'{line} {self.variables:5d} variables  loss {self.loss:<9.4g} '
            f'{self.peak_memory_mib:6.0f} MiB'
        )


def unavailable_kind(config: Any) -> str:
    """What a refusal has to name, where a model is of a kind that is not available; else ''.

    Args:
        config: `TrainEvalPipelineConfig`.
    """
    kind = config.model.WhichOneof('model')
    if kind == 'ssd':
        return 'EfficientDet' if config.model.ssd.feature_extractor.HasField('bifpn') else ''
    if kind != 'faster_rcnn':
        return f'model.{kind}'
    model = config.model.faster_rcnn
    unavailable = {
        'number_of_stages': model.number_of_stages == 3,
    }
    return next((name for name, is_asked_for in unavailable.items() if is_asked_for), '')


def run_here(path: str) -> Outcome:
    """Takes the step in this process."""
    from google.protobuf import text_format

    from estimator_lib import errors
    from protos import pipeline_pb2

    name = pathlib.Path(path).stem
    text = pathlib.Path(path).read_text()
    kind = unavailable_kind(text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()))
    try:
        outcome = _train(name, path)
    except errors.UserError as error:
        return Outcome(name, REFUSED if kind and kind in str(error) else FAILED, message=str(error))
    if kind:
        return Outcome(name, FAILED, message=f'{kind} was to be refused, and a step was taken')
    return outcome


def _train(name: str, path: str) -> Outcome:
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from model_fns import build_task

    tf1 = tf.compat.v1
    config = config_lib.load_pipeline_config(path)
    pipelines.on_the_demo(config)
    pipelines.on_one_machine(config)
    resizer = getattr(config.model, config.model.WhichOneof('model')).image_resizer
    side = resizer.fixed_shape_resizer.height or resizer.keep_aspect_ratio_resizer.max_dimension
    config.train_config.batch_size = 2 if side * side <= _SMALL else 1
    with measuring.training_session(build_task(config), config) as (session, spec):
        sound = [tf.reduce_all(tf.math.is_finite(one)) for one in tf1.trainable_variables()]
        loss, _ = session.run([spec.loss, spec.train_op])
        is_sound, steps = session.run([tf.reduce_all(tf.stack(sound)), tf1.train.get_global_step()])
        variables = len(tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES))
    message = ''
    if not math.isfinite(loss):
        message = f'the loss is {loss}'
    elif not is_sound:
        message = 'the step has left weights that are not finite'
    elif steps != 1:
        message = f'{steps} steps were taken, not 1'
    return Outcome(
        name,
        FAILED if message else TRAINED,
        variables=variables,
        loss=float(loss),
        peak_memory_mib=measuring.peak_memory_mib(),
        message=message,
    )


def run_apart(path: str, memory_gib: float) -> Outcome:
    """Takes the step in a process of its own.

    Args:
        path: of the config.
        memory_gib: that the process may allocate.
    """
    started = time.monotonic()
    command = [sys.executable, '-m', 'benchmarks.published', f'--one={path}']
    command.append(f'--memory={memory_gib}')
    try:
        process = subprocess.run(
            command, cwd=measuring.ROOT, capture_output=True, text=True, timeout=_MOST_SECONDS
        )
        *_, last = process.stdout.splitlines() or ['']
        if process.returncode == 0:
            outcome = Outcome(**json.loads(last))
        else:
            *_, error = process.stderr.strip().splitlines() or ['']
            outcome = Outcome(
                pathlib.Path(path).stem, FAILED, message=f'status {process.returncode}: {error}'
            )
    except subprocess.TimeoutExpired:
        outcome = Outcome(
            pathlib.Path(path).stem, FAILED, message=f'not done after {_MOST_SECONDS} s'
        )
    return dataclasses.replace(outcome, seconds=time.monotonic() - started)


def published_paths(names: Sequence[str]) -> List[str]:
    """The configs of those names, or all; those of both generations of the system."""
    found = {path.stem: str(path) for path in pathlib.Path(pipelines.PUBLISHED).glob('*/*.config')}
    unknown = [name for name in names if name not in found]
    if unknown or not found:
        raise SystemExit(f'{pipelines.PUBLISHED} has no config {", ".join(unknown)}'.rstrip())
    return [found[name] for name in names or sorted(found)]


def _limit_memory(gib: float) -> None:
    most = int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('names', nargs='*', help='of configs; left out: all')
    parser.add_argument('--memory', type=float, default=14, help='GiB that a process may allocate')
    parser.add_argument('--output', default='benchmark_published.json', help='where the JSON goes')
    parser.add_argument('--one', help='take the step of this file in this process')
    arguments = parser.parse_args()
    measuring.quiet()
    if arguments.one:
        _limit_memory(arguments.memory)
        print(json.dumps(dataclasses.asdict(run_here(arguments.one))))
        return
    outcomes = []
    for path in published_paths(arguments.names):
        outcomes.append(run_apart(path, arguments.memory))
        print(outcomes[-1], flush=True)
    statuses = [outcome.status for outcome in outcomes]
    print(', '.join(f'{statuses.count(one)} {one}' for one in (TRAINED, REFUSED, FAILED)))
    with open(arguments.output, 'w') as file:
        json.dump([dataclasses.asdict(outcome) for outcome in outcomes], file, indent=2)
    sys.exit(int(FAILED in statuses))


if __name__ == '__main__':
    main()
