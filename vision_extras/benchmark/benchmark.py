"""The mode `benchmark`: every export format of a checkpoint, measured and compared."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, logs, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.drawing import figures
from estimator_lib.evaluation import evaluating
from estimator_lib.export import (
    artifacts,
    exported_model,
    exporting,
    formats,
    inference_graph,
    samples,
)
from estimator_lib.export.devices import onnx_files
from estimator_lib.export.devices.device_files import DeviceWriter
from estimator_lib.export.writers import Source, Writer
from estimator_lib.graphs import losses
from estimator_lib.task import Task
from estimator_lib.task_interfaces.deployable import NO_CHANGES
from protos import export_pb2, pipeline_pb2
from vision_extras.benchmark import results, timing

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

log = logging.getLogger('estimator_lib')

CSV_FILE, PNG_FILE = 'benchmark.csv', 'benchmark.png'
_CHECKPOINT = 'checkpoint'
_IMAGES = 8  # of the evaluation, for latency and for the agreement of SavedModels


class Settings(NamedTuple):
    """What is measured, and how.

    Attributes:
        exports: names of formats or of exports, see `list_writers`; empty: all.
        batch_size: number of images in a batch.
        threads: that a runtime may take; None: as many as it likes.
        image_size: height and width of the images that are timed; None: those of the evaluation.
    """

    exports: Sequence[str] = ()
    batch_size: int = timing.BATCH_SIZE
    threads: Optional[int] = None
    image_size: Optional[Tuple[int, int]] = None


_ALL = Settings()


def list_writers() -> Dict[str, Writer[Any]]:
    """Return the writer of each export by name: a format, and what it does: `tflite int8`."""
    writers: Dict[str, Writer[Any]] = {}
    for name, kind in formats.WRITERS.items():
        if issubclass(kind, DeviceWriter) and len(kind.quantizes) > 1:
            writers.update({f'{name} {each}': kind(quantize=each) for each in kind.quantizes})
        else:
            writers[name] = kind()
    writers['onnx batches'] = onnx_files.OnnxWriter(batch=onnx_files.DYNAMIC)
    return writers


def choose_writers(exports: Sequence[str]) -> Dict[str, Writer[Any]]:
    """Return the writers of some exports, in the order of `list_writers`.

    Args:
        exports: `tflite`: all of the format; `tflite int8`: that one; empty: all.

    Raises:
        errors.UserError: a name is unknown.
    """
    writers = list_writers()
    known = [*writers, *formats.WRITERS]
    for name in exports:
        if name not in known:
            raise errors.UserError(
                f'--exports: {name!r}: unknown{errors.did_you_mean(name, known)}'
            )
    return {
        name: writer
        for name, writer in writers.items()
        if not exports or name in exports or writer.name in exports
    }


Metrics = Mapping[str, Mapping[str, float]]  # by evaluation set


@dataclasses.dataclass(frozen=True)
class _Benchmark:
    """Benchmark of one checkpoint.

    Attributes:
        source: the model.
        metrics: of the checkpoint, by name.
        images: of the evaluation, uint8 [height, width, 3] each.
        folder: of exports and results; deleted after the benchmark.
        settings: what is measured, and how.
    """

    source: Source
    metrics: Mapping[str, float]
    images: Sequence[np.ndarray]
    folder: str
    settings: Settings

    def row(self, name: str, writer: Writer[Any]) -> results.Row:
        """Export, evaluate and time the model in one format."""
        log.info('benchmark of %s', name)
        folder = os.path.join(self.folder, name.replace(' ', '_'))
        try:
            # The table has what an export and its evaluation log, and the reason of a refusal.
            with logs.silenced(logs.LOGGERS, logging.WARNING):
                exported = exporting.export(
                    self.source.task, self.source.config, self.source.checkpoint, folder, writer
                )
                return self._measure(name, writer, exported)
        except errors.UserError as error:
            reason = ' '.join(str(error).replace(folder, '.').split())
            return results.Row(name, refused=reason)

    def _measure(self, name: str, writer: Writer[Any], exported: str) -> results.Row:
        task, config = self.source.task, self.source.config
        file = os.path.join(exported, writer.file_name)
        path = exported if writer.artifacts_folder else file
        timed = [_resized(image, self.settings.image_size) for image in self.images]
        inputs = [image[np.newaxis] for image in timed]
        metrics, measured_on = self.metrics, results.CHECKPOINT
        if isinstance(writer, DeviceWriter):
            inputs = samples.pixels(task, task.deployable(writer.ops, NO_CHANGES), timed)
            metrics = flatten(task, training.evaluate_file(task, config, file))
            measured_on = results.FILE
        return results.Row(
            name,
            metrics=metrics,
            measured_on=measured_on,
            agreement=self._agreement(path),
            size=artifacts.model_size(path),
            timing=timing.time_apart(
                path, inputs, self.folder, self.settings.batch_size, self.settings.threads
            ),
        )

    def _agreement(self, path: str) -> float:
        """Return the least matching part of an output of an export.

        Exports of all formats but SavedModels are compared when they are written.
        """
        about = artifacts.read_about(path)
        if 'agreement' in about:
            return min(about['agreement']['outputs'].values())
        expected = inference_graph.build(self.source, export_pb2.IMAGE_TENSOR, self.images).expected
        predictor = exported_model.Predictor(path)
        computed = [predictor.predict(image[np.newaxis]) for image in self.images]
        return min(self.source.task.compare_served(expected, computed).values())


def benchmark(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    output_dir: str,
    settings: Settings = _ALL,
) -> List[str]:
    """Measure every export of a checkpoint; write `benchmark.csv` and `benchmark.png`.

    Exports are written to a temporary folder, so those of a run do not change.

    Args:
        task: of the model.
        config: has the evaluation sets and metrics.
        checkpoint: its prefix.
        output_dir: folder of the two files.
        settings: what is measured, and how.

    Returns:
        Lines of a table.

    Raises:
        errors.UserError: the checkpoint cannot be evaluated; an export is unknown.
    """
    writers = choose_writers(settings.exports)
    quiet = type(config)()
    quiet.CopyFrom(config)
    quiet.eval_config.num_visualizations = 0
    with tempfile.TemporaryDirectory() as folder:
        evaluation_dir = os.path.join(folder, 'evaluation')
        metrics = flatten(task, training.evaluate(task, quiet, evaluation_dir, checkpoint))
        images = samples.evaluation_images(task, quiet, _IMAGES).images
        source = Source(task.as_exported(), quiet, checkpoint)
        parts = _Benchmark(source, metrics, images, folder, settings)
        rows = [results.Row(_CHECKPOINT, metrics, results.CHECKPOINT)]
        rows += [parts.row(name, writer) for name, writer in writers.items()]
    metric = evaluating.main_metric(task, config, metrics)
    tf.io.gfile.makedirs(output_dir)
    table = results.to_csv(rows, settings.batch_size)
    checkpoint_files.write_atomically(os.path.join(output_dir, CSV_FILE), table)
    path = os.path.join(output_dir, PNG_FILE)
    with figures.tolerated(path):
        checkpoint_files.write_atomically(path, _png(rows, metric))
    return results.format_table(rows, metric, settings.batch_size)


def _resized(image: np.ndarray, size: Optional[Tuple[int, int]]) -> np.ndarray:
    """Return an image [height, width, channels] of another size, by its nearest pixels."""
    if size is None:
        return image
    rows, columns = (np.arange(new) * old // new for old, new in zip(image.shape[:2], size))
    return image[np.ix_(rows, columns)]


def flatten(task: Task, metrics: Metrics) -> Dict[str, float]:
    """Return metrics by name without losses; those of further sets begin with the set's name."""
    first = next(iter(metrics), '')
    loss_names = losses.loss_metric_names(task)
    return {
        name if each == first else f'{each}: {name}': value
        for each, values in metrics.items()
        for name, value in values.items()
        if name not in loss_names
    }


def _png(rows: Sequence[results.Row], metric: str) -> bytes:
    def save(figure: Canvas) -> bytes:
        file = io.BytesIO()
        results.draw(figure, rows, metric)
        figure.savefig(file, format='png', dpi=100)
        return file.getvalue()

    size = (13.0, 1.5 + 0.4 * len(rows))
    return figures.with_canvas(save, figsize=size, layout='constrained')
