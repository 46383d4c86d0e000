from __future__ import annotations

import pytest

from model_fns.detection.boxes import quadrilaterals
from model_fns.detection.data import record_checks
from model_fns.structures.label_map import LabelMap
from protos.input_reader_pb2 import PNG_MASKS
from tests.model_fns.detection.records import record

LABEL_MAP = LabelMap.from_names(['cat', 'dog'])
BOX = [0.1, 0.2, 0.5, 0.6]
NAN = float('nan')


def problem(*, label_map=None, num_keypoints=0, mask_type=None, **parts):
    return record_checks.find_problem(
        record(**parts), label_map, num_keypoints, mask_type=mask_type
    )


@pytest.mark.parametrize(
    'parts',
    [
        {},
        {'boxes': []},
        {'boxes': [BOX, [0.0, 0.0, 1.0, 1.00001]], 'labels': [1, 2]},
        # What training accepts, and `box_report` counts.
        {'boxes': [BOX, [NAN, 0, 1, 1]], 'labels': [1, 1]},
        {'boxes': [[-0.01, 0.2, 0.5, 1.1]], 'labels': [1]},
        {'boxes': [[0.5, 0.25, 0.75, 0.25]], 'labels': [1]},
        {'boxes': [BOX] * 3, 'labels': [3, 0, 1]},
        {'boxes': [BOX], 'labels': [1], 'texts': ['cow'], 'label_map': LABEL_MAP},
        {'boxes': [BOX] * 200, 'labels': [1] * 200},
        {'boxes': [BOX], 'labels': [], 'texts': ['dog'], 'label_map': LABEL_MAP},
        {'boxes': [BOX], 'labels': [2], 'texts': ['dog'], 'label_map': LABEL_MAP},
        {'boxes': [BOX], 'labels': [2], 'label_map': LABEL_MAP},
        {'boxes': [BOX], 'labels': [1], 'difficult': [1], 'area': [20.0]},
        {
            'boxes': [BOX],
            'labels': [1],
            'keypoints_y': [0.1] * 3,
            'keypoints_x': [0.1] * 3,
            'num_keypoints': 3,
        },
    ],
)
def test_records_that_are_fine(parts):
    assert problem(**parts) is None


@pytest.mark.parametrize(
    ('parts', 'message'),
    [
        ({'encoded': b''}, 'no image/encoded'),
        ({'encoded': None}, 'no image/encoded'),
        (
            {'boxes': [BOX, BOX], 'labels': [1, 1], 'ymax': [0.5]},
            'image/object/bbox/* has 2 ymin, 2 xmin, 1 ymax, 2 xmax; expected as many of each',
        ),
        (
            {'boxes': [BOX, BOX], 'labels': [1]},
            '2 boxes, 1 image/object/class/label and 0 image/object/class/text; expected a label '
            'for each box',
        ),
        (
            {'boxes': [BOX], 'labels': []},
            '1 box, 0 image/object/class/label and 0 image/object/class/text; expected a label '
            'for each box',
        ),
        (
            {'boxes': [BOX], 'labels': [1], 'texts': ['cat', 'dog'], 'label_map': LABEL_MAP},
            '1 box, 1 image/object/class/label and 2 image/object/class/text; expected a label '
            'or a text for each box',
        ),
        (
            {'boxes': [BOX], 'labels': [1], 'is_crowd': [0, 1]},
            '1 box and 2 image/object/is_crowd; expected none, or 1 for each box',
        ),
        (
            {'boxes': [BOX], 'labels': [1], 'keypoints_y': [0.1] * 4, 'num_keypoints': 3},
            '1 box and 4 image/object/keypoint/y; expected none, or 3 for each box',
        ),
        (
            {'boxes': [BOX], 'labels': [1], 'mask_type': PNG_MASKS},
            '1 box and no image/object/mask, which load_instance_masks asks for',
        ),
        (
            {'boxes': [BOX], 'labels': [1], 'mask_type': PNG_MASKS, 'numerical_masks': [1.0] * 24},
            'image/object/mask is a float_list; expected a bytes_list',
        ),
        (
            {'boxes': [BOX], 'labels': [1], 'mask/weight': [1]},
            'image/object/mask/weight is a int64_list; expected a float_list',
        ),
        (
            {'boxes': [[0.1, 0.2, 0.5, 1.5]], 'labels': [1]},
            'box 1 of 1 (ymin 0.1, xmin 0.2, ymax 0.5, xmax 1.5) reaches out of the image; '
            'expected normalized coordinates, from 0 to 1',
        ),
        (
            {'boxes': [[0.5, 0.2, 0.1, 0.6]], 'labels': [1]},
            'box 1 of 1 (ymin 0.5, xmin 0.2, ymax 0.1, xmax 0.6) is inverted; expected ymin < ymax '
            'and xmin < xmax',
        ),
    ],
)
def test_one_sentence(parts, message):
    assert problem(**parts) == message


def test_what_is_no_example():
    assert record_checks.find_problem(b'\x00\xff') == 'not a tf.train.Example'


@pytest.mark.parametrize(
    ('parts', 'message'),
    [
        (
            {'boxes': [BOX], 'ymax': ['text']},
            'image/object/bbox/ymax is a bytes_list; expected a float_list',
        ),
        (
            {'boxes': [BOX], 'labels': [], 'texts': [3]},
            'image/object/class/text is a int64_list; expected a bytes_list',
        ),
        (
            {'boxes': [BOX], 'area': [3]},
            'image/object/area is a int64_list; expected a float_list',
        ),
    ],
)
def test_values_of_another_kind(parts, message):
    assert problem(**parts, label_map=LABEL_MAP) == message


ROTATED = {'rbbox/cy': [0.5], 'rbbox/cx': [0.5], 'rbbox/h': [0.1], 'rbbox/w': [0.4]}


def rotated_problem(angle=0.3, **lists):
    numbers = {**ROTATED, 'rbbox/ang': [angle], **lists}
    serialized = record(boxes=[], labels=[1], **numbers)
    return record_checks.find_problem(serialized, family=quadrilaterals)


def test_rotated_boxes():
    assert rotated_problem() is None
    assert rotated_problem(angle=45.0) == (
        'box 1 of 1 (cy 0.5, cx 0.5, h 0.1, w 0.4, ang 45) has an angle beyond 2 pi: degrees, it '
        'seems; expected radians'
    )
    assert rotated_problem(**{'rbbox/w': [0.0]}) is None  # left out
    assert 'has a negative side' in rotated_problem(**{'rbbox/w': [-0.1]})
    assert 'as many of each' in rotated_problem(**{'rbbox/w': [0.1, 0.2]})


def test_boxes_of_the_other_kind():
    axis_aligned_record = record(boxes=[BOX], labels=[1])
    assert record_checks.find_problem(axis_aligned_record, family=quadrilaterals) == (
        'image/object/bbox/* and no image/object/rbbox/*: axis-aligned boxes; expected rotated '
        'ones, or box_type: AXIS_ALIGNED in the model'
    )
    turned = record(boxes=[], labels=[1], **ROTATED, **{'rbbox/ang': [0.3]})
    assert record_checks.find_problem(turned) == (
        'image/object/rbbox/* and no image/object/bbox/*: rotated boxes; expected axis-aligned '
        'ones, or box_type: ROTATED in the model'
    )
    assert record_checks.find_problem(record(boxes=[], labels=[])) is None
