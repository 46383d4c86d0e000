"""A training step, an evaluation and an export of every published detection config.

    python -m tests.campaigns.published [NAME ...] [--memory=14] [--step_side=512] \
        [--output=benchmark_published.json]

Each config of ../shared/configs is read in a new process with bounded memory. Each part runs in
another process, as a user's commands would, so that memory of the step does not count for the
export. The config's paths are replaced by the embedded demo's records, with masks, keypoints and
features of other images where its readers load them.

The step is one of training, with augmentations, targets, losses, gradients and optimizer, at the
published input size, or at `--step_side` where that takes more memory than there is. Its checkpoint
is evaluated on one image and exported, and the export predicts one image. Models with
quantization-aware training become int8 files too. Models of kinds that are not available must be
refused in a sentence that names the kind. The command prints a line for each config, and its exit
status is 1 when one has failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import pathlib
import resource
import sys
import tempfile
import time
from typing import Any, List, Optional, Sequence

from benchmarks import measuring, pipelines

_MODULE = 'tests.campaigns.published'
DONE, REFUSED, FAILED = 'done', 'refused', 'FAILED'

# Inputs of at most so many pixels are taken in twos.
_SMALL = 320 * 320
_MOST_SECONDS = 900
_CALIBRATING = 8  # images that the ranges of int8 files are measured on


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a config.

    Attributes:
        name: of the config.
        status: `DONE`, `REFUSED` or `FAILED`.
        seconds: from the start of the first process to the end of the last.
        parts: seconds of the step, the evaluation and the export, from building graphs on.
        variables: of the network, without the optimizer's.
        loss: in total.
        peak_memory_mib: of the process that needed most.
        message: why it was refused, or has failed.
    """

    name: str
    status: str
    seconds: float = 0.0
    variables: int = 0
    loss: Optional[float] = None
    peak_memory_mib: float = 0.0
    message: str = ''
    parts: Sequence[float] = ()

    def __str__(self) -> str:
        line = f'{self.status:8s} {self.name[:76]:76s} {self.seconds:6.1f} s'
        if self.status == REFUSED:
            return f'{line}  {self.message}'
        if self.status == FAILED:
            return f'{line}\n    {self.message}'
        return (
            f'{line} {self.variables:5d} variables  loss {self.loss:<9.4g} '
            f'{self.peak_memory_mib:6.0f} MiB  '
            + ' + '.join(f'{seconds:.0f}' for seconds in self.parts)
            + ' s'
        )


def unavailable_kind(config: Any) -> str:
    """Return what a refusal has to name for a kind that is not available; else ''.

    Args:
        config: `TrainEvalPipelineConfig`.
    """
    kind = config.model.WhichOneof('model')
    return '' if kind in ('ssd', 'faster_rcnn', 'center_net') else f'model.{kind}'


def run_here(path: str, step_side: int = 0) -> Outcome:
    """Read a config in this process, and run its parts in others.

    Args:
        path: of the config.
        step_side: of the images of the training step; 0: as published.
    """
    from google.protobuf import text_format

    from estimator_lib import errors
    from protos import pipeline_pb2

    name = pathlib.Path(path).stem
    text = pathlib.Path(path).read_text()
    kind = unavailable_kind(text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()))
    try:
        with tempfile.TemporaryDirectory() as folder:
            outcome = _run(name, path, folder, step_side)
    except errors.UserError as error:
        return Outcome(name, REFUSED if kind and kind in str(error) else FAILED, message=str(error))
    if kind:
        return Outcome(name, FAILED, message=f'{kind} was to be refused, and was not')
    return outcome


