"""A model run over the frames of a video."""

import threading

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.commands import frames, predict
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import inference
from estimator_lib.task import Description, Shown
from tests.estimator_lib.commands.test_predict import Merging, Recording

COUNT = 50


def gray(value):
    return np.full([6, 8, 3], value, np.uint8)


class Describing(Merging):
    """Describes frames by their mean, the first ones slower than others."""

    def describe(self, features, outputs, shown=None):
        if outputs.get('mean') == 0:
            threading.Event().wait(0.2)
        return Description(dict(outputs), picture=features['image'])


def test_descriptions_come_in_the_order_of_the_frames():
    described = frames.predict_frames(
        Recording(), Describing(), map(gray, range(COUNT)), 'clip', predict.Options()
    )
    for index, one in enumerate(described):
        assert one.values['mean'] == index and (one.picture == index).all()
    assert index == COUNT - 1


def test_few_frames_are_read_ahead():
    """Frames in memory: a batch, those that are described, and the one that is read."""
    read = []

    def endless():
        while True:
            read.append(len(read))
            yield gray(0)

    described = frames.predict_frames(Recording(), None, endless(), 'clip', predict.Options())
    most = 2 * inference.BATCH_SIZE + frames._MOST_WAITING
    for count in range(1, 40):
        next(described)
        assert len(read) <= count + most
    described.close()


def test_raw_outputs_are_added():
    options = predict.Options(raw=True)
    (one,) = frames.predict_frames(Recording(), Describing(), [gray(3)], 'clip', options)
    assert one.values == {'mean': 3, 'raw': {'mean': 3}}


def test_frames_are_cut_into_tiles():
    options = predict.Options(tiling=Tiling(5, 2))
    (one,) = frames.predict_frames(Recording(), Merging(), [gray(3)], 'clip', options)
    # Of 6 x 8 pixels: rows 0 and 1, columns 0 and 3.
    assert one.values == {
        'total': 12,
        'windows': [(0, 0, 5, 5), (0, 3, 5, 5), (1, 0, 5, 5), (1, 3, 5, 5)],
    }


def test_a_frame_that_the_model_fails_on_is_named():
    described = frames.predict_frames(
        Recording(refuses=7), None, map(gray, range(20)), 'clip', predict.Options()
    )
    with pytest.raises(errors.DataError, match='clip, frame 7: the model fails on it: too dark'):
        list(described)


def test_limits_need_a_task():
    described = frames.predict_frames(
        Recording(), None, [gray(0)], 'clip', predict.Options(Shown(top_k=1))
    )
    with pytest.raises(errors.UserError, match='--pipeline_config_path is needed'):
        next(described)
