"""`--mode=check`: a preview of a run, with all problems of its config, data and checkpoint."""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, environment, errors, texts, tf_estimator, training
from estimator_lib.checkpoints import (
    checkpoint_files,
    checkpoint_maps,
    class_match,
    fine_tuning,
    model_dirs,
    model_variables,
)
from estimator_lib.commands import outline, shared_images
from estimator_lib.data import inputs
from estimator_lib.data.corrupt_records import RecordProblem
from estimator_lib.distribution import gpu_code, half_types, mixed_precision
from estimator_lib.evaluation import evaluators
from estimator_lib.graphs import losses
from estimator_lib.optimization import gradients, moving_averages, optimize_loss
from estimator_lib.task import IMAGE, Task
from protos import input_reader_pb2, pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# Slots that an optimizer keeps for each trained parameter.
_SLOTS = {
    'rms_prop_optimizer': 2,
    'momentum_optimizer': 1,
    'adam_optimizer': 2,
    'adamw_optimizer': 2,
    'sgd_optimizer': 0,
    'adagrad_optimizer': 1,
    'adadelta_optimizer': 2,
    'ftrl_optimizer': 2,
}
_SAMPLE = 64  # records of each source that are inspected without `check_all`
_SMALL_BATCH = 8  # below it the statistics of batch normalization are mostly noise


class _Problems:
    """Collection of problems, so that one check reports all of them."""

    def __init__(self) -> None:
        self.messages: List[str] = []

    @contextlib.contextmanager
    def collecting(self, where: str = '') -> Iterator[None]:
        try:
            yield
        except errors.UserError as error:
            listed = error.problems if isinstance(error, errors.ConfigError) else [str(error)]
            for text in listed:
                self._add(f'{where}: {text}' if where else text)

    def _add(self, text: str) -> None:
        """Add a problem, unless validation has listed it, or the placeholder that it comes from."""
        named = errors.placeholders(' '.join(self.messages))
        is_of_placeholder = errors.placeholders(text) and errors.placeholders(text) <= named
        if not is_of_placeholder and not any(text in message for message in self.messages):
            self.messages.append(text)

    def add_records(self, reader: str, problems: Sequence[RecordProblem]) -> None:
        """Add a line for each kind of problem."""
        # A fault of a converter is in every record: a line for each would hide all other kinds.
        lines = texts.grouped([(each.place, each.problem) for each in problems], 'records')
        self.messages += [f'{reader}: {line}' for line in lines]


def check(
    make_task: Callable[[pipeline_pb2.TrainEvalPipelineConfig], Task],
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: Optional[str] = None,
    check_all: bool = False,
    validate: Callable[[pipeline_pb2.TrainEvalPipelineConfig], List[str]] = config_lib.validate,
) -> None:
    """Check config, data, label map and checkpoint, and print what a run would do.

    Args:
        make_task: builds the task of a config, which may be invalid.
        config: the config of the run.
        model_dir: the folder of the run; None if it is not known.
        check_all: check every record, not a sample.
        validate: validates the config, also by the rules of its task.

    Raises:
        errors.UserError: there are problems; the message lists all, a line each.
    """
    print(f'{environment.versions()}; {gpu_code.description()}')
    _warn(gpu_code.warnings())
    problems = _Problems()
    task = None
    with problems.collecting():
        validate(config)
    _check_paths(config, problems)
    with problems.collecting():
        task = make_task(config)
    if task is not None:
        with problems.collecting():
            evaluators.check(task, config)
        with problems.collecting():
            task.checks.check_evaluation()
        _check_data(task, config, check_all, problems)
        with problems.collecting():
            _print_lines(_plan_lines(task, config))
        with problems.collecting():
            _print_lines(outline.schedule_lines(config))
            _print_lines(_model_lines(task, config, model_dir))
    if problems.messages:
        count = texts.counted(len(problems.messages), 'problem')
        raise errors.UserError(f'{count} found:\n' + '\n'.join(problems.messages))
    print('no problem found')


def _check_paths(config: pipeline_pb2.TrainEvalPipelineConfig, problems: _Problems) -> None:
    """Look for all files of the config; later checks stop at the first missing one."""
    for name, reader in inputs.named_readers(config):
        with problems.collecting(name):
            inputs.input_files(reader)
    checkpoint = config.train_config.fine_tune_checkpoint
    if checkpoint:
        with problems.collecting():
            checkpoint_files.resolve_start(checkpoint, checkpoint_maps.FIELD)


