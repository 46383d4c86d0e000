"""Recorded detectors of TensorFlow 2, and checkpoints of theirs in its format.

The weights of a case are written by `tf.train.Checkpoint` over a tree of objects that has the
published keys, and read by the code that reads the published ones.
"""

from __future__ import annotations

import importlib.util
import json
import zlib

import numpy as np
import tensorflow as tf

from estimator_lib.checkpoints import savers
from model_fns.detection.detector import DetectionCheckpoints
from tests.conftest import shared_folder

tf1 = tf.compat.v1

ENDING = '/.ATTRIBUTES/VARIABLE_VALUE'
VARIABLES = shared_folder() / 'spec' / 'variables' / 'tf2'


class Holder(tf.Module):
    """An object whose attributes are objects and variables."""


def save(values, folder, **others):
    """Write a checkpoint of variables by key.

    Args:
        values: arrays by key, without the ending; the first part of each is an attribute of the
            checkpoint.
        folder: where to.
        **others: more attributes of the checkpoint.

    Returns:
        The prefix.
    """
    root = Holder()
    for key, value in values.items():
        *outer, last = key.split('/')
        holder = root
        for name in outer:
            if not hasattr(holder, name):
                setattr(holder, name, Holder())
            holder = getattr(holder, name)
        setattr(holder, last, tf.Variable(value))
    children = {name: one for name, one in vars(root).items() if isinstance(one, tf.Module)}
    return tf.train.Checkpoint(**children, **others).save(str(folder / 'ckpt'))


def weights_of(case):
    """Return the recorded weights of a case, by key."""
    path = shared_folder() / 'golden' / 'weights.py'
    spec = importlib.util.spec_from_file_location('golden_weights', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    named = ('weights_keys', 'weights_shapes', 'weights_factors')
    values = {}
    for key, shape, factor in zip(*([str(one) for one in case.arrays[name]] for name in named)):
        shape = json.loads(shape)
        if factor == 'abs(1+0.3z)':
            random = np.random.RandomState(zlib.crc32(key.encode()))
            drawn = np.abs(1.0 + 0.3 * random.standard_normal(shape))
            values[key] = drawn.astype(np.float32)
        else:
            values[key] = module.init(key, shape) * np.float32(factor)
    return values


class Restorable:
    """What checkpoints ask of a task, answered by a detector."""

    name = 'detection'

    def __init__(self, model):
        self.checkpoints = DetectionCheckpoints(model)


def restore(session, model, prefix):
    """Restore a model's variables from a checkpoint, as an evaluation does."""
    savers.create_inference_saver(task=Restorable(model)).restore(session, prefix)


def assign(session, model, case):
    """Give the model's variables their recorded weights, without a checkpoint."""
    variables = tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
    by_path, weights = model.object_paths(variables, 'full'), weights_of(case)
    feeds = {one.initializer.inputs[1]: weights[path] for path, one in by_path.items()}
    session.run([one.initializer for one in by_path.values()], feeds)


def listed(name):
    """Return shapes by key, and the keys of trained variables, of a published config's model."""
    rows = json.loads((VARIABLES / f'{name}.json').read_text())['variables']
    shapes = {key[: -len(ENDING)]: tuple(shape) for _, shape, *_, key in rows}
    return shapes, {key[: -len(ENDING)] for *_, is_trained, key in rows if is_trained}
