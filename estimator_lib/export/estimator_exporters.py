"""Exporters of `tf.estimator`, called as `tf.estimator.train_and_evaluate` calls them."""

from __future__ import annotations

import os
from typing import List, Mapping, Optional, Sequence, Set, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import export_policies
from protos import export_pb2


def check(
    exporters: Sequence[tf.estimator.Exporter],
    config: export_pb2.ExportConfig,
    evaluates: bool,
) -> None:
    """Refuses exporters that would not be called, or that share a folder.

    Args:
        exporters: of a program.
        config: its exporters have folders too.
        evaluates: whether the run evaluates.

    Raises:
        errors.UserError: see above.
    """
    if exporters and not evaluates:
        raise errors.UserError(
            'exporters: they are called after evaluations, and this run makes none; expected an '
            'eval_input_reader, eval_config.schedule.enabled and an evaluating mode.'
        )
    taken: Set[str] = set(_names_of_config(config))
    for exporter in exporters:
        if exporter.name in taken:
            raise errors.UserError(
                f'exporters: two write to export/{exporter.name}; expected another name (names '
                f'that are taken: {", ".join(sorted(taken))}).'
            )
        taken.add(exporter.name)


def _names_of_config(config: export_pb2.ExportConfig) -> List[str]:
    """The folders of the exporters that a config asks for."""
    names = [name for name in ('best', 'latest') if config.HasField(name)]
    return [*names, 'final'] if config.final.enabled else names


class EstimatorExporter(export_policies.Exporter):
    """An exporter of `tf.estimator` as one of this package.

    Args:
        exporter: does the work.
        estimator: of the run; what the exporter exports.
        num_steps: of the training, whose last evaluation is the final one; 0: not known.
    """

    def __init__(
        self, exporter: tf.estimator.Exporter, estimator: tf.estimator.Estimator, num_steps: int
    ):
        self._exporter = exporter
        self._estimator = estimator
        self._num_steps = num_steps
        self._done: Optional[Tuple[int, bool]] = None

    def export(
        self, step: int, checkpoint_path: str, metrics: Mapping[str, float], is_final: bool
    ) -> Optional[str]:
        """Calls the exporter, once for each checkpoint.

        The evaluation after the last checkpoint is the final one, whoever asks for it. Training
        that ended earlier tells so in a second call.
        """
        is_final = is_final or 0 < self._num_steps <= step
        if self._done == (step, is_final):
            return None
        self._done = step, is_final
        return self._exporter.export(
            estimator=self._estimator,
            export_path=os.path.join(self._estimator.model_dir, 'export', self._exporter.name),
            checkpoint_path=checkpoint_path,
            eval_result={**metrics, tf.compat.v1.GraphKeys.GLOBAL_STEP: step},
            is_the_final_export=is_final,
        )