def _run(name: str, path: str, folder: str, step_side: int) -> Outcome:
    from estimator_lib import config as config_lib
    from model_fns import build_task

    config = config_lib.load_pipeline_config(path)
    pipelines.read_demo(config)
    pipelines.clear_cluster(config)
    pipelines.complete_records(config, folder)
    resizer = getattr(config.model, config.model.WhichOneof('model')).image_resizer
    side = resizer.fixed_shape_resizer.height or resizer.keep_aspect_ratio_resizer.max_dimension
    config.train_config.batch_size = 2 if side * side <= _SMALL else 1
    config.eval_config.num_examples = config.eval_config.batch_size = 1
    build_task(config)  # refuses what is not available
    config_lib.save_pipeline_config(config, folder)
    if step_side:
        fixed, kept = resizer.fixed_shape_resizer, resizer.keep_aspect_ratio_resizer
        one = fixed if resizer.HasField('fixed_shape_resizer') else kept
        for field in ('height', 'width') if one is fixed else ('min_dimension', 'max_dimension'):
            setattr(one, field, step_side)
        config_lib.save_pipeline_config(config, f'{folder}/step')
    done: List[Part] = []
    while len(done) < len(_PARTS) and not (done and done[-1].message):
        done.append(_part_apart(list(_PARTS)[len(done)], folder))
    return Outcome(
        name,
        FAILED if done[-1].message else DONE,
        variables=done[0].variables,
        loss=done[0].loss,
        peak_memory_mib=max(part.peak_memory_mib for part in done),
        message=done[-1].message,
        parts=[part.seconds for part in done],
    )


@dataclasses.dataclass(frozen=True)
class Part:
    """Outcome of a step, an evaluation or an export, see `Outcome`."""

    message: str = ''
    variables: int = 0
    loss: Optional[float] = None
    seconds: float = 0.0
    peak_memory_mib: float = 0.0


def run_part(name: str, folder: str) -> Part:
    """Run a part in this process, on the checkpoint of a folder.

    The config is that of the folder, or of one in it that is called like the part.
    """
    from estimator_lib import config as config_lib
    from estimator_lib import errors
    from model_fns import build_task

    own = f'{folder}/{name}/pipeline.config'
    path = own if os.path.exists(own) else f'{folder}/pipeline.config'
    config = config_lib.load_pipeline_config(path)
    started = time.monotonic()
    try:
        found = _PARTS[name](build_task(config), config, folder)
    except errors.UserError as error:
        found = Part(str(error))
    return dataclasses.replace(
        found,
        seconds=time.monotonic() - started,
        peak_memory_mib=measuring.peak_memory_mib(),
    )


def _part_apart(name: str, folder: str) -> Part:
    """Run a part in a process of its own, which may allocate as much as this one."""
    arguments = [f'--part={name}', f'--one={folder}']
    try:
        return Part(**measuring.run_apart(_MODULE, arguments, _MOST_SECONDS))
    except measuring.ProcessError as error:
        return Part(f'{name}: {error.summary}')


