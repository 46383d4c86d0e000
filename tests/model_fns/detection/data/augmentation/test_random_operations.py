import numpy as np
from hypothesis import given, settings

from model_fns.detection import fields
from tests.model_fns.detection.data.augmentation.augmentation_cases import (
    assert_rows_belong_together,
    painted_examples,
    run,
    seeds,
)


@given(example=painted_examples(least=16), seed=seeds())
@settings(max_examples=30, deadline=None)
def test_boxes_stay_inside_and_masks_on_their_objects(example, seed):
    after = run('rand_augment { magnitude: 6 }', example, seed)
    assert_rows_belong_together(example, after)
    boxes, image = after[fields.BOXES], after[fields.IMAGE]
    assert image.shape == example[fields.IMAGE].shape and image.dtype == np.uint8
    assert (boxes >= 0).all() and (boxes <= 1).all()
    for box, mask in zip(boxes * np.tile(image.shape[:2], 2), after[fields.MASKS]):
        rows, columns = np.nonzero(mask)
        if rows.size:
            assert box[0] - 1 <= rows.min() and rows.max() + 1 <= box[2] + 1
            assert box[1] - 1 <= columns.min() and columns.max() + 1 <= box[3] + 1
