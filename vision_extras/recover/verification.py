"""Comparison of an artifact with the model that was recovered from it."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import texts, tf_estimator
from estimator_lib.task import IMAGE, Task
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.reading import Artifact
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


def compare(
    artifact: Artifact, task: Task, checkpoint: str, proposal: Proposal
) -> List[Difference]:
    """Run an artifact and the recovered model on test images.

    Args:
        artifact: the artifact, with a graph.
        task: of the recovered model.
        checkpoint: of the recovered model.
        proposal: names the outputs that must be equal.
    """
    names = list(dict.fromkeys([*proposal.outputs, *proposal.counts.values()]))
    inputs, shared, prepare = proposal.network_input, proposal.shared_input, proposal.prepare
    with running.open_runner(artifact) as runner:
        as_pixels = runner.takes_pixels or bool(inputs) or prepare is not None
        images = _images(runner, as_pixels, proposal.input_shape)
        fed = [runner.run({'x': shared}, image)['x'][0] for image in images] if shared else images
        ours = _recovered(
            task, checkpoint, fed, as_pixels and not shared, [*names, *filter(None, [inputs])]
        )
        theirs = []
        for image, values in zip(images, ours):
            given = values[inputs][0] if inputs else image if prepare is None else prepare(image)
            theirs.append(runner.run(proposal.outputs, given))
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


def _recovered(
    task: Task,
    checkpoint: str,
    images: Sequence[np.ndarray],
    takes_pixels: bool,
    names: Sequence[str],
) -> List[Dict[str, np.ndarray]]:
    """Compute outputs of the recovered model."""
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        if takes_pixels:
            placeholder = tf1.placeholder(tf.uint8, [1, None, None, 3])
            features = task.serving_features(placeholder)
        else:
            placeholder = tf1.placeholder(tf.float32, [1, *images[0].shape])
            features = {IMAGE: placeholder}
        predictions = task.predict(features, tf_estimator.ModeKeys.EVAL)
        outputs = {**predictions, **task.postprocess(predictions, features)}
        fetches = {name: outputs[name] for name in names}
        tf1.train.Saver().restore(session, checkpoint)
        return [session.run(fetches, {placeholder: image[np.newaxis]}) for image in images]


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
