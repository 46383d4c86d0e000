"""The evaluator of a pipeline config: sets of examples, exports and early stopping."""

from __future__ import annotations

import math
import os
from typing import Dict, List, Optional, Sequence, Tuple

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.config import metric_choices
from estimator_lib.data import inputs
from estimator_lib.evaluation import early_stopping, evaluating, tiles
from estimator_lib.export import export_policies
from estimator_lib.export.writers import GraphHook
from estimator_lib.graphs import losses
from estimator_lib.run_records import results
from estimator_lib.task import Task
from protos import input_reader_pb2, pipeline_pb2, reader_paths

TRAINING_DATA = 'training_data'

_TILED_BATCHES = 2  # that are decoded at the same time, so that the network need not wait


def create_evaluator(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    estimator: tf_estimator.Estimator,
    eval_training_data: int = 0,
    graph_hook_fn: GraphHook = None,
    further_exporters: Sequence[tf_estimator.Exporter] = (),
) -> evaluating.Evaluator:
    """Create the evaluator of a training run, with its exports and early stopping.

    Args:
        task: the task of the model.
        config: has the evaluation sets, metrics, exports and early stopping.
        estimator: the Estimator of the task.
        eval_training_data: n: evaluate every n-th training example as well; 0: none.
        graph_hook_fn: changes the graphs of evaluation and export, as in
            `model_fn.create_model_fn`.
        further_exporters: exporters to call after those of the config.
    """
    sets = evaluation_sets(task, config, eval_training_data)
    stopping = create_stopping(config, estimator.model_dir, eval_training_data)
    step = checkpoint_files.latest_step(estimator.model_dir)
    results.Results(estimator.model_dir).forget_after(step)
    exporters = export_policies.create_exporters(task, config, estimator.model_dir, graph_hook_fn)
    exporters += [
        export_policies.EstimatorExporter(exporter, estimator, config.train_config.num_steps)
        for exporter in further_exporters
    ]
    analyze_from = None
    if config.eval_config.analyze:
        analyze_from = config.train_config.num_steps or math.inf
    return evaluating.Evaluator(
        task, config, estimator, sets, exporters, stopping, graph_hook_fn, analyze_from
    )


def create_stopping(
    config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str, eval_training_data: int = 0
) -> Optional[early_stopping.EarlyStopping]:
    """Create the early stopping of a run; return None if the config has none.

    Args:
        config: the config of the run.
        model_dir: the folder of the run; the state is in the folder of the first evaluation set.
        eval_training_data: n: evaluate every n-th training example as well; 0: none.
    """
    if not config.train_config.HasField('early_stopping'):
        return None
    first, _ = _named_readers(config, eval_training_data)[0]
    return early_stopping.EarlyStopping.from_config(
        config.train_config.early_stopping,
        os.path.join(model_dir, f'eval_{first}'),  # as `Estimator.eval_dir`
        run_step=checkpoint_files.latest_step(model_dir),
    )


def evaluation_sets(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, eval_training_data: int = 0
) -> List[evaluating.EvaluationSet]:
    """Create the evaluation sets of a config.

    Raises:
        errors.ConfigError: the config has none.
    """
    known = titles(config)
    return [
        evaluating.EvaluationSet(name, _input_fn(task, config, reader), known.get(name, name))
        for name, reader in _named_readers(config, eval_training_data)
    ]


def _named_readers(
    config: pipeline_pb2.TrainEvalPipelineConfig, eval_training_data: int
) -> List[Tuple[str, input_reader_pb2.InputReader]]:
    """Return name and reader of each evaluation set."""
    readers = _named_eval_readers(config)
    if eval_training_data:
        sample = _training_sample(config, eval_training_data)
        readers.append((TRAINING_DATA, sample))
    if not readers:
        raise errors.ConfigError('eval_input_reader: none is set; evaluation needs examples.')
    return readers


def _named_eval_readers(
    config: pipeline_pb2.TrainEvalPipelineConfig,
) -> List[Tuple[str, input_reader_pb2.InputReader]]:
    return [
        (reader.name or str(index), reader) for index, reader in enumerate(config.eval_input_reader)
    ]


def eval_readers(
    config: pipeline_pb2.TrainEvalPipelineConfig,
) -> Dict[str, input_reader_pb2.InputReader]:
    """Return the readers of the evaluation sets by the names of their folders: `eval_0`."""
    return {f'eval_{name}': reader for name, reader in _named_eval_readers(config)}


def titles(config: pipeline_pb2.TrainEvalPipelineConfig) -> Dict[str, str]:
    """Return the titles of the evaluation sets, as messages show them, by the sets' names."""
    return {
        name: reader.name or f'eval_input_reader[{index}]{_files(reader)}'
        for index, (name, reader) in enumerate(_named_eval_readers(config))
    }


def _files(reader: input_reader_pb2.InputReader) -> str:
    _, paths = reader_paths.reader_paths(reader)
    paths = [os.path.basename(path.rstrip('/')) for path in paths]
    return f' ({errors.shortened(paths, 2)})' if paths else ''


def _training_sample(
    config: pipeline_pb2.TrainEvalPipelineConfig, one_of: int
) -> input_reader_pb2.InputReader:
    """Build a reader of every n-th training example: once, in order, with the last batch.

    Evaluations by tiles cut and merge whole images themselves.
    """
    sample = input_reader_pb2.InputReader()
    sample.CopyFrom(config.train_input_reader)
    if config.eval_config.tiles.size:
        sample.ClearField('tiles')
    sample.sample_1_of_n_examples = one_of
    # The order does not change the metrics, and a buffer of shuffled records takes memory.
    sample.shuffle = False
    for field in ('drop_remainder', 'num_epochs'):
        sample.ClearField(field)
    return sample


def _input_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    reader: input_reader_pb2.InputReader,
) -> inputs.RecordInput:
    """Create the input function of one pass over the examples of a reader.

    By tiles images come one by one: they are large, and there are no losses of a batch.
    """
    eval_config, batch_size = config.eval_config, config.eval_config.batch_size
    tiling = tiles.from_config(eval_config)
    if tiling is not None:
        task, batch_size, reader = tiles.as_read(task, tiling), 1, _reading_few(reader)
    return inputs.create_input_fn(
        task,
        reader,
        tf_estimator.ModeKeys.EVAL,
        batch_size=batch_size,
        seed=config.train_config.random_seed,
        num_epochs=1,
        max_examples=eval_config.num_examples if eval_config.HasField('num_examples') else None,
    )


def _reading_few(reader: input_reader_pb2.InputReader) -> input_reader_pb2.InputReader:
    """Return a reader that keeps few images in memory: those that are cut are large."""
    few = type(reader)()
    few.CopyFrom(reader)
    if not few.HasField('num_parallel_batches'):
        few.num_parallel_batches = _TILED_BATCHES
    few.num_prefetch_batches = 1 if few.num_prefetch_batches else 0
    return few


def metric_names(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> List[str]:
    """Return every name that an evaluation may report; by tiles there are no losses."""
    by_tiles = tiles.from_config(config.eval_config) is not None
    return [*task.metric_names(), *([] if by_tiles else losses.loss_metric_names(task))]


def check(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Refuse tiles that cannot be merged, and metrics that no evaluation will report.

    Raises:
        errors.ConfigError: the metric is unknown, and the message has the field and known metrics;
            it is not known whether larger values are better; or the task cannot be evaluated by
            the config's tiles.
    """
    tiles.check(task, config.eval_config)
    metric_choices.check(config, metric_names(task, config), task.name)
