"""Tensors of an evaluation, and what they are of one image; `test_accumulation` has masks."""

import numpy as np
import pytest

from model_fns.detection import fields
from model_fns.detection.metrics import image_arrays
from tests.model_fns.detection.analysis.analyzed import arrays

BOX = [50.0, 100.0, 100.0, 200.0]


def test_detections_of_classes_that_were_not_looked_for_count_for_nothing():
    image = arrays([(BOX, 1)], [(BOX, 1, 0.5), (BOX, 2, 0.75), (BOX, 3, 0.25)])
    image[fields.LABELED_CLASSES] = np.float32([1, 0, 1])
    found = image_arrays.detections(image)
    assert (found.classes.tolist(), found.scores.tolist()) == ([1, 3], [0.5, 0.25])


def test_what_is_selected():
    image = arrays([(BOX, 2)], [])
    labels = {name: image[name] for name in image if name.startswith('groundtruth')}
    labels[fields.NUM_BOXES] = image[fields.NUM_BOXES]
    labels[fields.CLASSES] = np.array([[[0.0, 1.0]]], np.float32)
    features = {name: image[name] for name in (fields.SOURCE_ID, fields.ORIGINAL_SHAPE)}
    features[fields.IMAGE] = None
    selected = image_arrays.select(frozenset(), {**image, 'large': None}, features, labels)
    assert set(selected) == set(image)
    assert selected[fields.CLASSES].numpy().tolist() == [[1]]
    with pytest.raises(KeyError):
        image_arrays.select(frozenset([fields.MASKS]), image, features, labels)