def _check_data(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    check_all: bool,
    problems: _Problems,
) -> None:
    """Count and inspect the records of each reader, and print a report of the examples."""
    num_known = len(problems.messages)
    readers = inputs.named_readers(config)
    examined: Dict[str, List[Any]] = {name: [] for name, _ in readers}
    fingerprints: Dict[str, List[shared_images.Fingerprint]] = {name: [] for name, _ in readers}

    def examine(name: str, record: bytes) -> None:
        examined[name].append(task.checks.examine(record))
        fingerprint = shared_images.fingerprint(record)
        fingerprints[name] += [] if fingerprint is None else [fingerprint]

    sampled = False
    for name, reader in readers:
        with problems.collecting(name):
            paths = inputs.input_files(reader)
            count = inputs.count_records(paths)
            looked_at = count if check_all else min(count, _SAMPLE * len(paths))
            examples, files = texts.counted(count, 'example'), texts.counted(len(paths), 'file')
            print(f'{name}: {examples} in {files}, {looked_at} looked at')
            sampled |= looked_at < count
            record_problems = inputs.inspect_records(
                task,
                reader,
                check_all=check_all,
                examine=functools.partial(examine, name),
            )
            if reader.corrupt_record_policy == input_reader_pb2.SKIP and examined[name]:
                left_out = _Problems()
                left_out.add_records(name, record_problems)
                _warn(f'left out: {message}' for message in left_out.messages)
            else:
                problems.add_records(name, record_problems)
    with problems.collecting():
        report = task.checks.data_report(examined)
        _print_lines(report.lines)
        augmentations = ', '.join(task.augmentations())
        print(f'augmentation in training: {augmentations or "none"}')
        rest = ', of the records that were looked at (--check_all looks at all)' if sampled else ''
        # A problem of a sample may not be a problem of all records: it is only a warning.
        problems.messages += [*report.certain, *([] if sampled else report.problems)]
        warnings = [*report.problems, *report.warnings] if sampled else [*report.warnings]
        warnings += shared_images.compare(fingerprints)
        _warn(f'{warning}{rest}' for warning in warnings)
    training = config.train_input_reader
    skips = training.corrupt_record_policy == input_reader_pb2.SKIP
    if skips and len(problems.messages) == num_known:
        # The start of a run also looks at the records that the policy leaves out.
        with problems.collecting():
            inputs.check_first_examples(task, training)


