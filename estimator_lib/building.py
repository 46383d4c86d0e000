"""Parts of a run: the Estimator or the other loop's trainer, its options and its input functions.

What repeats or inspects steps builds the same parts with the functions that a run uses.
"""

from __future__ import annotations

from typing import Optional, Union

import tensorflow as tf

from estimator_lib import distribution, model_fn, tf_estimator
from estimator_lib.checkpoints import savers
from estimator_lib.data import inputs
from estimator_lib.distribution import mixed_precision, run_configs
from estimator_lib.evaluation import evaluators
from estimator_lib.export.writers import GraphHook
from estimator_lib.function_loop import trainer
from estimator_lib.task import Task
from protos import pipeline_pb2, train_pb2

tf1 = tf.compat.v1

Trainer = Union[tf_estimator.Estimator, trainer.FunctionTrainer]


def create_estimator(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    graph_hook_fn: GraphHook = None,
    plan: Optional[distribution.Plan] = None,
    trains: bool = True,
) -> tf_estimator.Estimator:
    """Create the Estimator of a task.

    Args:
        task: the task to train.
        config: has the cadence of checkpoints and summaries, the seed and the precision.
        model_dir: the folder of checkpoints and events.
        graph_hook_fn: changes the graph, as in `model_fn.create_model_fn`.
        plan: the distribution plan; None: one device, as in evaluation and export.
        trains: False for an Estimator that only evaluates and exports, which it does in float32.
    """
    return tf_estimator.Estimator(
        model_fn.create_model_fn(task, config, graph_hook_fn),
        model_dir=model_dir,
        config=create_run_config(config, model_dir, plan, trains),
    )


def create_trainer(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    graph_hook_fn: GraphHook,
    plan: distribution.Plan,
) -> Trainer:
    """Create the trainer of the config's loop; the arguments are those of `create_estimator`."""
    if config.train_config.loop == train_pb2.ESTIMATOR:
        return create_estimator(task, config, model_dir, graph_hook_fn, plan)
    return trainer.FunctionTrainer(
        model_fn.create_step_fn(task, config, graph_hook_fn),
        create_run_config(config, model_dir, plan),
        config.train_config,
    )


def create_run_config(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: Optional[str],
    plan: Optional[distribution.Plan] = None,
    trains: bool = True,
) -> tf_estimator.RunConfig:
    """Create the config of a run: cadences, seed, session options and devices.

    Args:
        config: the pipeline config.
        model_dir: the folder of the run, or None.
        plan: the distribution plan; None: one device.
        trains: False for a run that only evaluates and exports.
    """
    train_config = config.train_config
    saves = train_config.checkpoints
    by_steps = saves.WhichOneof('cadence') == 'save_every_n_steps'
    every = {
        'save_checkpoints_steps': saves.save_every_n_steps if by_steps else None,
        'save_checkpoints_secs': (
            None if by_steps else saves.save_every_n_seconds or savers.DEFAULT_SAVE_SECONDS
        ),
    }
    return run_configs.create(
        plan or distribution.alone(config),
        create_session_config(
            trains and train_config.use_bfloat16, train_config.per_process_gpu_memory_fraction
        ),
        model_dir=model_dir,
        tf_random_seed=train_config.random_seed,
        save_summary_steps=None,  # see summaries.TrainingScalars
        # TensorFlow's StepCounterHook would log and write the speed a second time.
        log_step_count_steps=None,
        keep_checkpoint_max=saves.keep_max or None,
        keep_checkpoint_every_n_hours=train_config.keep_checkpoint_every_n_hours,
        **every,
    )


def create_session_config(
    use_bfloat16: bool = False, gpu_memory_fraction: float = 0.0
) -> tf1.ConfigProto:
    """Create the session options.

    Args:
        use_bfloat16: compute in a half type where `mixed_precision` says that it is faster.
        gpu_memory_fraction: the largest part of each GPU's memory to take, at most 1; 0: all.
    """
    # Ops without a kernel for GPUs, as those of strings and lookup tables, run on the processor.
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    # Otherwise the first process takes all memory of each GPU, and an evaluator beside it finds
    # none.
    session_config.gpu_options.allow_growth = True
    session_config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
    # These two rewrites take a third of the preparation of a graph and bring nothing here: one
    # saves memory, which suffices, and the other repeats the work of its neighbors.
    rewrites = session_config.graph_options.rewrite_options
    rewrites.memory_optimization = rewrites.NO_MEM_OPT
    rewrites.disable_tfg_optimizer = True
    if use_bfloat16:
        mixed_precision.rewrite(session_config)
    return session_config


def train_input_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    plan: Optional[distribution.Plan] = None,
) -> inputs.RecordInput:
    """Create the input function of training, with this worker's part of the examples.

    Args:
        task: decodes and augments the examples.
        config: has the reader.
        plan: the distribution plan; None: one device.
    """
    plan = plan or distribution.alone(config)
    return inputs.create_input_fn(
        task,
        config.train_input_reader,
        tf_estimator.ModeKeys.TRAIN,
        batch_size=plan.batch_size,
        seed=config.train_config.random_seed,
        batch_parts=plan.input_parts,
        share_batches=plan.is_synchronous,
        repeat_factor_threshold=config.train_config.repeat_factor_threshold,
    )


def eval_input_fn(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> inputs.RecordInput:
    """Create the input function of one pass over the first `eval_input_reader`.

    It is for Estimators, which see whole images: `eval_config.tiles` has no effect.

    Args:
        task: decodes the examples.
        config: has the reader.

    Raises:
        errors.ConfigError: the config has no `eval_input_reader`.
    """
    # A copy: others read the tiles of the caller's config.
    whole = type(config)()
    whole.CopyFrom(config)
    whole.eval_config.ClearField('tiles')
    return evaluators.evaluation_sets(task, whole)[0].input_fn
