"""Predictors whose outputs are evaluated in place of those of the network."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import exported_model, inference, serving
from estimator_lib.task import SOURCE_ID, Arrays, Features, Task, Tensors


class EvaluatedPredictor:
    """Predictor whose outputs for whole images are evaluated, as those of the network.

    Args:
        task: the task of the model.
        predictor: the model.
        tiling: the tiles that larger images are cut into; None: images are not cut.

    Attributes:
        path: of the model.
        problem: that ended an evaluation; TensorFlow only keeps its text. None: there was none.

    Raises:
        errors.UserError: the model lacks an output that evaluations by tiles merge.
    """

    problem: Optional[errors.UserError] = None

    def __init__(
        self, task: Task, predictor: exported_model.Predictor, tiling: Optional[Tiling] = None
    ):
        self.path = predictor.path
        self._task = task
        self._predictor = predictor
        self._plan = None if tiling is None else inference.Plan(tiling=tiling)
        known = predictor.output_types
        names = list(known if tiling is None else task.presentation.tiled_outputs)
        for name in names:
            if name not in known:
                raise errors.UserError(
                    f'{self.path} has no output {name!r}, which evaluations by tiles merge; it has '
                    f'{", ".join(sorted(known))}. Expected such a model, or no tiles.'
                )
        self._types = {name: known[name] for name in names}

    def outputs(self, features: Features) -> Tensors:
        """Build the outputs of `Task.postprocess`, computed by the model from whole images.

        Args:
            features: of a task of `serving.with_requests`, in evaluation.
        """
        names = list(self._types)
        types = [tf.int32, *self._types.values()]
        images = [features[serving.REQUEST], features[SOURCE_ID]]
        # In the graph of the metrics, so that files have the labels, batches and hooks of
        # checkpoints.
        computed = tf.numpy_function(self._predict, images, types, stateful=False)
        computed[0].set_shape([None, 2])
        for name, output in zip(names, computed[1:]):
            sides = self._predictor.output_shapes[name]
            if self._plan is not None and sides is not None:
                sides = [None] * len(sides)  # merged outputs have more rows than those of one tile
            output.set_shape(None if sides is None else [None, *sides])
        served = dict(zip(names, computed[1:]))
        return self._task.evaluated_outputs(served, computed[0], features)

    def _predict(self, requests: Sequence[bytes], ids: Sequence[bytes]) -> Sequence[np.ndarray]:
        """Run the model on each image; return their sizes and the outputs of the batch."""
        dtype = self._task.image_format.dtype
        images = [serving.read_request(request, dtype) for request in requests]
        rows = [
            self._run(image, name.decode('utf-8', 'replace')) for image, name in zip(images, ids)
        ]
        sizes = np.array([image.shape[:2] for image in images], np.int32)
        return [
            sizes,
            *(
                _stacked([row[name] for row in rows]).astype(dtype.as_numpy_dtype)
                for name, dtype in self._types.items()
            ),
        ]

    def _run(self, image: np.ndarray, name: str) -> Arrays:
        """Run the model on an image or on its tiles; return the outputs without a batch."""
        try:
            if self._plan is None:
                batch = self._predictor.predict(image[np.newaxis])
                return {key: value[0] for key, value in batch.items()}
            loaded = [(inference.Image(name, '', 0, lambda: image), image)]
            results = inference.run(self._predictor, self._task, loaded, self._plan, inference.stop)
            ((_, _, merged),) = results
            return self._task.presentation.evaluated_tiles(merged)
        except errors.UserError as problem:
            # The error of a Python function reaches the session as text in an error of TensorFlow.
            self.problem = problem
            raise


def _stacked(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Stack the outputs of images; smaller ones are padded with zeros at their ends."""
    if not np.ndim(rows[0]):
        return np.array(rows)
    largest = np.max([row.shape for row in rows], axis=0)
    stacked = np.zeros([len(rows), *largest], rows[0].dtype)
    for target, row in zip(stacked, rows):
        target[tuple(map(slice, row.shape))] = row
    return stacked
