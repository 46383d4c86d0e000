"""Latency and memory of an exported model, measured in a process of its own.

    python -m vision_extras.benchmark.timing MODEL ARRAYS.npz RESULT.json BATCH_SIZE [THREADS]

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
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import environment
from estimator_lib.export import artifacts, exported_model, formats, frozen_graph
from estimator_lib.export.devices import static_graph
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
        batch: latency of several images in one call; None: the model takes one image.
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


def time_apart(
    path: str,
    images: Sequence[np.ndarray],
    folder: str,
    batch_size: int = BATCH_SIZE,
    threads: Optional[int] = None,
) -> Timing:
    """Measure a model in another process.

    Args:
        path: of a SavedModel's folder, of a frozen graph or of a file for devices.
        images: what the model takes, each with a batch dimension of 1; see `load`.
        folder: for the arrays and the result.
        batch_size: number of images in a batch.
        threads: that the runtime may take; None: as many as it likes.

    Raises:
        errors.UserError: the process cannot load or run the model.
    """
    arrays, result = os.path.join(folder, 'images.npz'), os.path.join(folder, 'timing.json')
    np.savez(arrays, *images)
    options = [str(batch_size), *([str(threads)] if threads else [])]
    child_processes.try_apart(
        __name__, path, arrays, result, *options, path=path, seconds=_MOST_SECONDS
    )
    with open(result, encoding='utf-8') as file:
        return _from_json(json.load(file))


def _from_json(values: Mapping[str, Any]) -> Timing:
    batch = values['batch'] and Latency(**values['batch'])
    return Timing(Latency(**values['one']), batch, values['memory_bytes'])


class Model(NamedTuple):
    """Loaded model.

    Attributes:
        run: a function of images.
        takes_batches: whether they may be several.
    """

    run: Run
    takes_batches: bool


def load(path: str, threads: Optional[int] = None) -> Model:
    """Load a model.

    Args:
        path: a SavedModel or frozen graph takes uint8 [batch, height, width, 3], a file for devices
            float32 [batch, *input_shape] in [0, 255].
        threads: that a run may take; None: as many as the runtime likes.
    """
    if path.endswith(tuple(formats.endings())):
        file = formats.writer_of_file(path).load(path, threads)
        return Model(file.run, file.about['inputs'][static_graph.INPUT]['shape'][0] != 1)
    if threads:
        # Sessions without a config of their own take these.
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    if os.path.basename(path) == frozen_graph.FrozenGraphWriter.file_name:
        return Model(_load_frozen_graph(path), True)
    return Model(exported_model.Predictor(path).predict, True)


def _load_frozen_graph(path: str) -> Run:
    """Load a frozen graph, whose `export.json` names its input and outputs."""
    about = artifacts.read_about(path)
    (input_name,) = about['inputs']
    outputs = list(about['outputs'])
    session = frozen_graph.open_file(path)
    return lambda images: session.run(outputs, {input_name: images})


def measure(
    path: str,
    images: Sequence[np.ndarray],
    batch_size: int = BATCH_SIZE,
    threads: Optional[int] = None,
) -> Timing:
    """Measure a model in this process.

    Args:
        path: a SavedModel, a frozen graph, or a file for devices.
        images: uint8 [1, height, width, 3], or float32 [1, *input_shape] in [0, 255] for devices.
        batch_size: number of images in a batch.
        threads: that the runtime may take, TensorFlow before it computes anything; None: as many
            as it likes.
    """
    gc.collect()
    forget_peak_memory()
    before = environment.peak_memory_bytes() or 0
    model = load(path, threads)
    one = _time(model.run, images)
    batch = None
    if model.takes_batches:
        same = [image for image in images if image.shape == images[0].shape]
        rows = [same[index % len(same)] for index in range(batch_size)]
        batch = _time(model.run, [np.concatenate(rows)])
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
    path, arrays, result, *options = sys.argv[1:] if arguments is None else arguments
    with np.load(arrays) as content:
        images = [content[name] for name in content.files]
    with child_processes.telling_refusals():
        timing = measure(path, images, *map(int, options))
    with open(result, 'w', encoding='utf-8') as file:
        json.dump(dataclasses.asdict(timing), file)


if __name__ == '__main__':
    main()
