"""Keypoints of objects, of which some have none."""

import numpy as np

from model_fns.datasets.annotations import keypoints
from model_fns.structures import images


def test_objects_without_keypoints_have_none_that_is_labeled():
    header = images.ImageHeader('png', 10, 20)
    rows = [[5, 1, 2, 10, 4, 1], []]
    features = keypoints.keypoint_features(rows, header)
    np.testing.assert_allclose(features['image/object/keypoint/x'], [0.25, 0.5, 0, 0])
    np.testing.assert_allclose(features['image/object/keypoint/y'], [0.1, 0.4, 0, 0], rtol=1e-6)
    assert features['image/object/keypoint/visibility'].tolist() == [2, 2, 0, 0]
    assert features['image/object/keypoint/num'].tolist() == [2, 0]
