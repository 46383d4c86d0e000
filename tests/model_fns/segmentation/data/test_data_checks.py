"""Masks of records whose values are no classes."""

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.segmentation.data import presets
from model_fns.segmentation.data.data_checks import SegmentationChecks
from model_fns.structures.label_map import LabelMap
from protos import segmentation_pb2
from tests.model_fns.segmentation.segmentation_records import record

MANY = presets.from_config(segmentation_pb2.Segmentation(num_classes=200, ignore_label=255))
NAMES = LabelMap.from_names([f'class {index}' for index in range(1, 200)])
UNNAMED = SegmentationChecks(MANY, are_named=False)
LEVELS = np.array([[0, 128, 0, 128], [128, 0, 0, 0]])


def report(*masks, label_map=None):
    records = [record(classes=np.array(mask), source_id=str(n)) for n, mask in enumerate(masks)]
    checks = SegmentationChecks(MANY, label_map is not None)
    return checks.data_report({'train_input_reader': [checks.examine(each) for each in records]})


def test_levels_of_gray_are_no_classes():
    (problem,) = report(LEVELS, LEVELS).problems
    assert 'all 2 masks have the values 0 and 128: levels of gray, it seems' in problem
    assert report(LEVELS, label_map=NAMES).problems == []  # a class of the user's
    assert report([[0, 1, 2, 255]]).problems == []


def test_masks_without_a_class():
    (problem,) = report([[0, 255]], [[0, 0]]).problems
    assert problem.startswith('train_input_reader: all 2 masks have no pixel of a class: all are 0')


def test_repeated_source_ids():
    same = [record(classes=np.array([[0, 1]]), source_id='a') for _ in range(3)]
    repeated, equal = UNNAMED.check_first_examples(same, True)
    assert 'train_input_reader: 2 of 3 images are equal to an image before them' in equal
    assert repeated == (
        'train_input_reader: 2 of 3 images have the source id of an image before them (first: a)'
    )


def test_the_start_of_a_run_knows_a_sample_only():
    masks = [record(classes=LEVELS, source_id=str(number)) for number in range(21)]
    with pytest.raises(errors.DataError, match='levels of gray, it seems'):
        UNNAMED.check_first_examples(masks[:20], True)
    for records, are_all in ((masks, True), (masks[:2], False)):
        warning, _ = UNNAMED.check_first_examples(records, are_all)
        assert 'levels of gray, it seems' in warning
    assert UNNAMED.check_first_examples([b'no example', record(classes=None)], True) == []
