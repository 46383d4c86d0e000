"""What each mode of the front door does with the flags it was given."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from estimator_lib import config as config_lib
from estimator_lib import distribution, errors, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.commands import check, predict
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import (
    deploying,
    exported_model,
    exporting,
    frozen_graph,
    serving,
    writers,
)
from estimator_lib.task import AS_CONFIGURED, Shown, Task
from model_fns import build_task, builtin_configs, images, label_map_files, make_task, validate
from model_fns.datasets import demo, image_sources
from model_fns.datasets.beam import runs
from protos import export_pb2, pipeline_pb2

log = logging.getLogger('estimator_lib')

_SERVING_INPUTS = {
    'image_tensor': export_pb2.IMAGE_TENSOR,
    'encoded_image_string_tensor': export_pb2.ENCODED_IMAGE_STRING_TENSOR,
    'tf_example': export_pb2.SERIALIZED_TF_EXAMPLE,
}

# Flags that are paths.
_PATHS = (
    'model_dir',
    'pipeline_config_path',
    'checkpoint_path',
    'checkpoint_dir',
    'export_dir',
    'saved_model_dir',
    'images',
    'output_dir',
)
_TASK_OPTIONS = ('max_detections', 'fast_nms')  # of an export, see `Task.deployable`
_TRAINED = ('evaluate', 'export', 'predict')  # modes that need a model, not its training


def run(flags: Any) -> None:
    """Runs the mode that the flags ask for.

    Args:
        flags: the parsed flags of `run_train_eval.py`.

    Raises:
        errors.UserError: a flag that the mode needs is missing, or what it names is not usable.
    """
    for name in _PATHS:
        errors.refuse_placeholder(f'--{name}', flags[name].value)
    if flags.checkpoint_dir and flags.mode == 'train_and_evaluate':
        _watch_checkpoints(flags)
    else:
        modes: Dict[str, Callable[[Any], None]] = {
            'train_and_evaluate': _train_and_evaluate,
            'train': _train_and_evaluate,
            'evaluate': _evaluate,
            'export': _export,
            'predict': _predict,
            'check': _check,
        }
        modes[flags.mode](flags)


def load_config(flags: Any) -> pipeline_pb2.TrainEvalPipelineConfig:
    """The pipeline config of a run: file, then overrides, then single fields, then flags.

    What has been trained needs no path of its training: see `label_map_files.localize`.
    """
    settings = list(flags.set)
    if flags.num_train_steps is not None:
        settings.append(f'train_config.num_steps={flags.num_train_steps}')
    path = flags.pipeline_config_path or config_lib.saved_pipeline_config(flags.model_dir)
    if not path and flags.mode in _TRAINED and flags.checkpoint_path:
        path = config_lib.saved_pipeline_config(os.path.dirname(flags.checkpoint_path))
    if path:
        config = _load_file(flags, path, settings)
    else:
        log.info('no --pipeline_config_path: running the embedded demo')
        config = config_lib.parse_pipeline_config(
            demo.demo_pipeline_text(), 'the embedded demo', flags.config_override, settings
        )
    if flags.sample_1_of_n_eval_examples > 1:
        for reader in config.eval_input_reader:
            reader.sample_1_of_n_examples = flags.sample_1_of_n_eval_examples
    return config


def _load_file(
    flags: Any, path: str, settings: Sequence[str] = ()
) -> pipeline_pb2.TrainEvalPipelineConfig:
    path = builtin_configs.resolve(path)
    config = config_lib.load_pipeline_config(path)
    if flags.checkpoint_dir or flags.mode in _TRAINED:
        checkpoint = flags.checkpoint_path or flags.checkpoint_dir or ''
        folders = [flags.model_dir, os.path.dirname(path), checkpoint, os.path.dirname(checkpoint)]
        label_map_files.localize(config, folders, only_names=flags.mode in ('export', 'predict'))
    config = config_lib.apply_overrides(config, flags.config_override)
    return config_lib.apply_settings(config, settings or flags.set)


def _train_and_evaluate(flags: Any) -> None:
    _need(flags, 'model_dir')
    if flags.checkpoint_path:
        raise errors.UserError(
            '--checkpoint_path is read by --mode=evaluate and --mode=export; training starts from '
            f'a checkpoint with --set train_config.fine_tune_checkpoint={flags.checkpoint_path}'
        )
    config = load_config(flags)
    task = build_task(config, flags.mode)
    metrics = training.train_and_evaluate(
        task,
        config,
        flags.model_dir,
        evaluate=flags.mode == 'train_and_evaluate',
        eval_training_data=_training_sample(flags),
    )
    task_of_cluster = distribution.read_tf_config()
    if task_of_cluster is None or task_of_cluster.is_chief or metrics:
        _print_next(flags.model_dir, metrics)


def _evaluate(flags: Any) -> None:
    _need(flags, 'model_dir')
    config = load_config(flags)
    metrics = training.evaluate(
        build_task(config, flags.mode),
        config,
        flags.model_dir,
        flags.checkpoint_path or flags.checkpoint_dir,
        _training_sample(flags),
    )
    _print_metrics(metrics)


def _watch_checkpoints(flags: Any) -> None:
    _need(flags, 'model_dir')
    config = load_config(flags)
    task = build_task(config, flags.mode)
    if flags.eval_training_data:
        # As the published front end does: the training examples instead of the others.
        del config.eval_input_reader[:]
    training.evaluate_checkpoints(
        task,
        config,
        flags.model_dir,
        flags.checkpoint_dir,
        run_once=flags.run_once,
        max_retries=flags.max_eval_retries,
        eval_training_data=_training_sample(flags),
    )


def _export(flags: Any) -> None:
    if not flags.model_dir and not flags.pipeline_config_path:
        raise errors.UserError('--mode=export needs --model_dir (or --pipeline_config_path).')
    config = load_config(flags)
    task = build_task(config, flags.mode)
    _need(flags, 'export_dir')
    checkpoint = checkpoint_files.resolve_checkpoint(flags.checkpoint_path or flags.model_dir)
    if flags.format == 'frozen_graph':
        _refuse_of_saved_models(flags)
        _refuse_of_devices(flags)
        print(frozen_graph.export_frozen_graph(task, config, checkpoint, flags.export_dir))
        return
    if flags.format != 'saved_model':
        print(_export_file(flags, task, config, checkpoint))
        return
    _refuse_of_devices(flags)
    if flags.input_type:
        serving_input = _SERVING_INPUTS[flags.input_type]
    else:
        serving_input = config.export_config.serving_input
    path = exporting.export_saved_model(
        task,
        config,
        checkpoint,
        flags.export_dir,
        serving_input,
        signature_name=flags.signature_name,
        warmup_requests=flags.warmup_requests,
    )
    print(path)


def _export_file(
    flags: Any, task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, checkpoint: str
) -> str:
    """Writes a file for small devices; returns its folder."""
    _refuse_of_saved_models(flags)
    if flags.input_type:
        raise errors.UserError(
            f'--input_type={flags.input_type} is of --format=saved_model: a file for small devices '
            'takes pixels; leave it out.'
        )
    return deploying.export_file(
        task,
        config,
        checkpoint,
        flags.export_dir,
        flags.format,
        writers.Request(flags.quantize, flags.representative_examples),
        {name: flags[name].value for name in _TASK_OPTIONS if flags[name].value},
    )


def _refuse_of_saved_models(flags: Any) -> None:
    """Refuses flags that say something of signatures, which other formats do not have."""
    if flags.format == 'frozen_graph' and flags.input_type not in (None, 'image_tensor'):
        raise errors.UserError(
            f'--input_type={flags.input_type}: a frozen graph takes image_tensor; expected that, '
            'or --format=saved_model.'
        )
    for name in ('signature_name', 'warmup_requests'):
        if flags[name].value:
            raise errors.UserError(f'--{name} is of --format=saved_model; leave it out.')


def _refuse_of_devices(flags: Any) -> None:
    """Refuses flags of files for small devices."""
    for name in ('quantize', 'representative_examples', *_TASK_OPTIONS):
        if flags[name].value != flags[name].default:
            raise errors.UserError(f'--{name} is of --format=tflite; leave it out.')


def _predict(flags: Any) -> None:
    for name in ('images', 'output_dir'):
        _need(flags, name)
    if flags.raw and flags.output_format != 'json':
        raise errors.UserError(f'--raw: {flags.output_format} has no place for it; expected json.')
    if flags.runner_options and not flags.runner:
        raise errors.UserError('--runner_options: they are of a runner; expected --runner too.')
    runner = runs.runner_of(flags.runner, flags.runner_options) if flags.runner else None
    predictor, task, source = _model(flags)
    max_pixels = images.MAX_PIXELS if source.config is None else images.pixel_limit(source.config)
    decoding = flags.exif == 'apply', max_pixels
    found = image_sources.find_images(flags.images, *decoding)
    found.refuse_overwriting(flags.output_dir)
    worth_showing = AS_CONFIGURED if task is None else task.worth_showing(predictor.metrics)
    if flags.score_threshold is None and worth_showing.least_score is not None:
        text = 'shown is what has a score of %.3g or more: the best F1 in the evaluation'
        log.info(text, worth_showing.least_score)
    options = predict.Options(
        Shown(flags.score_threshold, flags.top_k),
        worth_showing,
        flags.output_format,
        flags.raw,
        skips=flags.on_error == 'skip',
        tiling=_tiling(flags),
    )
    count, output_dir = found.count(), flags.output_dir
    if runner is None:
        skipped = predict.predict_images(predictor, task, found, output_dir, options, count)
    else:
        from model_fns.datasets.beam import prediction

        skipped = prediction.predict_images(
            functools.partial(_open, source),
            found,
            functools.partial(image_sources.Decoder, *decoding),
            output_dir,
            options,
            runner,
        )
    print(f'images predicted: {count - len(skipped)}, skipped: {len(skipped)}; {flags.output_dir}')
    print('\n'.join(f'skipped: {problem}' for problem in skipped), end='\n' if skipped else '')


def _tiling(flags: Any) -> Optional[Tiling]:
    """How images are cut, where the flags ask for it."""
    if flags.tile is None:
        return None
    if flags.overlap >= flags.tile:
        raise errors.UserError(
            f'--overlap is {flags.overlap}; expected less than --tile, {flags.tile}.'
        )
    return Tiling(flags.tile, flags.overlap)


class _ModelSource(NamedTuple):
    """What a model is loaded from; it can be pickled.

    Attributes:
        path: of a SavedModel or a checkpoint.
        signature_name: of the SavedModel; None: it is a checkpoint.
        config: None: not known, and neither is what outputs mean.
    """

    path: str
    signature_name: Optional[str]
    config: Optional[pipeline_pb2.TrainEvalPipelineConfig]


class _Model(NamedTuple):
    """The model that predictions are asked of.

    Attributes:
        predictor: runs it.
        task: what its outputs mean; None: not known.
        source: what it was loaded from.
    """

    predictor: exported_model.Predictor
    task: Optional[Task]
    source: _ModelSource


def _model(flags: Any) -> _Model:
    """The model that is asked for."""
    if not flags.saved_model_dir:
        if not (flags.model_dir or flags.checkpoint_path):
            raise errors.UserError(
                '--mode=predict needs --saved_model_dir (or --model_dir or --checkpoint_path).'
            )
        checkpoint = flags.checkpoint_path or flags.model_dir
        source = _ModelSource(checkpoint, None, load_config(flags))
        return _Model(*_open(source), source)
    for name in ('model_dir', 'checkpoint_path'):
        if flags[name].value:
            raise errors.UserError(f'--saved_model_dir and --{name}: expected one of them.')
    signature_name = flags.signature_name or serving.DEFAULT_SIGNATURE
    predictor = exported_model.Predictor(flags.saved_model_dir, signature_name)
    path = flags.pipeline_config_path or predictor.config_path
    if path is None:
        log.warning('%s holds no pipeline.config: no pictures are drawn', predictor.path)
        return _Model(predictor, None, _ModelSource(predictor.path, signature_name, None))
    source = _ModelSource(predictor.path, signature_name, _load_file(flags, path))
    return _Model(predictor, build_task(source.config, flags.mode), source)


def _open(source: _ModelSource) -> Tuple[exported_model.Predictor, Optional[Task]]:
    """Loads a model, and its task."""
    task = None if source.config is None else build_task(source.config, 'predict')
    if source.signature_name is None:
        return exported_model.CheckpointPredictor(task, source.config, source.path), task
    return exported_model.Predictor(source.path, source.signature_name), task


def _check(flags: Any) -> None:
    config = load_config(flags)
    check.check(make_task, config, flags.model_dir, check_all=flags.check_all, validate=validate)


def _training_sample(flags: Any) -> int:
    """Every how many-th training example is evaluated on; 0 for none."""
    return flags.sample_1_of_n_eval_on_train_examples if flags.eval_training_data else 0


def _need(flags: Any, name: str) -> None:
    if not flags[name].value:
        raise errors.UserError(f'--mode={flags.mode} needs --{name}.')


def _print_metrics(metrics: Dict[str, Dict[str, float]]) -> None:
    for name, values in metrics.items():
        print(f'evaluation on {name}:')
        for metric in sorted(values):
            print(f'  {metric} = {values[metric]:.6g}')


def _print_next(model_dir: str, metrics: Dict[str, Dict[str, float]]) -> None:
    """Where things are, and what to try next."""
    _print_metrics(metrics)
    exported = exporting.latest_export(os.path.join(model_dir, 'export'))
    lines: Sequence[str] = [
        f'checkpoints, events and pipeline.config: {model_dir}',
        f'curves and pictures: tensorboard --logdir={model_dir}',
    ]
    if exported:
        lines = [
            *lines,
            f'exported model: {exported}',
            'next: run_train_eval.py --mode=predict '
            f'--saved_model_dir={exported} --images="*.jpg" --output_dir=predictions',
        ]
    print('\n'.join(lines))
