from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import quadrilaterals
from model_fns.detection.data import inputs
from protos import input_reader_pb2
from tests.model_fns.detection.records import mask_png, record

PLAIN = inputs.Reader(num_classes=3)
WITH_MASKS = inputs.Reader(num_classes=3, mask_type=input_reader_pb2.PNG_MASKS)
ROTATED = inputs.Reader(num_classes=3, family=quadrilaterals)
BOX = [0.125, 0.25, 0.5, 0.75]
WIDE = [0.125, 0.25, 0.5, 1.5]  # reaches out at the right
INVERTED = [0.5, 0.25, 0.125, 0.75]
PIXELS = [20.0, 30.0, 60.0, 70.0]


def values(serialized, key):
    feature = tf.train.Example.FromString(serialized).features.feature[key]
    return list(getattr(feature, feature.WhichOneof('kind')).value)


def test_one_malformed_box_costs_no_other():
    malformed = record(
        boxes=[BOX, INVERTED, WIDE, PIXELS],
        labels=[1, 2, 3, 1],
        texts=['a', 'b', 'c', 'd'],
        difficult=[0, 1, 1, 0],
        area=[1.0, 2.0, 3.0, 4.0],
        keypoints_y=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
    )
    repaired, problem = PLAIN.repair(malformed)
    assert problem == (
        'box 2 of 4 (ymin 0.5, xmin 0.25, ymax 0.125, xmax 0.75) is inverted; expected ymin < '
        'ymax and xmin < xmax (2 of 4 removed, 1 clipped)'
    )
    assert values(repaired, 'image/object/bbox/ymin') == [0.125, 0.125]
    assert values(repaired, 'image/object/bbox/xmax') == [0.75, 1.0]
    assert values(repaired, 'image/object/class/label') == [1, 3]
    assert values(repaired, 'image/object/class/text') == [b'a', b'c']
    assert values(repaired, 'image/object/difficult') == [0, 1]
    assert values(repaired, 'image/object/area') == [1.0, 3.0]
    ys = values(repaired, 'image/object/keypoint/y')
    np.testing.assert_allclose(ys, [0.1, 0.2, 0.5, 0.6], rtol=1e-6)


def test_a_malformed_mask_costs_its_object():
    masks = [mask_png(np.ones([4, 6])), b'no picture', mask_png(np.ones([4, 5]))]
    malformed = record(boxes=[BOX] * 3, labels=[1, 2, 3], masks=masks)
    repaired, problem = WITH_MASKS.repair(malformed)
    assert problem == 'image/object/mask 2 of 3 is no PNG (2 of 3 removed, 0 clipped)'
    assert values(repaired, 'image/object/class/label') == [1]
    assert values(repaired, 'image/object/mask') == masks[:1]
    assert PLAIN.repair(malformed) is None  # masks are not read


def test_rotated_boxes_are_removed_not_clipped():
    keys = dict(
        zip(('cy', 'cx', 'h', 'w', 'ang'), ([0.5, 9], [0.5, 9], [0.25] * 2, [0.25] * 2, [0.0] * 2))
    )
    message = tf.train.Example.FromString(record(labels=[1, 2]))
    for name, numbers in keys.items():
        message.features.feature[f'image/object/rbbox/{name}'].float_list.value.extend(numbers)
    repaired, problem = ROTATED.repair(message.SerializeToString())
    assert problem.endswith('(1 of 2 removed, 0 clipped)')
    assert values(repaired, 'image/object/rbbox/cy') == [0.5]
    assert values(repaired, 'image/object/class/label') == [1]


@pytest.mark.parametrize(
    'malformed',
    [
        b'no example',
        record(boxes=[PIXELS, INVERTED]),  # no object is left: it would teach background
        record(boxes=[BOX, INVERTED], labels=[1]),  # which box has the label?
        record(boxes=[BOX, INVERTED], encoded=None),
        record(boxes=[BOX]),  # nothing is wrong
        record(),
    ],
)
def test_other_records_stay_malformed(malformed):
    assert PLAIN.repair(malformed) is None
