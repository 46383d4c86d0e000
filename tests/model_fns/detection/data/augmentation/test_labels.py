import numpy as np

from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_is_share,
    assert_rows_belong_together,
    painted,
    plain,
    run,
)

BOXES = [[0, 0, 2, 2], [1, 1, 3, 3], [2, 2, 4, 4]]


def test_objects_of_the_label_are_dropped():
    example = painted(4, 4, BOXES)
    after = run('drop_label_probabilistically { label: 2 }', example)
    assert_rows_belong_together(example, after)
    # Ids are from 1, classes of examples from 0.
    np.testing.assert_array_equal(after[fields.CLASSES], [0, 2])
    np.testing.assert_array_equal(after[fields.IMAGE], example[fields.IMAGE])


def test_objects_are_dropped_one_by_one():
    example = plain(painted(4, 4, [[0, 0, 2, 2]] * 3))
    example[fields.CLASSES] = np.array([0, 0, 1])
    step = 'drop_label_probabilistically { label: 1 drop_probability: 0.4 }'
    left = np.array(
        [
            np.isin([1, 2, 3], run(step, example, (1, number))[fields.WEIGHTS])
            for number in range(400)
        ]
    )
    assert_is_share(left[:, 0], 0.6)
    assert_is_share(left[:, 1], 0.6)
    assert_is_share(left[:, 0] & left[:, 1], 0.36)
    assert left[:, 2].all()


def test_labels_are_remapped():
    example = painted(4, 4, BOXES)
    after = run('remap_labels { original_labels: [1, 3] new_label: 5 }', example)
    np.testing.assert_array_equal(after[fields.CLASSES], [4, 1, 4])
    assert after[fields.CLASSES].dtype == np.int64
