from __future__ import annotations

import numpy as np
import pytest

from model_fns.detection.data import instance_checks
from protos import input_reader_pb2
from tests.model_fns.detection.records import mask_png, png

PNG, NUMBERS = input_reader_pb2.PNG_MASKS, input_reader_pb2.NUMERICAL_MASKS


def masks(count, mask_type, encoded=None, **lists):
    """Find the problem of masks of an image of 4 x 6 pixels."""
    values = {f'image/object/{name}': found for name, found in lists.items()}
    values['image/encoded'] = [png() if encoded is None else encoded]
    return instance_checks.find_mask_problem(values, count, mask_type)


def keypoints(count, number, **lists):
    values = {f'image/object/keypoint/{name}': [0.5] * size for name, size in lists.items()}
    return instance_checks.find_keypoint_problem(values, count, number)


FITTING, LARGER = mask_png(np.ones([4, 6])), mask_png(np.ones([6, 4]))


@pytest.mark.parametrize(
    ('count', 'mask_type', 'lists', 'problem'),
    [
        (1, PNG, {'mask': [FITTING]}, None),
        (2, PNG, {'mask': [FITTING] * 2, 'mask/weight': [0.0, 1.0]}, None),
        (1, NUMBERS, {'mask': [0.0] * 24}, None),
        (0, PNG, {}, None),
        (0, NUMBERS, {}, None),
        (1, None, {}, None),
        (2, PNG, {}, '2 boxes and no image/object/mask, which load_instance_masks asks for'),
        (2, NUMBERS, {}, '2 boxes and no image/object/mask, which load_instance_masks asks for'),
        (2, PNG, {'mask': [FITTING]}, '2 boxes and 1 image/object/mask; expected 1 for each box'),
        (
            2,
            PNG,
            {'mask': [FITTING] * 2, 'mask/weight': [1.0]},
            '2 boxes and 1 image/object/mask/weight; expected none, or 1 for each box',
        ),
        (
            2,
            PNG,
            {'mask': [FITTING, LARGER]},
            'image/object/mask 2 of 2 has 6 x 4 pixels, its image 4 x 6 pixels; expected the size '
            'of the image',
        ),
        (2, PNG, {'mask': [b'', FITTING]}, 'image/object/mask 1 of 2 is no PNG'),
        (1, PNG, {'mask': [b'BM' + bytes(60)]}, 'image/object/mask 1 of 1 is no PNG'),
        (
            2,
            NUMBERS,
            {'mask': [0.0] * 24},
            '2 boxes in 4 x 6 pixels and 24 image/object/mask; expected a number for each pixel of '
            'each box, 48',
        ),
    ],
)
def test_masks(count, mask_type, lists, problem):
    assert masks(count, mask_type, **lists) == problem


@pytest.mark.parametrize(('mask_type', 'mask'), [(PNG, LARGER), (NUMBERS, 0.0)])
def test_an_image_that_is_damaged_is_said_elsewhere(mask_type, mask):
    assert masks(1, mask_type, encoded=b'no image', mask=[mask]) is None


@pytest.mark.parametrize(
    ('lists', 'problem'),
    [
        ({}, None),
        ({'y': 6, 'x': 6}, None),
        ({'y': 6, 'x': 6, 'visibility': 6}, None),
        (
            {'y': 4, 'x': 6},
            '2 boxes and 4 image/object/keypoint/y; expected none, or 3 for each box',
        ),
        (
            {'y': 6, 'x': 6, 'visibility': 3},
            '2 boxes and 3 image/object/keypoint/visibility; expected none, or 3 for each box',
        ),
        (
            {'y': 6},
            '6 image/object/keypoint/y and 0 image/object/keypoint/x; expected as many of each',
        ),
    ],
)
def test_keypoints(lists, problem):
    assert keypoints(2, 3, **lists) == problem
    assert keypoints(2, 0, **lists) is None


def names(count, texts, **lists):
    values = {f'image/object/keypoint/{name}': [0.5] * size for name, size in lists.items()}
    values['image/object/keypoint/text'] = texts
    return instance_checks.find_keypoint_problem(values, count, 3, named=True)


@pytest.mark.parametrize(
    ('count', 'texts', 'lists', 'problem'),
    [
        (2, [], {}, None),
        (2, [b'a'] * 4, {'y': 4, 'x': 4}, None),
        (2, [b'a'] * 4, {'y': 4, 'x': 4, 'visibility': 4}, None),
        (0, [], {}, None),
        (
            2,
            [b'a'] * 4,
            {'y': 4, 'x': 3},
            '4 image/object/keypoint/text and 3 image/object/keypoint/x; expected as many of each',
        ),
        (
            2,
            [],
            {'y': 4, 'x': 4},
            '0 image/object/keypoint/text and 4 image/object/keypoint/y; expected as many of each',
        ),
        (
            2,
            [b'a'] * 3,
            {'y': 3, 'x': 3},
            '2 boxes and 3 image/object/keypoint/text; expected as many for each box',
        ),
        (
            0,
            [b'a'],
            {'y': 1, 'x': 1},
            '0 boxes and 1 image/object/keypoint/text; expected as many for each box',
        ),
    ],
)
def test_names_of_keypoints(count, texts, lists, problem):
    assert names(count, texts, **lists) == problem
