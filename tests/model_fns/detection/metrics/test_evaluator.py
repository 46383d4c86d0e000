import numpy as np

from tests.model_fns.detection.metrics.scenes import detections, square
from tests.model_fns.detection.metrics.test_accumulation import Recorder


def test_detections_that_are_kept():
    found = detections([square(0), square(1), square(2)], [0.1, 0.2, 0.3], [1, 2, 3])
    kept = found.kept(np.array([True, False, True]))
    assert kept.classes.tolist() == [1, 3]
    np.testing.assert_array_equal(kept.boxes, [square(0), square(2)])
    np.testing.assert_allclose(kept.scores, [0.1, 0.3])


def test_class_ids_are_sorted():
    evaluator = Recorder()
    evaluator.class_names = {7: 'b', 2: 'a'}
    assert evaluator.class_ids == [2, 7]
