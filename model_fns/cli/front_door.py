"""What each mode of the front door does with the flags it was given."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from typing import Any, Callable, Dict, Mapping, Optional

from estimator_lib import distribution, errors, training
from estimator_lib.commands import check, outline, predict
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.evaluation import evaluators
from estimator_lib.export import artifacts, exporting, formats
from estimator_lib.hooks import preemption
from estimator_lib.task import AS_CONFIGURED, Shown
from model_fns import build_task, make_task, validate
from model_fns.cli import builtin_configs, chosen_models, flag_configs
from model_fns.datasets import image_sources
from model_fns.datasets.beam import runs
from model_fns.structures import images
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

# Flags that are paths.
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
)
# Flags that name a model in place of a checkpoint of `model_dir`.
_MODELS = ('checkpoint_path', 'checkpoint_dir', 'saved_model_dir', 'model_file')
_TASK_OPTIONS = ('max_detections', 'fast_nms')  # of an export, see `Task.deployable`


def run(flags: Any) -> None:
    """Runs the mode that the flags ask for.

    Args:
        flags: the parsed flags of `run_train_eval.py`.

    Raises:
        errors.UserError: a flag that the mode needs is missing, or what it names is not usable.
        preemption.Preempted: told to end, see `preemption_guard`.
    """
    if flags.pipeline_config_path == builtin_configs.PREFIX:
        print('\n'.join(builtin_configs.listed()))
        return
    for name in _PATHS:
        errors.refuse_placeholder(f'--{name}', flags[name].value)
    for name in ('run_once', 'max_eval_retries', 'eval_timeout'):
        if flags[name].value != flags[name].default and not flags.checkpoint_dir:
            raise errors.UserError(f'--{name} is of --checkpoint_dir; expected that flag too.')
    if flags.checkpoint_dir and flags.checkpoint_path:
        raise errors.UserError('--checkpoint_dir and --checkpoint_path: expected one of them.')
    other_model = any(flags[name].value for name in _MODELS)
    if flags.which and (other_model or not flags.model_dir):
        raise errors.UserError(
            f'--which={flags.which} chooses among the checkpoints of --model_dir; expected that '
            f'flag, and none of {", ".join(f"--{name}" for name in _MODELS)}.'
        )
    modes: Dict[str, Callable[[Any], None]] = {
        'train_and_evaluate': _watch_checkpoints if flags.checkpoint_dir else _train_and_evaluate,
        'train': _train_and_evaluate,
        'evaluate': _evaluate,
        'export': _export,
        'predict': _predict,
        'check': _check,
    }
    handles_signals = flags.mode in ('train_and_evaluate', 'train', 'evaluate')
    with preemption.preemption_guard() if handles_signals else contextlib.nullcontext():
        modes[flags.mode](flags)


def _train_and_evaluate(flags: Any) -> None:
    _need(flags, 'model_dir')
    config = flag_configs.load_config(flags)
    task = build_task(config, flags.mode)
    task_of_cluster = distribution.read_tf_config()
    is_chief = task_of_cluster is None or task_of_cluster.is_chief
    if is_chief:
        for line in outline.first_lines(task, config, _network(config)):
            log.info('%s', line)
    metrics = training.train_and_evaluate(
        task,
        config,
        flags.model_dir,
        evaluate=flags.mode == 'train_and_evaluate',
        eval_training_data=_training_sample(flags),
    )
    if is_chief or metrics:
        _print_end(flags.model_dir, config, metrics)


def _network(config: pipeline_pb2.TrainEvalPipelineConfig) -> str:
    """Returns the name of the network; that of the kind of model where it has no other."""
    kind = config.model.WhichOneof('model')
    model = getattr(config.model, kind)
    backbone = getattr(getattr(model, 'backbone', None), 'name', '')
    extractor = getattr(getattr(model, 'feature_extractor', None), 'type', '')
    return backbone or extractor or kind


def _evaluate(flags: Any) -> None:
    file = chosen_models.file_of(flags)
    if file:
        _evaluate_file(flags, file)
        return
    _need(flags, 'model_dir')
    config = flag_configs.load_config(flags)
    metrics = training.evaluate(
        build_task(config, flags.mode),
        config,
        flags.model_dir,
        chosen_models.chosen_checkpoint(flags),
        _training_sample(flags),
    )
    _print_metrics(config, metrics)


def _evaluate_file(flags: Any, path: str) -> None:
    """Evaluates a file for devices, and says what its checkpoint came to."""
    config = chosen_models.config_of_file(flags, path)
    metrics = training.evaluate_file(
        build_task(config, flags.mode), config, path, flags.model_dir, _training_sample(flags)
    )
    _print_metrics(config, metrics, artifacts.read_metrics(path))


def _watch_checkpoints(flags: Any) -> None:
    _need(flags, 'model_dir')
    config = flag_configs.load_config(flags)
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
        idle_seconds=flags.eval_timeout,
        eval_training_data=_training_sample(flags),
    )


def _export(flags: Any) -> None:
    if not flags.model_dir and not flags.pipeline_config_path:
        raise errors.UserError('--mode=export needs --model_dir (or --pipeline_config_path).')
    config = flag_configs.load_config(flags)
    task = build_task(config, flags.mode)
    _need(flags, 'export_dir')
    checkpoint = chosen_models.chosen_checkpoint(flags)
    given = {name: flags[name].value for name in formats.option_names() if _is_given(flags[name])}
    task_options = {name: flags[name].value for name in _TASK_OPTIONS if _is_given(flags[name])}
    writer = formats.create_writer(flags.format, given, task_options)
    print(exporting.export(task, config, checkpoint, flags.export_dir, writer))


def _is_given(flag: Any) -> bool:
    """Return True where a flag has another value than its default."""
    return bool(flag.value != flag.default)


def _predict(flags: Any) -> None:
    for name in ('images', 'output_dir'):
        _need(flags, name)
    if flags.score_threshold is not None and math.isnan(flags.score_threshold):
        raise errors.UserError('--score_threshold is nan; expected a number from 0.')
    if flags.raw and flags.output_format != 'json':
        raise errors.UserError(f'--raw: {flags.output_format} has no place for it; expected json.')
    if flags.runner_options and not flags.runner:
        raise errors.UserError('--runner_options: they are of a runner; expected --runner too.')
    runner = runs.runner_of(flags.runner, flags.runner_options) if flags.runner else None
    predictor, task, source = chosen_models.model_of(flags)
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
            functools.partial(chosen_models.open_model, source),
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
        if flags.whole_image:
            raise errors.UserError('--whole_image has no effect without --tile.')
        return None
    if flags.overlap >= flags.tile:
        raise errors.UserError(
            f'--overlap is {flags.overlap}; expected less than --tile, {flags.tile}.'
        )
    return Tiling(flags.tile, flags.overlap, flags.whole_image)


def _check(flags: Any) -> None:
    config = flag_configs.load_config(flags)
    check.check(make_task, config, flags.model_dir, check_all=flags.check_all, validate=validate)


def _training_sample(flags: Any) -> int:
    """Every how many-th training example is evaluated on; 0 for none."""
    return flags.sample_1_of_n_eval_on_train_examples if flags.eval_training_data else 0


def _need(flags: Any, name: str) -> None:
    if not flags[name].value:
        raise errors.UserError(f'--mode={flags.mode} needs --{name}.')


def _print_metrics(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    metrics: Dict[str, Dict[str, float]],
    of_checkpoint: Mapping[str, Any] = {},
) -> None:
    """Prints the metrics of each set, beside those of the checkpoint where these are known."""
    titles = evaluators.titles(config)
    for name, values in metrics.items():
        print(f'evaluation on {titles.get(name, name)}:')
        before = of_checkpoint.get(name, {})
        for metric in sorted(values):
            known = f' (checkpoint: {before[metric]:.6g})' if metric in before else ''
            print(f'  {metric} = {values[metric]:.6g}{known}')


def _print_end(
    model_dir: str,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    metrics: Dict[str, Dict[str, float]],
) -> None:
    """Prints the metrics, where the log has not shown them, and where things are."""
    if not log.isEnabledFor(logging.INFO):
        _print_metrics(config, metrics)
    first = next(iter(metrics.values()), {})
    print('\n'.join(outline.last_lines(model_dir, first)))
