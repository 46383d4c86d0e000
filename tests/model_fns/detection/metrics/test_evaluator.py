import numpy as np

from model_fns.detection.metrics.run_length_masks import RunLengthMasks
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, square


def test_all_that_has_a_row_goes_with_it():
    masks = RunLengthMasks.encode([np.tri(3, dtype=np.uint8)[:, np.newaxis]])
    rows = {'keypoints': np.arange(6.0).reshape(3, 1, 2), 'masks': masks}
    which = np.array([False, True, True])
    found = detections([square(0)] * 3, [0.1, 0.2, 0.3], [1, 2, 3], **rows).kept(which)
    assert found.keypoints.tolist() == [[[2, 3]], [[4, 5]]]
    assert found.masks.areas().tolist() == [2, 3]
    truth = groundtruth(
        [square(0)] * 3, [1, 2, 3], crowd=[True, True], image_classes=[7, 8], **rows
    ).kept(which)
    assert truth.classes.tolist() == [2, 3] and truth.is_crowd.tolist() == [True, False]
    assert truth.image_classes.tolist() == [7, 8] and truth.mask_weights is None
    assert truth.masks.areas().tolist() == [2, 3]
