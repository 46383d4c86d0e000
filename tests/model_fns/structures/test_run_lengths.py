"""Masks as run lengths, read back by the kernels of the published tools."""

import json

import numpy as np
import pycocotools.mask

from model_fns.structures import run_lengths


def test_masks_come_back():
    random = np.random.RandomState(0)
    for mask in (random.rand(7, 5) < 0.4, np.zeros([3, 4], bool), np.ones([2, 300], bool)):
        encoded = json.loads(json.dumps(run_lengths.encode(mask)))
        assert encoded['size'] == list(mask.shape)
        np.testing.assert_array_equal(pycocotools.mask.decode(encoded), mask)


def test_a_mask_may_be_a_part_of_the_image():
    mask = np.zeros([9, 8], bool)
    mask[6:9, 3:7] = np.random.RandomState(1).rand(3, 4) < 0.6
    encoded = run_lengths.encode(mask[5:, 2:], (5, 2), mask.shape)
    np.testing.assert_array_equal(pycocotools.mask.decode(encoded), mask)
    assert encoded == run_lengths.encode(mask)
