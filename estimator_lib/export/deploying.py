"""Trained models as files for devices: written, run beside TensorFlow, and only then kept."""

from __future__ import annotations

import logging
import os
from types import MappingProxyType
from typing import Any, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.export import (
    agreement,
    artifacts,
    exporting,
    formats,
    integrity,
    samples,
    static_graph,
)
from estimator_lib.export.static_graph import StaticGraph
from estimator_lib.export.writers import AS_TRAINED, DYNAMIC, FLOAT16, INT8, NONE, Request, Writer
from estimator_lib.task import Task
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

_IMAGES = 20  # that the file is run on
# What must agree of what a file computes, by its arithmetic. That of 8 bits is that far off where a
# conversion has gone wrong, not where it has lost a little.
_LEAST_AGREEMENT: Mapping[str, float] = {NONE: 0.97, FLOAT16: 0.95, DYNAMIC: 0.8, INT8: 0.8}


def export_file(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    export_dir: str,
    format_name: str,
    request: Request = AS_TRAINED,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Writes the model of a checkpoint as `export_dir/<timestamp>/model.<format>`.

    Beside it are `export.json` (format, inputs, outputs, agreement, origin), `labels.txt`,
    `pipeline.config`, the files of `Task.asset_files` and, where the checkpoint was evaluated,
    `metrics.json`. The folder appears under its name when it is complete, and when the file, run
    on images of the evaluation, computes what TensorFlow does.

    Args:
        task: what is exported.
        config: see `static_graph.build`.
        checkpoint: its prefix, or its folder.
        export_dir: made when it is not there.
        format_name: one of `formats.WRITERS`.
        request: see there.
        options: see `Task.deployable`.

    Returns:
        The path of the new folder.

    Raises:
        errors.CheckpointError: the checkpoint is not there, or not of this model.
        errors.UserError: the model or what is asked for has no place in the format; `export_dir`
            cannot be written to; or the file computes something else than the model.
    """
    writer = formats.writer(format_name)
    quantize = _quantize(writer, config, request)
    if quantize != INT8 and request.representative_examples != Request().representative_examples:
        raise errors.UserError('--representative_examples is of --quantize=int8; leave it out.')
    deployable = task.deployable(writer.ops, options)
    writer.check()
    prefix = checkpoint_files.resolve_checkpoint(checkpoint)
    representative: List[np.ndarray] = []
    if quantize == INT8:
        sample = samples.representative(task, config, request.representative_examples)
        log.info('ranges of activations are measured on %s', sample)
        representative = samples.pixels(task, deployable, sample.images)
    graph = static_graph.build(deployable, config, prefix)

    def write(unfinished: str) -> None:
        tf.io.gfile.makedirs(unfinished)
        path = os.path.join(unfinished, writer.file_name)
        writer.write(graph, path, quantize, representative)
        about = {
            'format': writer.name,
            'quantize': quantize,
            'quantization_aware': graph.is_quantized,
            # What is rounded differs by a step where numbers differ by rounding.
            **_tried(task, config, writer, graph, path, INT8 if graph.is_quantized else quantize),
            **integrity.describe(path),
            'origin': exporting.origin(config, prefix),
        }
        artifacts.write(unfinished, task, config, about)
        metrics = evaluated.read(prefix)
        if metrics:
            artifacts.write_json(os.path.join(unfinished, evaluated.METRICS_FILE), metrics)

    path = exporting.write_whole(export_dir, write)
    log.info('exported %s to %s', prefix, path)
    return path


def _quantize(
    writer: Writer, config: pipeline_pb2.TrainEvalPipelineConfig, request: Request
) -> str:
    """The kind of arithmetic.

    Raises:
        errors.UserError: the format has no such kind, or the network was trained for another.
    """
    is_aware = config.graph_rewriter.HasField('quantization') and INT8 in writer.quantizes
    if request.quantize is None:
        return INT8 if is_aware else NONE
    if request.quantize not in writer.quantizes:
        raise errors.UserError(
            f'--quantize={request.quantize}: --format={writer.name} has '
            f'{" and ".join(writer.quantizes)}; expected {writer.quantizes[0]}.'
        )
    if is_aware and request.quantize != INT8:
        raise errors.UserError(
            f'--quantize={request.quantize}: the model was trained for int8 '
            '(graph_rewriter.quantization); expected int8, or leave it out.'
        )
    return request.quantize


def _tried(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    writer: Writer,
    graph: StaticGraph,
    path: str,
    quantize: str,
) -> Dict[str, Any]:
    """What the file is and computes, for `export.json`.

    Raises:
        errors.UserError: something else than the model.
    """
    sample = samples.of_evaluation(task, config, _IMAGES)
    deployable = graph.deployable
    images = samples.pixels(task, deployable, sample.images)
    model = writer.load(path)
    found = [model.run(image) for image in images]
    expected = graph.run(images)
    agreement.require_change(expected, found, path)
    parts = deployable.agreement(expected, found, exact=quantize == NONE)
    log.info('%s', agreement.line(parts, str(sample)))
    agreement.require(parts, _LEAST_AGREEMENT[quantize], path)
    return {
        **_with_meanings(model.about, deployable.meanings),
        'agreement': {
            'images': str(sample),
            'outputs': parts,
            'largest_differences': deployable.largest_differences(expected, found),
        },
    }


def _with_meanings(about: Mapping[str, Any], meanings: Mapping[str, str]) -> Dict[str, Any]:
    outputs = {name: {**one, 'meaning': meanings[name]} for name, one in about['outputs'].items()}
    return {**about, 'outputs': outputs}
