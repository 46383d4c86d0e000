"""Model that the options of a run name: of a checkpoint, an export or a file."""

from __future__ import annotations

import logging
import os
from typing import Mapping, NamedTuple, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, evaluated, model_dirs
from estimator_lib.export import (
    artifacts,
    export_policies,
    exported_file,
    exported_model,
    serving,
)
from estimator_lib.processes import path_names
from estimator_lib.task import Task
from model_fns import build_task
from model_fns.cli import flag_configs, foreign_models
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')


class ModelSource(NamedTuple):
    """Origin of a model; it can be pickled.

    Attributes:
        path: of a SavedModel, a file for devices or a checkpoint.
        signature_name: of the SavedModel; None: it is a file or a checkpoint.
        config: of the model; None: not known, and neither is the meaning of its outputs.
    """

    path: str
    signature_name: Optional[str]
    config: Optional[pipeline_pb2.TrainEvalPipelineConfig]


class Model(NamedTuple):
    """Model of a prediction.

    Attributes:
        predictor: runs it.
        task: of the model; None: not known.
        source: origin of the model.
    """

    predictor: exported_model.Predictor
    task: Optional[Task]
    source: ModelSource


def chosen_model(options: RunOptions) -> Model:
    """Load the model of a prediction.

    Raises:
        errors.UserError: the flags name no model, or several, or one that is not of the task.
    """
    file = chosen_file(options)
    if options.signature_name and (file or not options.saved_model_dir):
        raise errors.UserError(
            f'--signature_name={options.signature_name} chooses a signature of a SavedModel; '
            'expected --saved_model_dir=DIR, or no --signature_name.'
        )
    if file:
        _refuse_others('model_file', {'model_dir': options.model_dir})
        config = load_file_config(options, file, options.output_dir)
        source = ModelSource(file, None, config)
        return Model(*open_model(source), source)
    if not options.saved_model_dir:
        if not (options.model_dir or options.checkpoint_path):
            raise errors.UserError(
                '--mode=predict needs --saved_model_dir (or --model_file, --model_dir or '
                '--checkpoint_path).'
            )
        config = flag_configs.load_config(options)
        source = ModelSource(chosen_checkpoint(options), None, config)
        return Model(*open_model(source), source)
    others = {name: getattr(options, name) for name in ('model_dir', 'checkpoint_path')}
    _refuse_others('saved_model_dir', others)
    signature_name = options.signature_name or serving.DEFAULT_SIGNATURE
    predictor = exported_model.Predictor(options.saved_model_dir, signature_name)
    path = options.pipeline_config_path or predictor.config_path
    if path is None:
        log.warning('%s holds no pipeline.config: no pictures are drawn', predictor.path)
        return Model(predictor, None, ModelSource(predictor.path, signature_name, None))
    source = ModelSource(predictor.path, signature_name, flag_configs.load_file(options, path))
    task = build_task(source.config, options.mode)
    artifacts.check_outputs(
        predictor.path, task.presentation.described_outputs, predictor.output_shapes
    )
    artifacts.check_classes(predictor.path, task.presentation.class_names)
    return Model(predictor, task, source)


def chosen_checkpoint(options: RunOptions) -> str:
    """Return the prefix of the chosen checkpoint; log a warning where a better one is kept.

    Raises:
        errors.UserError: there is none, or no best one for `--which=best`.
    """
    path = options.checkpoint_path or options.checkpoint_dir
    if path:
        return checkpoint_files.resolve_checkpoint(path)
    if options.which == 'best':
        return _best_checkpoint(options.model_dir)
    latest = checkpoint_files.resolve_checkpoint(options.model_dir)
    if not options.which:
        _log_better(options.model_dir, latest)
    return latest


def _best_checkpoint(model_dir: str) -> str:
    folder = os.path.join(model_dir, export_policies.BEST_CHECKPOINT)
    if not tf.io.gfile.isdir(folder):
        raise errors.UserError(
            f'--which=best: there is no folder {folder}; a run with export_config.best keeps the '
            'best checkpoint there. Expected --which=latest.'
        )
    return checkpoint_files.resolve_checkpoint(folder)


def _log_better(model_dir: str, latest: str) -> None:
    """Log a warning where the best checkpoint in evaluations is not the latest one."""
    best = export_policies.read_best(model_dir)
    if best is None or best.step == checkpoint_files.checkpoint_step(latest):
        return
    value = evaluated.first_set(evaluated.read(latest)).get(best.metric)
    log.warning(
        'step %d is the latest%s; step %d was the best in the evaluations of the run, with %s '
        '%.4g: --which=best chooses it',
        checkpoint_files.checkpoint_step(latest),
        '' if value is None else f', with {best.metric} {value:.4g}',
        best.step,
        best.metric,
        best.value,
    )


