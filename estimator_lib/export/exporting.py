"""Export of a checkpoint's model, the same way for all formats."""

from __future__ import annotations

import logging
import os
from typing import Any, Mapping, Optional

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files, class_match, evaluated
from estimator_lib.export import artifacts, export_folders
from estimator_lib.export.metadata import client_program, model_card
from estimator_lib.export.writers import GraphHook, Measure, Source, Writer
from estimator_lib.task import Task
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')


def export(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    directory: str,
    writer: Writer[Any],
    graph_hook_fn: GraphHook = None,
    measure: Optional[Measure] = None,
) -> str:
    """Write the model of a checkpoint as `directory/<timestamp>/`.

    The folder has the file of the format and the artifacts (see `artifacts`). It appears under its
    name when it is complete and verified.

    Args:
        task: builds the network.
        config: says whether moving averages are exported, and is saved with the model.
        checkpoint: prefix or folder of a checkpoint: one of ours or a published one. It needs the
            model's variables, but no global step and no optimizer slots.
        directory: created where it is missing.
        writer: the format, with its options.
        graph_hook_fn: called when the network is built, as in training; None: nothing is called.
        measure: evaluates the checkpoint and a file of it, for writers with a `max_loss`; see
            `training.measure_file`.

    Returns:
        The path of the new folder.

    Raises:
        errors.CheckpointError: the checkpoint is missing, or is not of this model.
        errors.ConfigError: the checkpoint was trained with another order of classes.
        errors.UserError: the format cannot hold the model, the folder cannot be written, or the
            file computes something else than the model.
    """
    task = task.as_exported()
    prefix = checkpoint_files.resolve_checkpoint(checkpoint)
    class_match.require_same_classes(task.checkpoints, prefix)
    source = Source(task, config, prefix, graph_hook_fn, measure)
    model = writer.build(source)

    def write(unfinished: str) -> None:
        tf.io.gfile.makedirs(unfinished)
        writer.write(model, source, unfinished)
        about = {
            'format': writer.name,
            **writer.verify(model, source, unfinished),
        }
        folder = os.path.join(unfinished, writer.artifacts_folder)
        artifacts.write(folder, task, config, source.checkpoint, about)
        writer.finish(model, source, unfinished)
        _write_card(unfinished, source, about)

    path = export_folders.write_whole(directory, write)
    log.info('exported %s to %s', source.checkpoint, path)
    return path


def _write_card(folder: str, source: Source, about: Mapping[str, Any]) -> None:
    """Write the model card of an export."""
    kind = source.config.model.WhichOneof('model') or ''
    card = model_card.text(
        f'{source.task.name} ({kind})' if kind else source.task.name,
        source.task.hub_tag,
        source.task.presentation.class_names,
        about,
        evaluated.read(source.checkpoint),
        source.config.export_config.license,
    )
    if tf.io.gfile.exists(os.path.join(folder, client_program.NAME)):
        card += model_card.usage()
    with tf.io.gfile.GFile(os.path.join(folder, model_card.NAME), 'w') as file:
        file.write(card)
