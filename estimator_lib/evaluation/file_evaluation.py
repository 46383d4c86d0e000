"""Evaluation of files (TFLite, ONNX, frozen graphs) with the metrics of checkpoints."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Dict, Iterator, List, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.analysis import collecting
from estimator_lib.analysis import files as analysis_files
from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.evaluation import evaluating
from estimator_lib.evaluation.evaluation_session import EvaluatedFile, FileSession
from estimator_lib.export import artifacts
from estimator_lib.hooks import summaries
from estimator_lib.task import Task
from protos import eval_pb2


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Give the reason of a file that fails while it runs as one sentence.

    Raises:
        errors.UserError: replaces the error of the session.
    """
    try:
        yield
    except tf.errors.OpError as error:
        reason = errors.failure_reason(error)
        raise errors.UserError(f'{path} fails while it runs: {reason}.') from error


def evaluate_file(
    task: Task,
    eval_config: eval_pb2.EvalConfig,
    file: EvaluatedFile,
    sets: Sequence[evaluating.EvaluationSet],
    config: tf_estimator.RunConfig,
    model_dir: Optional[str] = None,
    analyze: bool = False,
) -> Dict[str, Dict[str, float]]:
    """Evaluate a file as a checkpoint is evaluated, but without losses.

    Args:
        task: the task of the file's model.
        eval_config: has the number and folder of pictures.
        file: the file.
        sets: the evaluation sets.
        config: the config of the session, with the random seed.
        model_dir: folder for events, pictures and `<file>.metrics.json`; None: none are written.
        analyze: write `model_dir/analysis/<file>/` too, where the task has an analysis.

    Returns:
        The metrics, by evaluation set.

    Raises:
        errors.UserError: the file fails on an example.
    """
    path = file.path
    step, name = artifacts.read_step(path) or 0, os.path.basename(path)
    results: Dict[str, Dict[str, float]] = {}
    for examples in sets:
        started = time.monotonic()
        eval_dir = model_dir and os.path.join(model_dir, f'eval_{examples.name}_{name}')
        pictures: List[summaries.ExamplePictures] = []
        if eval_dir and eval_config.num_visualizations:
            pictures.append(evaluating.create_pictures(task, eval_config, eval_dir))
        collectors: List[collecting.Collector] = []
        if analyze and model_dir and task.analysis is not None:
            collectors.append(collecting.Collector(task.analysis, examples.input_fn.locate))
            collectors[0].enabled = True
        with _explained(path), evaluating.explained(examples.input_fn):
            session = FileSession(task, file, examples.input_fn, config, [*pictures, *collectors])
            values = session.evaluate()
        session.close()
        metrics = results[examples.name] = task.finish_metrics(values)
        if eval_dir:
            summaries.write(eval_dir, step, metrics, evaluating.draw_metrics(task, values))
        for hook in pictures:
            hook.write(step, task.presentation.worth_showing(metrics))
        seconds = time.monotonic() - started
        what = f'{examples.title}, {name}'
        evaluating.log_metrics(task, what, metrics, seconds, session.seconds_to_first_batch)
        for collector in collectors:
            further = '' if examples is sets[0] else examples.name
            folder = analysis_files.analysis_folder(str(model_dir), name, further)
            evaluating.write_analysis(task, collector, folder, metrics, what)
    if model_dir:
        tf.io.gfile.makedirs(model_dir)
        checkpoint_files.write_atomically(
            os.path.join(model_dir, f'{name}.metrics.json'), evaluated.to_json(results)
        )
    return results
