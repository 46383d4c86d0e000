"""Comparison of an artifact with the model that was recovered from it."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import texts, tf_estimator
from estimator_lib.task import IMAGE, Task
from vision_extras.recover.artifacts import running
from vision_extras.recover.facts import Proposal, View

tf1 = tf.compat.v1

TOLERANCE = 1e-4
# Rows of an output that may be others, as boxes at a threshold are kept or not by float noise.
_OTHER_ROWS = 0.02
# Classes of pixels that may differ, as equal scores are ordered by float noise.
_OTHER_CLASSES = 0.01
_SIZES = ((96, 128), (150, 110))


class Difference(NamedTuple):
    """Largest difference of an output over the test images.

    Attributes:
        output: name of the output.
        largest: the largest absolute difference; NaN where the shapes differ.
        meaning: for people.
        accepted: the largest difference that is accepted.
        is_shape: True: the shapes differ, which `meaning` has.
    """

    output: str
    largest: float
    meaning: str
    accepted: float = TOLERANCE
    is_shape: bool = False

    def __str__(self) -> str:
        """Describe the difference in a few words."""
        if self.is_shape:
            return f'{self.output} has shape {self.meaning}'
        return f'{self.output} by {self.largest:.3g} {self.meaning}'


class Model:
    """A recovered model in a graph of its own, before it has values.

    Args:
        task: of the model.
        shape: (height, width, channels) of the network's input; None: the model takes pixels.

    Attributes:
        graph: of the model.
        exported: the outputs that an export of it has.
    """

    def __init__(self, task: Task, shape: Optional[Sequence[int]] = None):
        self.graph = tf.Graph()
        with self.graph.as_default():
            if shape is None:
                self._input = tf1.placeholder(tf.uint8, [1, None, None, task.image_format.channels])
                features = task.serving_features(self._input)
            else:
                self._input = tf1.placeholder(tf.float32, [1, *shape])
                features = {IMAGE: self._input}
            predictions = task.predict(features, tf_estimator.ModeKeys.EVAL)
            outputs = task.postprocess(predictions, features)
            self.exported = list(task.export_outputs(outputs).values())
        self._outputs = {**predictions, **outputs}

    def run(
        self, checkpoint: str, images: Sequence[np.ndarray], names: Sequence[str]
    ) -> List[Dict[str, np.ndarray]]:
        """Compute outputs for images with the values of a checkpoint."""
        fetches = {name: self._outputs[name] for name in names}
        with self.graph.as_default(), tf1.Session() as session:
            tf1.train.Saver().restore(session, checkpoint)
            return [session.run(fetches, {self._input: image[np.newaxis]}) for image in images]


class Probe:
    """Test images, which an artifact and its recovered model are run on.

    Args:
        runner: of the artifact.
        proposal: names the outputs that must be equal.

    Attributes:
        shape: of the network's input as the recovered model gets it; None: it gets pixels.
    """

    def __init__(self, runner: running.Runner, proposal: Proposal):
        shared, prepare = proposal.shared_input, proposal.prepare
        as_pixels = runner.takes_pixels or bool(proposal.network_input) or prepare is not None
        self._runner, self._proposal = runner, proposal
        self._images = self._fed = _images(runner, as_pixels, proposal.input_shape)
        if shared:
            self._fed = [runner.run({'x': shared}, image)['x'][0] for image in self._images]
        self.shape = None if as_pixels and not shared else self._fed[0].shape

    def compare(self, model: Model, checkpoint: str) -> List[Difference]:
        """Run the artifact and the recovered model.

        Args:
            model: the recovered model.
            checkpoint: of the recovered model.
        """
        proposal, inputs = self._proposal, self._proposal.network_input
        names = [*proposal.outputs, *proposal.counts.values(), *filter(None, [inputs])]
        ours = model.run(checkpoint, self._fed, list(dict.fromkeys(names)))
        theirs = []
        for image, values in zip(self._images, ours):
            prepared = image if proposal.prepare is None else proposal.prepare(image)
            given = values[inputs][0] if inputs else prepared
            theirs.append(self._runner.run(proposal.outputs, given))
        for views, runs in ((proposal.ours, ours), (proposal.theirs, theirs)):
            for values in runs:
                _apply(views, values)
        return [
            _difference(
                name,
                theirs,
                ours,
                proposal.counts.get(name, ''),
                proposal.other_rows.get(name, _OTHER_ROWS),
            )
            for name in proposal.outputs
        ]


def _apply(views: Mapping[str, View], values: Dict[str, np.ndarray]) -> None:
    """Replace the outputs that have a view and were computed."""
    values.update({name: view(values[name]) for name, view in views.items() if name in values})


def agrees(differences: Sequence[Difference]) -> bool:
    """Check whether all outputs agree; one at least has scores."""
    return any(each.accepted == TOLERANCE for each in differences) and all(
        each.largest <= each.accepted for each in differences
    )


def _images(
    runner: running.Runner, as_pixels: bool, shape: Optional[Tuple[int, int, int]]
) -> Sequence[np.ndarray]:
    """Return test images that the input accepts; one without a shape gets the given one."""
    sizes = [shape[:2] if shape else runner.accepted_size(each) for each in _SIZES]
    images = running.test_images(sizes)
    if as_pixels:
        return images
    *_, channels = shape or runner.input_shape or [None]
    channels = channels or 3
    return [(image[..., :channels] / 127.5 - 1.0).astype(np.float32) for image in images]


def _difference(
    name: str,
    theirs: Sequence[Mapping[str, np.ndarray]],
    ours: Sequence[Mapping[str, np.ndarray]],
    count: str = '',
    most_others: float = _OTHER_ROWS,
) -> Difference:
    largest, accepted = 0.0, TOLERANCE
    rows = np.zeros([0])  # difference of each
    for one, other in zip(theirs, ours):
        first, second = np.squeeze(one[name]), np.squeeze(other[name])
        if first.shape != second.shape:
            meaning = f'{list(one[name].shape)} there and {list(other[name].shape)} here'
            return Difference(name, float('nan'), meaning, is_shape=True)
        if first.dtype.kind in 'iu':
            largest, accepted = max(largest, float((first != second).mean())), _OTHER_CLASSES
        elif count:
            number = int(np.ravel(other[count])[0])
            rows = np.concatenate([rows, _nearest_rows(first[:number], second[:number])])
        elif first.size:
            finite = np.abs(second[np.isfinite(second)])
            scale = max(1.0, float(finite.max(initial=0.0)))
            largest = max(largest, float(_distances(first, second).max()) / scale)
    if count and not len(rows):
        # No evidence, as its accepted difference is not that of scores.
        return Difference(name, 0.0, 'over no row: the recovered model has none', accepted=0.0)
    meaning = f'over {texts.counted(len(theirs), "image")}'
    others = int((rows > TOLERANCE).sum())
    if others and others <= most_others * len(rows):
        meaning = f'{meaning}, but for {others} of {texts.counted(len(rows), "row")}, '
        meaning += f'up to {rows.max():.3g}'
        rows = rows[rows <= TOLERANCE]
    return Difference(name, float(max([largest, *rows])), meaning, accepted)


def _nearest_rows(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the difference of each row of the first array to the nearest row of the second."""
    if not len(first):
        return np.zeros([0])
    same = _distances(first, second).reshape(len(first), -1).max(axis=1)
    for row in np.flatnonzero(same > TOLERANCE):
        distances = _distances(second, first[row]).reshape(len(second), -1).max(axis=1)
        same[row] = distances.min()
    return same


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return absolute differences: 0 of equal infinities, infinite where a value is NaN."""
    with np.errstate(invalid='ignore'):
        distances = np.where(first == second, 0.0, np.abs(first - second))
    return np.where(np.isnan(distances), np.inf, distances)
