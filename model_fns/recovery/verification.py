"""Comparison of an artifact with the model that was recovered from it."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.artifacts import running
from estimator_lib.artifacts.reading import Artifact
from estimator_lib.task import IMAGE, Task
from model_fns.recovery.facts import Proposal

tf1 = tf.compat.v1

TOLERANCE = 1e-4
_SIZES = ((96, 128), (150, 110))


class Difference(NamedTuple):
    """Largest difference of an output over the test images.

    Attributes:
        output: name of the output.
        largest: the largest absolute difference; NaN where the shapes differ.
        meaning: for people.
    """

    output: str
    largest: float
    meaning: str


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
    with running.open_runner(artifact) as runner:
        images = _images(runner)
        theirs = [runner.run(proposal.outputs, image) for image in images]
        takes_pixels = runner.takes_pixels
    names = [*proposal.outputs, *filter(None, [proposal.count])]
    ours = _recovered(task, checkpoint, images, takes_pixels, names)
    return [_difference(name, theirs, ours, proposal.count) for name in proposal.outputs]


def agrees(differences: Sequence[Difference]) -> bool:
    """Check whether all outputs agree."""
    return bool(differences) and all(each.largest <= TOLERANCE for each in differences)


def _images(runner: running.Runner) -> Sequence[np.ndarray]:
    """Return test images that the input accepts."""
    shape = (runner.input_shape or [])[-3:]
    sizes = [(shape[0], shape[1])] * 2 if len(shape) == 3 and shape[0] and shape[1] else _SIZES
    images = running.test_images(sizes)
    if runner.takes_pixels:
        return images
    channels = shape[-1] if shape and shape[-1] else 3
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
        predictions = task.predict(features, tf_estimator.ModeKeys.PREDICT)
        outputs = {**predictions, **task.postprocess(predictions, features)}
        fetches = {name: outputs[name] for name in names}
        tf1.train.Saver().restore(session, checkpoint)
        return [session.run(fetches, {placeholder: image[np.newaxis]}) for image in images]


def _difference(
    name: str,
    theirs: Sequence[Mapping[str, np.ndarray]],
    ours: Sequence[Mapping[str, np.ndarray]],
    count: str = '',
) -> Difference:
    largest = 0.0
    for one, other in zip(theirs, ours):
        first, second = np.squeeze(one[name]), np.squeeze(other[name])
        if first.shape != second.shape:
            meaning = f'{list(one[name].shape)} there, {list(other[name].shape)} here'
            return Difference(name, float('nan'), meaning)
        if count:
            rows = int(other[count][0])
            first, second = first[:rows], second[:rows]
        if first.dtype.kind in 'iu':
            largest = max(largest, float((first != second).mean()))
        elif first.size:
            largest = max(largest, float(np.abs(first - second).max()))
    return Difference(name, largest, f'over {len(theirs)} images')
