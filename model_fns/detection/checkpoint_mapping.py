"""Checkpoints of detectors, and of other programs that detectors start from."""

from __future__ import annotations

from typing import Collection, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib.task import CheckpointMapping
from model_fns import checkpoint_scopes
from model_fns.detection.detector import CHECKPOINT_TYPES, Detector
from model_fns.structures import label_map_files
from model_fns.structures.label_map import LabelMap


class DetectionCheckpoints(CheckpointMapping):
    """Checkpoints of a detector; the default type is `classification`.

    Args:
        model: the detector.
        label_map: names of the classes.
        load_all_variables: True: a detection checkpoint restores all variables of the same name;
            False: only those of the feature extractor.
    """

    def __init__(
        self,
        model: Detector,
        label_map: Optional[LabelMap] = None,
        load_all_variables: bool = False,
    ):
        self._model = model
        self._load_all_variables = load_all_variables
        self.last_layer_scopes = model.last_layer_scopes
        self.class_columns = label_map_files.class_columns(model.class_axes)
        self.asset_files = label_map_files.asset_files(label_map)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Map names of a checkpoint to variables."""
        kind = self._translate(checkpoint_type)
        if kind == 'full':
            return super().restore_map(variables, kind)
        return self._model.restore_map(variables, kind)

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Map paths of an object-based checkpoint to variables."""
        kind = 'full' if checkpoint_type is None else self._translate(checkpoint_type)
        return self._model.object_paths(variables, kind)

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Describe why a checkpoint does not fit the model; empty if it may fit."""
        return self._model.foreign_checkpoint(names)

    def _translate(self, named: str) -> str:
        """Translate the type in the config to `full`, `detection` or `classification`."""
        kind = checkpoint_scopes.check_type(named or 'classification', CHECKPOINT_TYPES)
        kind = 'detection' if kind == 'fine_tune' else kind
        return 'full' if kind == 'detection' and self._load_all_variables else kind
