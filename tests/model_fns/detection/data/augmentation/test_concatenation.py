import numpy as np
import pytest
from hypothesis import given, settings

from estimator_lib import errors
from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_is_share,
    painted,
    painted_examples,
    plain,
    run,
    seeds,
)


def _step(vertical, horizontal):
    return f"""random_self_concat_image {{ concat_vertical_probability: {vertical}
        concat_horizontal_probability: {horizontal} }}"""


@pytest.mark.parametrize(('vertical', 'horizontal'), [(0, 0), (1, 0), (0, 1), (1, 1)])
@given(example=painted_examples(), seed=seeds())
@settings(max_examples=10, deadline=None)
def test_every_copy_has_its_objects(vertical, horizontal, example, seed):
    after = run(_step(vertical, horizontal), example, seed)
    height, width = example[fields.IMAGE].shape[:2]
    count = len(example[fields.CLASSES])
    rows, columns = 1 + vertical, 1 + horizontal
    np.testing.assert_array_equal(
        after[fields.IMAGE], np.tile(example[fields.IMAGE], [rows, columns, 1])
    )
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    for copy, (row, column) in enumerate(cells):
        these = slice(copy * count, (copy + 1) * count)
        for name in fields.PER_BOX:
            if name in example and name not in (fields.BOXES, fields.MASKS, fields.KEYPOINTS):
                np.testing.assert_array_equal(after[name][these], example[name], name)
        shift, scale = np.array([row, column]), np.array([rows, columns])
        np.testing.assert_allclose(
            after[fields.BOXES][these],
            (example[fields.BOXES] + np.tile(shift, 2)) / np.tile(scale, 2),
            atol=1e-6,
        )
        np.testing.assert_allclose(
            after[fields.KEYPOINTS][these], (example[fields.KEYPOINTS] + shift) / scale, atol=1e-6
        )
        masks = np.zeros([count, rows, height, columns, width], np.uint8)
        masks[:, row, :, column] = example[fields.MASKS]
        np.testing.assert_array_equal(
            after[fields.MASKS][these], masks.reshape(count, rows * height, columns * width)
        )
    assert len(after[fields.BOXES]) == len(cells) * count


def test_the_example_of_the_docstring():
    after = run(_step(1, 0), plain(painted(4, 6, [[0, 0, 4, 3]])), (1, 2))
    assert after[fields.IMAGE].shape == (8, 6, 3)
    np.testing.assert_allclose(after[fields.BOXES], [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5]])


def test_probabilities_are_of_each_direction():
    example = plain(painted(2, 3, []))
    shapes = np.array(
        [run(_step(0.2, 0.6), example, (1, number))[fields.IMAGE].shape for number in range(400)]
    )
    assert_is_share(shapes[:, 0] == 4, 0.2)
    assert_is_share(shapes[:, 1] == 6, 0.6)
    assert_is_share((shapes[:, 0] == 4) & (shapes[:, 1] == 6), 0.12)


def test_values_out_of_range_are_refused():
    with pytest.raises(errors.ConfigError, match='concat_horizontal_probability: 2; expected'):
        run(_step(0, 2), plain(painted(4, 4, [])))
