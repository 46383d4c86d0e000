"""`train_loop` and `eval_continuously`, with the arguments of the TensorFlow 2 loop.

    from model_fns.tf2_api import loops

    loops.train_loop('pipeline.config', 'my_run', num_steps_per_iteration=100)

The arguments become a config with `train_config.loop: TF_FUNCTION`, which `estimator_lib.training`
runs for any task. So training ends exactly at the requested number of steps, uses the config's
freezing, multipliers and clipping, and saves complete checkpoints that are named by their step, the
last step included.
"""

from __future__ import annotations

import functools
import glob
import inspect
import logging
import os
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, training
from estimator_lib.checkpoints import checkpoint_files
from model_fns import build_task, durations_in_steps
from model_fns.tf2_api import overrides
from protos import input_reader_pb2, pipeline_pb2, train_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

Config = pipeline_pb2.TrainEvalPipelineConfig
Override = Union[None, str, Config]
PerformanceExporter = Callable[[Dict[str, float], str], None]

_LOSS, _RATE = 'Loss/total_loss', 'speed/steps_per_second'


def _with_hparams(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Accept `hparams` before the arguments of a loop, as older versions of the published loop do.

    Its values are keyword arguments of the loop, which those of the call replace.
    """

    @functools.wraps(loop)
    def call(*arguments: Any, hparams: Any = None, **options: Any) -> Any:
        # Older versions take hparams first, newer ones a path: the type tells which is meant.
        if arguments and not isinstance(arguments[0], (str, os.PathLike)):
            hparams, arguments = arguments[0], arguments[1:]
        given = inspect.signature(loop).bind_partial(*arguments).arguments
        values = overrides.hparams_values(hparams)
        values = {name: value for name, value in values.items() if name not in given}
        return loop(*arguments, **{**values, **options})

    return call


@_with_hparams
def train_loop(
    # Order and defaults are those of the Object Detection API 2.8, whose callers pass positions.
    pipeline_config_path: str,
    model_dir: str,
    config_override: Override = None,
    train_steps: Optional[int] = None,
    use_tpu: bool = False,
    save_final_config: bool = False,
    checkpoint_every_n: int = 1000,
    checkpoint_max_to_keep: int = 7,
    record_summaries: bool = True,
    performance_summary_exporter: Optional[PerformanceExporter] = None,
    num_steps_per_iteration: int = 100,
    export_to_tpu: Optional[bool] = None,
    **kwargs: Any,
) -> None:
    """Train the model of a pipeline config, without evaluations.

    Args:
        pipeline_config_path: of the config.
        model_dir: folder of checkpoints and events; training resumes from a checkpoint there.
        config_override: a config, or its text, that is merged over the file.
        train_steps: the global step at which training ends; None: `train_config.num_steps`.
        use_tpu: TPUs are not supported: False.
        save_final_config: has no effect: the config is always saved as `model_dir/pipeline.config`.
        checkpoint_every_n: steps between two checkpoints; the last step has one too.
        checkpoint_max_to_keep: number of the latest checkpoints to keep.
        record_summaries: whether TensorBoard gets pictures of the input; it always gets scalars.
        performance_summary_exporter: called at the end with `steps_per_sec`, `steps_per_sec_p50`,
            `steps_per_sec_max` and `last_batch_loss`, and with `fp32` or `bf16`.
        num_steps_per_iteration: steps in a call of the compiled function, and between two sets of
            scalars; the last call may have fewer.
        export_to_tpu: TPUs are not supported: None or False.
        **kwargs: values that replace those of the config: `learning_rate` (the initial rate; a
            warm-up and manual steps keep their ratio to it), `momentum_optimizer_value`,
            `batch_size`, `use_bfloat16`, `num_classes`, `label_map_path`, `train_input_path`,
            `eval_input_path`, `mask_type`, `eval_with_moving_averages` and
            `sample_1_of_n_eval_examples`; and fields by their path, such as
            `**{'train_config.batch_size': 8}`. `hparams=`, or a first argument that is no path,
            holds such values too: None, a mapping, or an object with a method `values`.

    Raises:
        errors.UserError: an argument, the config or the data are not usable as they are.
    """
    _refuse(use_tpu=use_tpu, export_to_tpu=export_to_tpu)
    _refuse_scope()
    for name, value in (
        ('checkpoint_every_n', checkpoint_every_n),
        ('num_steps_per_iteration', num_steps_per_iteration),
    ):
        if value < 1:
            raise errors.ConfigError(f'{name} is {value}; expected at least 1.')
    config = _load(pipeline_config_path, config_override, train_steps, kwargs)
    train_config = config.train_config
    train_config.loop = train_pb2.TF_FUNCTION
    train_config.steps_per_call = num_steps_per_iteration
    train_config.checkpoints.save_every_n_steps = checkpoint_every_n
    train_config.checkpoints.keep_max = checkpoint_max_to_keep
    reports = train_config.progress
    # The published loop writes scalars once for each call of its function.
    reports.every_n_steps = reports.summary_every_n_steps = num_steps_per_iteration
    reports.pictures_every_n_steps = num_steps_per_iteration if record_summaries else 0
    # Before the run: events of an earlier run in this folder do not count in its speed.
    start = checkpoint_files.latest_step(model_dir)
    training.train_and_evaluate(build_task(config, 'train'), config, model_dir, evaluate=False)
    if performance_summary_exporter is not None:
        precision = 'bf16' if train_config.use_bfloat16 else 'fp32'
        performance_summary_exporter(_performance(model_dir, start), precision)


@_with_hparams
def eval_continuously(
    pipeline_config_path: str,
    config_override: Override = None,
    train_steps: Optional[int] = None,
    sample_1_of_n_eval_examples: Optional[int] = 1,
    sample_1_of_n_eval_on_train_examples: int = 1,
    use_tpu: bool = False,
    override_eval_num_epochs: bool = True,
    postprocess_on_cpu: bool = False,
    model_dir: Optional[str] = None,
    checkpoint_dir: Optional[str] = None,
    wait_interval: float = 180,
    timeout: float = 3600,
    eval_index: int = 0,
    save_final_config: bool = False,
    export_to_tpu: Optional[bool] = None,
    **kwargs: Any,
) -> Dict[str, Dict[str, float]]:
    """Evaluate the checkpoints of a folder as another process writes them.

    It ends after the checkpoint of the last step, or after `timeout` without a new one. After each
    evaluation it takes the latest checkpoint and skips those in between.

    Args:
        pipeline_config_path: of the config.
        config_override: a config, or its text, that is merged over the file.
        train_steps: the last step; None: `train_config.num_steps`.
        sample_1_of_n_eval_examples: evaluate on every n-th example; None: on all.
        sample_1_of_n_eval_on_train_examples: has no effect: training examples are not evaluated.
        use_tpu: TPUs are not supported: False.
        override_eval_num_epochs: an evaluation reads its examples once: True.
        postprocess_on_cpu: without a TPU, TensorFlow places post-processing: False.
        model_dir: folder for metrics and events.
        checkpoint_dir: folder of the checkpoints.
        wait_interval: least number of seconds between the starts of two evaluations.
        timeout: seconds without a new checkpoint after which this ends.
        eval_index: index of the `eval_input_reader` to evaluate.
        save_final_config: whether `model_dir/pipeline.config` is written.
        export_to_tpu: TPUs are not supported: None or False.
        **kwargs: values that replace those of the config, and `hparams`, as in `train_loop`.

    Returns:
        The metrics of the last evaluation, by evaluation set.

    Raises:
        errors.UserError: an argument, the config or the data are not usable as they are.
    """
    if sample_1_of_n_eval_on_train_examples != 1:
        log.warning('sample_1_of_n_eval_on_train_examples: training examples are not evaluated on')
    _refuse(use_tpu=use_tpu, export_to_tpu=export_to_tpu, postprocess_on_cpu=postprocess_on_cpu)
    if not override_eval_num_epochs:
        raise errors.ConfigError(
            f'override_eval_num_epochs is {override_eval_num_epochs}, but an evaluation reads '
            'its examples once; expected True.'
        )
    for name, folder in (('model_dir', model_dir), ('checkpoint_dir', checkpoint_dir)):
        if not folder:
            raise errors.ConfigError(f'{name} is {folder!r}; expected a folder.')
    config = _load(pipeline_config_path, config_override, train_steps, kwargs)
    reader = _select_reader(config, eval_index)
    reader.sample_1_of_n_examples = sample_1_of_n_eval_examples or 1
    if save_final_config:
        config_lib.save_pipeline_config(config, model_dir)
    return training.evaluate_checkpoints(
        build_task(config, 'evaluate'),
        config,
        model_dir,
        checkpoint_dir,
        poll_seconds=wait_interval,
        idle_seconds=timeout,
    )


def _load(
    path: str, override: Override, train_steps: Optional[int], options: Dict[str, Any]
) -> Config:
    """Load the config for the arguments that both functions share."""
    texts = [override] if isinstance(override, str) else []
    config = config_lib.load_pipeline_config(path, overrides=texts)
    if isinstance(override, Config):
        config = config_lib.merge_pipeline_configs(config, override)
    config = overrides.apply(config, options)
    # Last, so that the argument wins over a value at train_config.num_steps.
    config = overrides.apply(config, {'train_steps': train_steps})
    return durations_in_steps(config)


def _select_reader(config: Config, index: int) -> input_reader_pb2.InputReader:
    """Remove all evaluation readers but one from the config; return that one."""
    readers = config.eval_input_reader
    if not 0 <= index < len(readers):
        raise errors.ConfigError(
            f'eval_index is {index}, and the config has {len(readers)} eval_input_reader; expected '
            'the index of one, from 0.'
        )
    # In place: a repeated field of messages cannot be assigned.
    del readers[index + 1 :]
    del readers[:index]
    return readers[0]


def _refuse(**tpu_options: Optional[bool]) -> None:
    for name, value in tpu_options.items():
        if value:
            raise errors.ConfigError(f'{name} is {value}: TPUs are not supported; expected False.')


def _refuse_scope() -> None:
    """Refuse the scope of a strategy: the config chooses the devices."""
    if tf.distribute.has_strategy():
        strategy = type(tf.distribute.get_strategy()).__name__
        raise errors.ConfigError(
            f'train_loop was called in the scope of a {strategy}, but the config chooses the '
            'devices; expected a call outside of the scope, and for several devices '
            'train_config { cluster { mode: MIRRORED } }.'
        )


def _performance(model_dir: str, start: int) -> Dict[str, float]:
    """Read the reported speed and the last loss of a run that started at a step."""
    scalars: List[Tuple[int, str, float]] = []
    for path in glob.glob(os.path.join(glob.escape(model_dir), 'events*')):
        for event in tf1.train.summary_iterator(path):
            for value in event.summary.value:
                if event.step > start and value.tag in (_LOSS, _RATE):
                    scalars.append((event.step, value.tag, value.simple_value))
    # Sorted by step: a resumed run has several event files, whose names are not in this order. A
    # run at its last step reports nothing.
    rates = [value for _, tag, value in sorted(scalars) if tag == _RATE] or [float('nan')]
    losses = [value for _, tag, value in sorted(scalars) if tag == _LOSS] or [float('nan')]
    return {
        'steps_per_sec': float(np.mean(rates)),
        'steps_per_sec_p50': float(np.median(rates)),
        'steps_per_sec_max': float(np.max(rates)),
        'last_batch_loss': losses[-1],
    }