def open_model(source: ModelSource) -> Tuple[exported_model.Predictor, Optional[Task]]:
    """Load a model and its task."""
    task = None if source.config is None else build_task(source.config, 'predict')
    if exported_file.is_file(source.path):
        return open_file(source.path, task), task
    if source.signature_name is None:
        return exported_model.CheckpointPredictor(task, source.config, source.path), task
    return exported_model.Predictor(source.path, source.signature_name), task


def open_file(path: str, task: Task) -> exported_model.Predictor:
    """Load a file of a task, from an export or another program.

    Raises:
        errors.UserError: it cannot be run, or is of another model than the task.
    """
    if not exported_file.is_foreign(path):
        return exported_file.FilePredictor(task, path)
    predictor = foreign_models.open_predictor(path, task)
    artifacts.check_outputs(path, task.presentation.described_outputs, predictor.output_shapes)
    artifacts.check_classes(path, task.presentation.class_names)
    return predictor


def chosen_file(options: RunOptions) -> Optional[str]:
    """Return the path of a file for devices, from its own option or from another model option.

    Raises:
        errors.UserError: the options name two models, or class names for one that is no file.
    """
    names = ('model_file', 'saved_model_dir', 'checkpoint_path')
    models = {name: getattr(options, name) for name in names if getattr(options, name)}
    for name, path in models.items():
        if name == 'model_file' or exported_file.is_file(path):
            _refuse_others(name, models)
            return _matching_file(name, path)
    if options.label_map:
        raise errors.UserError(
            f'--label_map={options.label_map} names the classes of a --model_file without a '
            'config; leave it out, or set label_map_path of the readers in the config.'
        )
    return None


def _matching_file(name: str, path: str) -> str:
    """Return the file that a path or a pattern names.

    Raises:
        errors.UserError: the pattern matches several files.
    """
    paths = [path] if tf.io.gfile.exists(path) else path_names.match(path)
    if len(paths) > 1:
        raise errors.UserError(
            f'--{name}={path} matches {len(paths)} files: {errors.shortened(paths, 4)}; expected '
            'one of them.'
        )
    return paths[0] if paths else path


def load_file_config(
    options: RunOptions, path: str, folder: Optional[str] = None
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Load the pipeline config of a file, or describe the model of one that has none.

    Args:
        options: of the run.
        path: of the file.
        folder: where the names of classes of a file of another program are written; None: they are
            left out.

    Raises:
        errors.UserError: there is no file, or no config.
    """
    exported_file.check(path)
    config_path = options.pipeline_config_path or artifacts.config_path(path)
    is_foreign = exported_file.is_foreign(path)
    if config_path is None and not is_foreign:
        raise errors.UserError(
            f'{path}: there is no pipeline.config beside it, so the meaning of its outputs is '
            'not known; expected the one that was exported with it, or --pipeline_config_path.'
        )
    config = flag_configs.load_file(options, config_path, folders=[os.path.dirname(path)])
    if config.model.WhichOneof('model') is None and is_foreign:
        described = foreign_models.describe(path, options.label_map, folder)
        described.MergeFrom(config)
        return described
    if options.label_map:
        raise errors.UserError(
            f'--label_map names the classes of a file without a config, and {config_path} has a '
            'model; leave it out, or set label_map_path of its readers.'
        )
    return config


def _refuse_others(name: str, others: Mapping[str, Optional[str]]) -> None:
    """Refuse a second model.

    Args:
        name: of the option that names the model.
        others: values of other options that name a model, by name.

    Raises:
        errors.UserError: one of them is set.
    """
    for other, value in others.items():
        if value and other != name:
            raise errors.UserError(f'--{name} and --{other}: expected one of them.')


def results_dir(options: RunOptions) -> Optional[str]:
    """Return the folder for results, which has been written to before the work; None: no folder.

    Raises:
        errors.UserError: it cannot be written to.
    """
    if options.output_dir:
        model_dirs.ensure_writable(options.output_dir, '--output_dir')
    elif options.model_dir:
        model_dirs.ensure_writable(
            options.model_dir, '--model_dir', 'expected --output_dir=DIR for the results'
        )
    return options.output_dir or options.model_dir
