"""Batches and tiles; `test_predict.py` runs them with files."""

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import inference
from tests.estimator_lib import tiny_task
from tests.estimator_lib.commands.test_predict import Recording, image, pixels


def run(plan, arrays, task=None, predictor=None):
    loaded = [(image(str(index), array), array) for index, array in enumerate(arrays)]
    return inference.run(predictor or Recording(), task, loaded, plan, pytest.fail)


def test_images_of_one_size_come_in_their_order():
    arrays = [np.full([4, 5, 3], value, np.uint8) for value in range(7)]
    results = list(run(inference.Plan(batch_size=3), arrays))
    assert [one.name for one, _, _ in results] == list('0123456')
    assert [outputs['mean'] for _, _, outputs in results] == list(range(7))


def test_partial_batches_wait_for_few_images():
    """Of eight sizes, the ninth image finds a partial batch of its size."""
    arrays = [pixels(0, 4, width) for width in (3, 4, 5, 6, 3)]
    recording = Recording()
    results = run(inference.Plan(batch_size=2, most_waiting=3), arrays, predictor=recording)
    assert [one.name for one, _, _ in results] == ['0', '1', '2', '3', '4']
    assert len(recording.shapes) == 5


def test_tiles_need_a_task_that_merges_them():
    plan = inference.Plan(tiling=Tiling(2, 1))
    with pytest.raises(errors.UserError, match='--tile: model.tflite has no pipeline.config'):
        run(plan, [pixels(0)])
    with pytest.raises(errors.UserError, match='cannot be put together'):
        next(run(plan, [pixels(0)], tiny_task.TinyTask()))


class OfPixels(tiny_task.Presented, tiny_task.TinyTask):
    merges_whole_image = False


def test_the_whole_image_is_refused_before_a_tile_is_run():
    plan, recording = inference.Plan(tiling=Tiling(2, 1, whole=True)), Recording()
    with pytest.raises(errors.UserError, match='--whole_image: tiny has a result for each pixel'):
        run(plan, [pixels(0)], OfPixels(), recording)
    assert recording.shapes == []
