"""Facts of data sets, by hand."""

import math

import numpy as np
import tensorflow as tf

from model_fns.recipes import facts as facts_lib
from model_fns.recipes.facts import Facts, ImageFacts
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.recognition import public_layouts


def test_facts_by_hand():
    boxes = np.array([[0.0, 0.0, 0.5, 0.5], [0.25, 0.0, 0.5, 1.0]])
    facts = Facts(
        [ImageFacts((10, 20), boxes, ('cat', 'cat')), ImageFacts((10, 10), np.zeros([0, 4]))],
        [ImageFacts((30, 60), boxes[:1], ('dog',))],
        ['cat', 'dog'],
    )
    assert (facts.num_objects(), facts.most_objects(), facts.aspect()) == (3, 2, 2.0)
    assert facts.typical_size() == (10, 20)
    np.testing.assert_allclose(facts.sides(), [0.5, 0.5, 0.5])
    assert facts.images_of_classes() == {'cat': 1}


def test_facts_of_a_record_with_ids_only():
    record = public_layouts.record('a').replace(b'object/class/text', b'object/class/TEXT')
    facts = facts_lib.from_record(record, LabelMap.from_names(['cat']))
    assert facts.size == (public_layouts.HEIGHT, public_layouts.WIDTH) and facts.labels == ('cat',)
    np.testing.assert_allclose(facts.boxes, [[0.2, 0.1, 0.6, 0.3]], rtol=1e-6)


def test_regions_to_ignore_are_no_objects():
    example = tf.train.Example.FromString(public_layouts.record('a'))
    feature = example.features.feature
    for side, value in zip(('ymin', 'xmin', 'ymax', 'xmax'), (0.0, 0.0, 1.0, 1.0)):
        feature[f'image/object/bbox/{side}'].float_list.value.append(value)
    feature['image/object/class/label'].int64_list.value.append(1)
    feature['image/object/class/text'].bytes_list.value.append(b'cat')
    feature['image/object/weight'].float_list.value.extend([1.0, 0.0])
    image = facts_lib.from_record(example.SerializeToString(), LabelMap.from_names(['cat']))
    assert len(image.boxes) == len(image.labels) == image.num_ignored == 1
    facts = Facts([image], [], ['cat'])
    assert (facts.most_objects(), facts.most_rows()) == (1, 2)
    np.testing.assert_allclose(facts.sides(), [0.08**0.5], rtol=1e-6)


def test_rotated_boxes_have_their_own_sides():
    example = tf.train.Example.FromString(public_layouts.record('a'))
    header = facts_lib.from_record(example.SerializeToString(), LabelMap.from_names(['cat']))
    height, width = header.size
    values, flat = (0.5, 0.5, 0.2, 0.3, math.pi / 2), (0.5, 0.5, 0.0, 0.3, 1.0)
    for key, *pair in zip(('cy', 'cx', 'h', 'w', 'ang'), values, flat):
        example.features.feature[f'image/object/rbbox/{key}'].float_list.value.extend(pair)
    record, classes = example.SerializeToString(), LabelMap.from_names(['cat'])
    image = facts_lib.from_record(record, classes, rotated=True)
    np.testing.assert_allclose(image.rotated, [values], rtol=1e-6)
    down, right = 0.3 * width / height / 2, 0.2 * height / width / 2
    around = [[0.5 - down, 0.5 - right, 0.5 + down, 0.5 + right]]
    np.testing.assert_allclose(image.boxes, around, rtol=1e-6)
    np.testing.assert_allclose(Facts([image], [], ['cat']).sides(), [0.06**0.5], rtol=1e-6)
    assert facts_lib.from_record(record, classes).rotated is None


def test_a_malformed_record_has_no_facts():
    example = tf.train.Example.FromString(public_layouts.record('a'))
    example.features.feature['image/object/bbox/ymin'].float_list.value.append(0.5)
    record = example.SerializeToString()
    assert facts_lib.from_record(record, LabelMap.from_names(['cat'])) is None
