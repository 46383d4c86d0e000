"""Steps of the page on augmentation, their pictures and their costs."""

import itertools
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.input import augmentations
from estimator_lib.data.record_streams import elements
from estimator_lib.task import IMAGE
from model_fns.classification.augmentation import KINDS
from model_fns.detection.data.augmentation.steps import MIXERS
from model_fns.detection.fields import BOXES, MASKS

DOCS = pathlib.Path(__file__).resolve().parents[3] / 'docs'


def test_each_step_of_the_table_has_a_picture_and_a_cost():
    page = (DOCS / 'augmentation.md').read_text()
    pictures = {path.stem for path in (DOCS / 'images' / 'augmentation').glob('*.jpg')}
    assert pictures == set(augmentations.names())
    for name in augmentations.names():
        found = re.search(rf'images/augmentation/{name}\.jpg\) \| ([\d,]+) \| ([\d,]*) \|', page)
        cost = float(found[1].replace(',', ''))
        assert augmentations.format_row(name, cost) == f'| `{name}` | {found[1]} | {found[2]} |'


def test_a_row_has_the_images_of_a_second():
    assert augmentations.format_row('mosaic', 2160.4) == '| `mosaic` | 2,160 | 463 |'
    assert augmentations.format_row('rgb_to_gray', -3.2) == '| `rgb_to_gray` | -3 |  |'


def test_all_mixtures_are_in_the_table():
    assert set(MIXERS) <= set(augmentations.DETECTION)
    assert set(KINDS.mixers) == set(augmentations.CLASSIFICATION)


def first(dataset, count):
    return [example for *_, example in itertools.islice(elements(dataset), count)]


@pytest.mark.parametrize('name', ['mosaic', 'classification_mixup'])
def test_examples_before_and_after(name, monkeypatch):
    monkeypatch.setattr(augmentations, '_HEIGHT', 32)
    monkeypatch.setattr(augmentations, '_WIDTH', 48)
    monkeypatch.setattr(augmentations, '_SIDE', 32)
    with tf.Graph().as_default():
        before = first(augmentations.demo_examples(name), 3)
    with tf.Graph().as_default():
        after = first(augmentations.augmented(name), 2)
    for example, mixed in zip(before, after):
        if name == 'mosaic':
            assert example[IMAGE].shape == (32, 48, 3) and mixed[IMAGE].shape == (48, 48, 3)
            assert len(mixed[BOXES]) > len(example[BOXES]) and MASKS not in example
        else:
            assert example[IMAGE].shape == mixed[IMAGE].shape == (32, 32, 3)
            assert not np.array_equal(example[IMAGE], mixed[IMAGE])
