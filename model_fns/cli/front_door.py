"""Modes of the front door, as functions of the options of a run."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import shlex
from typing import Any, Callable, Dict, Iterable, Mapping

from estimator_lib import config as config_lib
from estimator_lib import distribution, environment, errors, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.commands import advice, augmented_sheet, check, outline, shared_images
from estimator_lib.distribution import gpu_code
from estimator_lib.evaluation import evaluating, evaluators
from estimator_lib.export import artifacts, exported_file, exporting, formats
from estimator_lib.export.metadata import triton
from estimator_lib.run_records import results
from estimator_lib.task import Task
from estimator_lib.task_interfaces.deployable import DeploymentOptions
from model_fns import build_task, extras, make_task, validate
from model_fns.cli import (
    builtin_configs,
    chosen_models,
    data_command,
    flag_configs,
    platforms,
    prediction,
    seed_folders,
)
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# Options that are paths.
_PATHS = (
    'model_dir',
    'pipeline_config_path',
    'checkpoint_path',
    'checkpoint_dir',
    'export_dir',
    'saved_model_dir',
    'model_file',
    'images',
    'output_dir',
    'data',
    'label_map',
    'write_config',
)
# Options that name a model in place of a checkpoint of `model_dir`.
_MODELS = ('checkpoint_path', 'checkpoint_dir', 'saved_model_dir', 'model_file')
_DEPLOYMENT = [field.name for field in dataclasses.fields(DeploymentOptions)]


def run(options: RunOptions) -> None:
    """Run the mode that the options name.

    Raises:
        errors.UserError: an option that the mode needs is missing or not usable.
        preemption.Preempted: a signal asked the run to end, see `programs.guard`.
    """
    if options.pipeline_config_path == builtin_configs.PREFIX:
        print('\n'.join(builtin_configs.list_lines()))
        return
    options = platforms.with_defaults(options, os.environ)
    for name in _PATHS:
        errors.refuse_placeholder(f'--{name}', getattr(options, name))
    data_command.check_options(options)
    for name in ('run_once', 'max_eval_retries', 'eval_timeout'):
        if not options.has_default(name) and not options.checkpoint_dir:
            raise errors.UserError(
                f'--{name} has no effect without --checkpoint_dir; expected that flag too.'
            )
    if options.checkpoint_dir and options.checkpoint_path:
        raise errors.UserError(
            f'--checkpoint_dir={options.checkpoint_dir} and '
            f'--checkpoint_path={options.checkpoint_path}: expected one of them.'
        )
    if options.checkpoint_dir and options.seeds is not None:
        raise errors.UserError(
            f'--checkpoint_dir={options.checkpoint_dir} evaluates the checkpoints of one run, and '
            f'--seeds={options.seeds} trains several; expected one of them.'
        )
    other_model = any(getattr(options, name) for name in _MODELS)
    if options.which and (other_model or not options.model_dir):
        raise errors.UserError(
            f'--which={options.which} chooses among the checkpoints of --model_dir; expected that '
            f'flag, and none of {", ".join(f"--{name}" for name in _MODELS)}.'
        )
    modes: Dict[str, Callable[[RunOptions], None]] = {
        'train_and_evaluate': _watch_checkpoints if options.checkpoint_dir else _train_and_evaluate,
        'train': _train_and_evaluate,
        'evaluate': _evaluate,
        'export': _export,
        'predict': prediction.predict_files,
        'check': _check,
        'create_config': _create_config,
    }
    if options.mode in ('train_and_evaluate', 'train', 'evaluate'):
        for warning in gpu_code.warnings():
            log.warning('%s', warning)
    if options.mode in extras.MODES:
        extras.load(extras.MODES[options.mode], f'--mode={options.mode}').run(options)
    else:
        modes[options.mode](options)


def _create_config(options: RunOptions) -> None:
    data_command.prepare(options)
    print(config_lib.saved_pipeline_config(options.model_dir))


def _train_seeds(options: RunOptions) -> None:
    """Train a run for each seed, and print the command that compares them."""
    runs = seed_folders.options_of_runs(options)
    if options.data:
        data_command.prepare(options)
        runs = seed_folders.options_of_runs(options)  # with the config that was written
        if not checkpoint_files.latest_step(runs[0].model_dir):
            data_command.check_config(options)
    for each in runs:
        log.info('run %s', each.model_dir)
        _train_and_evaluate(each)
    folder = shlex.quote(options.model_dir)
    print(f'next: {environment.front_door_command()} --mode=compare --model_dir={folder}')


def _train_and_evaluate(options: RunOptions) -> None:
    options.require('model_dir')
    if options.seeds is not None:
        _train_seeds(options)
        return
    if options.data:
        if data_command.prepare(options):
            return
        data_command.check_config(options)
    config = flag_configs.load_config(options)
    task = build_task(config, options.mode)
    task_of_cluster = distribution.read_tf_config()
    is_chief = task_of_cluster is None or task_of_cluster.is_chief
    if is_chief:
        for line in outline.first_lines(task, config, _network(config)):
            log.info('%s', line)
        draws = config.train_config.progress.draw_first_examples
        # Several devices and workers are set up before any other use of TensorFlow.
        is_alone = task_of_cluster is None and config.train_config.cluster.num_clones <= 1
        is_new = checkpoint_files.latest_checkpoint(options.model_dir) is None
        for warning in shared_images.find_warnings(config) if is_new else ():
            log.warning('%s', warning)
        if draws and is_alone and is_new:
            augmented_sheet.start_sheet(task, config, options.model_dir)
    metrics = training.train_and_evaluate(
        task,
        config,
        options.model_dir,
        evaluate=options.mode == 'train_and_evaluate',
        eval_training_data=_training_sample(options),
    )
    if is_chief and options.mode == 'train':  # else the evaluations draw the curves
        results.Results(options.model_dir, evaluating.main_metrics(task, config)).draw()
    if is_chief or metrics:
        _print_end(options.model_dir, config, metrics)
        for line in advice.find_advice(task, config, options.model_dir, metrics):
            print(f'to improve: {line}')


def _network(config: pipeline_pb2.TrainEvalPipelineConfig) -> str:
    """Return the name of the network, or of the kind of model where the network has none."""
    kind = config.model.WhichOneof('model')
    model = getattr(config.model, kind)
    backbone = getattr(getattr(model, 'backbone', None), 'name', '')
    extractor = getattr(getattr(model, 'feature_extractor', None), 'type', '')
    return backbone or extractor or kind


def _evaluate(options: RunOptions) -> None:
    options = prediction.with_tiles(options)
    file = chosen_models.chosen_file(options)
    if file:
        _evaluate_file(options, file)
        return
    options.require('model_dir')
    config = flag_configs.load_config(options)
    _add_coco_files(options, config)
    checkpoint = chosen_models.chosen_checkpoint(options)
    metrics = training.evaluate(
        _evaluated_task(options, config),
        config,
        chosen_models.results_dir(options),
        checkpoint,
        _training_sample(options),
        analyze=options.analyze,
    )
    _print_metrics(config, metrics)


def _evaluated_task(options: RunOptions, config: pipeline_pb2.TrainEvalPipelineConfig) -> Task:
    task = build_task(config, options.mode)
    if options.analyze and task.analysis is None:
        log.warning('--analyze: the task %s has no analysis; only metrics follow.', task.name)
    return task


def _add_coco_files(options: RunOptions, config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Name the folder of COCO's files, if they are asked for.

    Raises:
        errors.UserError: there are several evaluation sets, or no folder for results.
    """
    if not options.coco_files:
        return
    folder = options.output_dir or options.model_dir
    if not folder:
        raise errors.UserError('--coco_files: there is no folder for them; expected --output_dir.')
    count = len(config.eval_input_reader) + options.eval_training_data
    if count != 1:
        raise errors.UserError(
            f'--coco_files: there are {count} evaluation sets, of which each replaces the files of '
            'the one before; expected one.'
        )
    config.eval_config.coco_files = os.path.join(folder, 'coco_files')