def _train(task: Any, config: Any, folder: str) -> Part:
    """Take a step, and save what it leaves in a folder."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    with measuring.training_session(task, config) as (session, spec):
        sound = [tf.reduce_all(tf.math.is_finite(one)) for one in tf1.trainable_variables()]
        loss, _ = session.run([spec.loss, spec.train_op])
        is_sound, steps = session.run([tf.reduce_all(tf.stack(sound)), tf1.train.get_global_step()])
        variables = len(tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES))
        tf1.train.Saver().save(session, f'{folder}/model.ckpt-1', write_meta_graph=False)
    message = ''
    if not math.isfinite(loss):
        message = f'the loss is {loss}'
    elif not is_sound:
        message = 'the step has left weights that are not finite'
    elif steps != 1:
        message = f'{steps} steps were taken, not 1'
    return Part(message, variables, float(loss))


def _evaluate(task: Any, config: Any, folder: str) -> Part:
    """Evaluate the checkpoint in a folder on one image; what is wrong, if anything is."""
    from estimator_lib import training

    found = training.evaluate(task, config, folder)
    wrong = [
        f'{key}: {value}'
        for values in found.values()
        for key, value in values.items()
        if 'Loss/' in key and not math.isfinite(value)
    ]
    if not any(values for values in found.values()):
        wrong = ['no metrics']
    return Part(f'the evaluation has {", ".join(wrong)}' if wrong else '')


def _export(task: Any, config: Any, folder: str) -> Part:
    """Export the checkpoint in a folder, and ask it; what is wrong, if anything is."""
    import numpy as np

    from estimator_lib.export import exported_model, exporting, saved_model, serving

    exports = f'{folder}/exports'
    writer = saved_model.SavedModelWriter(serving.IMAGE_TENSOR)
    exporting.export(task, config, folder, exports, writer)
    image = np.random.RandomState(0).randint(0, 256, [1, 240, 320, 3]).astype(np.uint8)
    found = exported_model.Predictor(exports).predict(image)
    wrong = _find_fault(found, 'export')
    if not wrong and config.graph_rewriter.HasField('quantization'):
        wrong = _export_int8(task, config, folder, image)
    return Part(wrong)


def _export_int8(task: Any, config: Any, folder: str, image: Any) -> str:
    """Export the checkpoint in a folder as an int8 file, and ask it, as `_export` does."""
    import tensorflow as tf

    from estimator_lib.export import exporting
    from estimator_lib.export.devices import tflite
    from estimator_lib.task_interfaces.deployable import DeploymentOptions

    writer = tflite.TfliteWriter(
        representative_examples=_CALIBRATING, deployment=DeploymentOptions(max_detections=10)
    )
    path = exporting.export(task, config, folder, f'{folder}/files', writer)
    run = tf.lite.Interpreter(f'{path}/model.tflite').get_signature_runner()
    height, width = run.get_input_details()['image']['shape'][1:3]
    pixels = tf.cast(tf.image.resize(image, [height, width]), tf.uint8)
    return _find_fault(run(image=pixels.numpy()), 'int8 file')


_PARTS = {'step': _train, 'evaluation': _evaluate, 'export': _export}


def _find_fault(found: Any, what: str) -> str:
    """Return the problem of detections; empty if there is none."""
    import numpy as np

    unsound = [name for name, value in found.items() if not np.isfinite(value).all()]
    missing = {'detection_boxes', 'detection_classes', 'detection_scores'} - set(found)
    if unsound or missing:
        return f'the {what} has unsound {unsound}, and lacks {sorted(missing)}'
    return ''


def run_apart(path: str, memory_gib: float, step_side: int = 0) -> Outcome:
    """Run a config in a process of its own.

    Args:
        path: of the config.
        memory_gib: that the process may allocate.
        step_side: see `run_here`.
    """
    started = time.monotonic()
    arguments = [f'--one={path}', f'--memory={memory_gib}', f'--step_side={step_side}']
    try:
        outcome = Outcome(**measuring.run_apart(_MODULE, arguments))
    except measuring.ProcessError as error:
        outcome = Outcome(pathlib.Path(path).stem, FAILED, message=error.summary)
    return dataclasses.replace(outcome, seconds=time.monotonic() - started)


def published_paths(names: Sequence[str]) -> List[str]:
    """Return the configs of those names, or all; those of both generations of the system."""
    found = {path.stem: str(path) for path in pathlib.Path(pipelines.PUBLISHED).glob('*/*.config')}
    unknown = [name for name in names if name not in found]
    if unknown or not found:
        raise SystemExit(f'{pipelines.PUBLISHED} has no config {", ".join(unknown)}'.rstrip())
    return [found[name] for name in names or sorted(found)]


def _limit_memory(gib: float) -> None:
    most = int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('names', nargs='*', help='of configs; left out: all')
    parser.add_argument('--memory', type=float, default=14, help='GiB that a process may allocate')
    parser.add_argument('--step_side', type=int, default=0, help='of images of the training step')
    parser.add_argument('--output', default='benchmark_published.json', help='where the JSON goes')
    parser.add_argument('--one', help='run this file alone; with --part, what this folder has')
    parser.add_argument('--part', choices=list(_PARTS), help='run a part in this process')
    arguments = parser.parse_args()
    measuring.quiet()
    if arguments.part:
        print(json.dumps(dataclasses.asdict(run_part(arguments.part, arguments.one))))
        return
    if arguments.one:
        _limit_memory(arguments.memory)
        print(json.dumps(dataclasses.asdict(run_here(arguments.one, arguments.step_side))))
        return
    outcomes = []
    for path in published_paths(arguments.names):
        outcomes.append(run_apart(path, arguments.memory, arguments.step_side))
        print(outcomes[-1], flush=True)
    statuses = [outcome.status for outcome in outcomes]
    print(', '.join(f'{statuses.count(one)} {one}' for one in (DONE, REFUSED, FAILED)))
    with open(arguments.output, 'w') as file:
        json.dump([dataclasses.asdict(outcome) for outcome in outcomes], file, indent=2)
    sys.exit(int(FAILED in statuses))


if __name__ == '__main__':
    main()
