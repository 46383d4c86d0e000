"""Latency and memory of an exported model, measured in a process of its own.

    python -m vision_extras.benchmark.timing MODEL ARRAYS.npz RESULT.json

The process runs the model on one image at a time and, where the format allows it, on batches. It
writes a `Timing` as JSON. Its memory is not that of exports and evaluations before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import math
import os
import sys
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence

import numpy as np

from estimator_lib import environment
from estimator_lib.export import artifacts, exported_model, formats, frozen_graph
from estimator_lib.processes import child_processes

BATCH_SIZE = 8

_WARM_UP = 3
_LEAST_RUNS, _MOST_RUNS = 10, 200
_SECONDS = 5.0  # after which no more than `_LEAST_RUNS` are made
_MOST_SECONDS = 1800  # of the whole process

Run = Callable[[np.ndarray], Any]


@dataclasses.dataclass(frozen=True)
class Latency:
    """Milliseconds of a call.

    Attributes:
        median: of all calls.
        percentile_95: which 95 % of the calls do not exceed.
    """

    median: float
    percentile_95: float


@dataclasses.dataclass(frozen=True)
class Timing:
    """Measurement of a model.

    Attributes:
        one: latency of one image.
        batch: latency of `BATCH_SIZE` images in one call; None: the format takes one image.
        memory_bytes: peak of the process's resident memory, beyond that after its imports.
    """

    one: Latency
    batch: Optional[Latency]
    memory_bytes: int


def summarize(seconds: Sequence[float]) -> Latency:
    """Return median and 95th percentile of durations, in milliseconds.

    The percentile is the least duration that at least 95 % of all do not exceed.
    """
    ordered = sorted(seconds)
    last = math.ceil(0.95 * len(ordered)) - 1
    return Latency(1e3 * float(np.median(ordered)), 1e3 * ordered[last])


def time_apart(path: str, images: Sequence[np.ndarray], folder: str) -> Timing:
    """Measure a model in another process.

    Args:
        path: of a SavedModel's folder, of a frozen graph or of a file for devices.
        images: what the model takes, each with a batch dimension of 1; see `load`.
        folder: for the arrays and the result.

    Raises:
        errors.UserError: the process cannot load or run the model.
    """
    arrays, result = os.path.join(folder, 'images.npz'), os.path.join(folder, 'timing.json')
    np.savez(arrays, *images)
    child_processes.try_apart(__name__, path, arrays, result, path=path, seconds=_MOST_SECONDS)
    with open(result, encoding='utf-8') as file:
        return _from_json(json.load(file))


def _from_json(values: Mapping[str, Any]) -> Timing:
    batch = values['batch'] and Latency(**values['batch'])
    return Timing(Latency(**values['one']), batch, values['memory_bytes'])


def load(path: str) -> Run:
    """Load a model as a function of images.

    Args:
        path: a SavedModel or frozen graph takes uint8 [batch, height, width, 3], a file for devices
            float32 [1, *input_shape] in [0, 255].
    """
    if _is_for_devices(path):
        return formats.writer_of_file(path).load(path).run
    if os.path.basename(path) == frozen_graph.FrozenGraphWriter.file_name:
        return _load_frozen_graph(path)
    return exported_model.Predictor(path).predict


def _is_for_devices(path: str) -> bool:
    """Return True for a file whose input has one size, and a batch of one image."""
    return path.endswith(tuple(formats.endings()))


def _load_frozen_graph(path: str) -> Run:
    """Load a frozen graph, whose `export.json` names its input and outputs."""
    about = artifacts.read_about(path)
    (input_name,) = about['inputs']
    outputs = list(about['outputs'])
    session = frozen_graph.open_file(path)
    return lambda images: session.run(outputs, {input_name: images})


def measure(path: str, images: Sequence[np.ndarray]) -> Timing:
    """Measure a model in this process.

    Args:
        path: a SavedModel, a frozen graph, or a file for devices.
        images: uint8 [1, height, width, 3], or float32 [1, *input_shape] in [0, 255] for devices.
    """
    gc.collect()
    forget_peak_memory()
    before = environment.peak_memory_bytes() or 0
    run = load(path)
    one = _time(run, images)
    batch = None
    if not _is_for_devices(path):
        same = [image for image in images if image.shape == images[0].shape]
        rows = [same[index % len(same)] for index in range(BATCH_SIZE)]
        batch = _time(run, [np.concatenate(rows)])
    after = environment.peak_memory_bytes() or 0
    return Timing(one, batch, max(0, after - before))


def _time(run: Run, images: Sequence[np.ndarray]) -> Latency:
    """Time calls, each with the next image, after some that warm up."""
    seconds: List[float] = []
    for index in range(_WARM_UP):
        run(images[index % len(images)])
    while len(seconds) < _MOST_RUNS:
        image = images[len(seconds) % len(images)]
        started = time.perf_counter()
        run(image)
        seconds.append(time.perf_counter() - started)
        if len(seconds) >= _LEAST_RUNS and sum(seconds) > _SECONDS:
            break
    return summarize(seconds)


def forget_peak_memory() -> bool:
    """Reset the peak to the current memory; return whether the system allows it."""
    with contextlib.suppress(OSError), open('/proc/self/clear_refs', 'w') as file:
        file.write('5')
        return True
    return False


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Measure the model that the command line names."""
    path, arrays, result = sys.argv[1:] if arguments is None else arguments
    with np.load(arrays) as content:
        images = [content[name] for name in content.files]
    with child_processes.telling_refusals():
        timing = measure(path, images)
    with open(result, 'w', encoding='utf-8') as file:
        json.dump(dataclasses.asdict(timing), file)


if __name__ == '__main__':
    main()