def _evaluate_file(options: RunOptions, path: str) -> None:
    """Evaluate a file for devices, and print its metrics beside those of its checkpoint."""
    if options.analyze and not options.output_dir:  # its place is in the folder of a run
        options.require('model_dir')
    folder = chosen_models.results_dir(options)
    config = chosen_models.load_file_config(options, path, folder)
    _add_coco_files(options, config)
    task = _evaluated_task(options, config)
    predictor = chosen_models.open_file(path, task) if exported_file.is_foreign(path) else None
    metrics = training.evaluate_file(
        task,
        config,
        path,
        folder,
        _training_sample(options),
        options.analyze,
        predictor,
    )
    _print_metrics(config, metrics, artifacts.read_metrics(path))


def _watch_checkpoints(options: RunOptions) -> None:
    options.require('model_dir')
    config = flag_configs.load_config(options)
    task = build_task(config, options.mode)
    if options.eval_training_data:
        # As in the published front end, the training examples replace the others.
        del config.eval_input_reader[:]
    training.evaluate_checkpoints(
        task,
        config,
        options.model_dir,
        options.checkpoint_dir,
        run_once=options.run_once,
        max_retries=options.max_eval_retries,
        idle_seconds=options.eval_timeout,
        eval_training_data=_training_sample(options),
    )


