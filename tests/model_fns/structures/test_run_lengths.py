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


def test_compressed_counts_are_parsed():
    assert run_lengths.parse_counts(b'203') == [2, 0, 3]
    random = np.random.default_rng(0)
    for _ in range(20):
        mask = np.asfortranarray(random.random([40, 300]) < random.choice([0.01, 0.5, 0.99]))
        counts = run_lengths.parse_counts(pycocotools.mask.encode(mask.astype(np.uint8))['counts'])
        values = np.repeat(np.arange(len(counts)) % 2, counts)
        np.testing.assert_array_equal(values.reshape(300, 40).T, mask)


def test_pixels_of_a_window():
    runs = [5, 2, 4, 4]  # columns of 3: 0 0 0, 0 0 1, 1 0 0, 0 0 1, 1 1 1
    pixels = run_lengths.pixels_of_window(runs, 3, 1, 1, (2, 3))
    np.testing.assert_array_equal(pixels, [[0, 0, 0], [1, 0, 1]])