def _plan_lines(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> List[str]:
    """Describe how training is distributed, by the config and `TF_CONFIG`."""
    plan = distribution.create_plan(config, distribution.read_tf_config())
    distribution.require_own_batches(plan, task.across_replicas())
    shares = max(plan.num_workers, plan.num_replicas)
    line = f'training uses {plan.mode.value}'
    if shares > 1:
        line += f': {shares} replicas, {plan.batch_size} examples a step'
    if config.train_config.accumulate_steps > 1:
        line += f', in {config.train_config.accumulate_steps} micro-batches one after the other'
    idle = distribution.idle_fields(plan, config.train_config)
    if config.train_config.use_bfloat16:
        _warn(half_types.warnings())
    return [line, *(f'{field} has no effect' for field in idle)]


def _model_lines(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: Optional[str]
) -> List[str]:
    """Build the training graph; describe its parameters, its memory and its restore."""
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        features, labels = training.train_input_fn(task, config)()
        features, _ = inputs.pop_reader_state(features)
        size = task.largest_input()
        if size:
            # Static sides, so that the sizes of activations are known without running the network.
            features[IMAGE].set_shape([None, *size, None])
        with model_variables.collected():
            predictions = task.predict(features, tf_estimator.ModeKeys.TRAIN, labels)
            losses.compute_losses(task, config, predictions, features, labels)
        variables = tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
        policy = gradients.GradientPolicy.from_config(
            config.train_config, task.checkpoints.last_layer_scopes
        )
        trained = optimize_loss.select_variables(None, policy)
        batch = [*features.values(), *labels.values()]
        activations = _activation_bytes(batch, config.train_config.batch_size)
        activations //= config.train_config.accumulate_steps
        memory = _memory_bytes(config, variables, trained, activations)
        available = environment.memory_bytes()
        of_size = f', for inputs of {size[0]} x {size[1]}' if size else ''
        depending = ', and activations that depend on the images' if task.pads_batches() else ''
        lines = [
            f'parameters: {_parameters(variables):,} in {len(variables)} variables, '
            f'{_parameters(trained):,} in {len(trained)} trained',
            f'memory: about {memory / 2**20:,.0f} MiB{of_size or depending}; this machine has '
            f'{available / 2**20:,.0f} MiB',
        ]
        if config.train_config.use_bfloat16:
            lines.append(mixed_precision.description(tf1.get_default_graph()))
        _warn(_training_warnings(task, config, memory, available))
        restored = model_variables.with_companions(tf1.get_default_graph())
        if model_dir:
            model_dirs.check_model_dir(model_dir, restored, complete=False)
            class_match.require_resumable(task.checkpoints, model_dir)
            step = checkpoint_files.latest_step(model_dir)
            lines.append(f'model_dir: {"resumes from step " + str(step) if step else "new"}')
        if config.train_config.fine_tune_checkpoint:
            report = fine_tuning.fine_tune_report(
                config.train_config,
                checkpoint_maps.fine_tuning_map(task, restored, config.train_config),
                task.checkpoints.last_layer_scopes,
                task.image_format.channels,
                functools.partial(class_match.find, task.checkpoints),
            )
            lines.append(report.table())
        return lines


def _training_warnings(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, memory: int, available: int
) -> Iterator[str]:
    """Yield warnings about memory, batch norm and averages of the training graph."""
    train_config = config.train_config
    if memory > available:
        yield (
            f'a training step needs about {memory / 2**20:,.0f} MiB, and this machine has '
            f'{available / 2**20:,.0f} MiB: without an accelerator that has them it will run out '
            f'of memory; lower train_config.batch_size ({train_config.batch_size}) or the size of '
            'the images, or divide each batch by train_config.accumulate_steps'
        )
    examples = train_config.batch_size // train_config.accumulate_steps
    if tf1.get_collection(tf1.GraphKeys.UPDATE_OPS) and examples < _SMALL_BATCH:
        parts = '' if examples == train_config.batch_size else f', in parts of {examples}'
        yield (
            f'train_config.batch_size is {train_config.batch_size}{parts}, and batch normalization '
            f'takes its statistics of each: below {_SMALL_BATCH} they are mostly noise; freeze '
            'them, or use larger batches'
        )
    averages = moving_averages.MovingAverages.from_config(
        train_config.optimizer, task.averages_model_variables()
    )
    if averages and not averages.of_model and train_config.num_steps:
        span = 1 / (1 - averages.decay)
        if span > train_config.num_steps:
            yield (
                f'train_config.optimizer.moving_average_decay is {averages.decay:g}: the averages '
                f'are of about {span:,.0f} steps, and the run has {train_config.num_steps:,}; they '
                'will mostly hold the initial values'
            )


def _memory_bytes(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    variables: List[tf.Variable],
    trained: List[tf.Variable],
    activations: int,
) -> int:
    """Return the bytes of weights, gradients, optimizer slots and activations."""
    slots = _SLOTS.get(config.train_config.optimizer.WhichOneof('optimizer'), 1)
    slots += config.train_config.optimizer.use_moving_average
    # float32. The 1 is the gradient of each trained parameter.
    return 4 * (_parameters(variables) + (1 + slots) * _parameters(trained)) + activations


def _activation_bytes(batch: Sequence[tf.Tensor], batch_size: int) -> int:
    """Return the bytes of all activations of known size that depend on a batch.

    Args:
        batch: features and labels. Tensors that do not depend on them, like weights, do not count.
        batch_size: the number of rows of tensors whose first dimension is not static.
    """
    todo = [operation for tensor in batch for operation in tensor.consumers()]
    seen = set(todo)
    total = 0
    while todo:
        for output in todo.pop().outputs:
            new = set(output.consumers()) - seen
            seen |= new
            todo.extend(new)
            shape = output.shape
            if shape.rank is None or shape.rank < 2 or not output.dtype.is_floating:
                continue
            sizes = [batch_size if shape[0] is None else shape[0], *shape[1:]]
            if None not in sizes:
                total += int(np.prod(sizes)) * output.dtype.size
    return total


def _parameters(variables: List[tf.Variable]) -> int:
    return sum(variable.shape.num_elements() for variable in variables)


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(texts.printable(line))


def _warn(warnings: Iterable[str]) -> None:
    _print_lines([f'warning: {warning}.' for warning in warnings])