def _export(options: RunOptions) -> None:
    if not options.model_dir and not options.pipeline_config_path:
        raise errors.UserError('--mode=export needs --model_dir (or --pipeline_config_path).')
    if options.repository:
        triton.check(options.format)
    config = flag_configs.load_config(options)
    task = build_task(config, options.mode)
    options.require('export_dir')
    checkpoint = chosen_models.chosen_checkpoint(options)
    writer = formats.create_writer(
        options.format,
        _changed(options, formats.option_names()),
        DeploymentOptions(**_changed(options, _DEPLOYMENT)),
    )
    measure = functools.partial(training.measure_file, task, config, checkpoint)
    path = exporting.export(task, config, checkpoint, options.export_dir, writer, measure=measure)
    if options.repository:
        log.info('config of the model for Triton: %s', triton.write_config(path))
    print(path)


def _changed(options: RunOptions, names: Iterable[str]) -> Dict[str, Any]:
    """Return the options with other values than their defaults, by name."""
    return {name: getattr(options, name) for name in names if not options.has_default(name)}


def _check(options: RunOptions) -> None:
    if options.show_augmented and not options.model_dir:
        raise errors.UserError(
            f'--show_augmented={options.show_augmented} writes to --model_dir; expected that flag '
            'too.'
        )
    config = flag_configs.load_config(options)
    check.check(
        make_task, config, options.model_dir, check_all=options.check_all, validate=validate
    )
    if options.show_augmented:
        path = augmented_sheet.write_sheet(
            make_task(config), config, options.model_dir, options.show_augmented
        )
        print(f'training examples: {path}')
    if options.propose_anchors:
        from model_fns.detection import anchor_proposal  # imports a task

        print('\n'.join(anchor_proposal.propose(make_task(config), config, options.check_all)))
    if options.write_config:
        data_command.write_improved(config, options.write_config)


def _training_sample(options: RunOptions) -> int:
    """Return n to evaluate every n-th training example; 0 for none."""
    return options.sample_1_of_n_eval_on_train_examples if options.eval_training_data else 0


def _print_metrics(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    metrics: Dict[str, Dict[str, float]],
    checkpoint_metrics: Mapping[str, Any] = {},
) -> None:
    """Print the metrics of each set, beside those of the checkpoint where they are known."""
    titles = evaluators.titles(config)
    for name, values in metrics.items():
        print(f'evaluation on {titles.get(name, name)}:')
        before = checkpoint_metrics.get(name, {})
        for metric in sorted(values):
            known = f' (checkpoint: {before[metric]:.6g})' if metric in before else ''
            print(f'  {metric} = {values[metric]:.6g}{known}')


def _print_end(
    model_dir: str,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    metrics: Dict[str, Dict[str, float]],
) -> None:
    """Print the metrics where the log has not shown them, and the paths of the results."""
    if not log.isEnabledFor(logging.INFO):
        _print_metrics(config, metrics)
    first = next(iter(metrics.values()), {})
    print('\n'.join(outline.last_lines(model_dir, first)))
