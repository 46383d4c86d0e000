"""Records of a detector that mean something else than its config."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.data import image_resizers
from model_fns.detection.data.inputs import Reader
from model_fns.detection.data_checks import DetectionChecks
from model_fns.detection.detector import AnchorFit
from model_fns.structures.label_map import LabelMap
from tests.model_fns.detection.records import png, record

BOX = [0.1, 0.2, 0.5, 0.6]
BY_ID = Reader(num_classes=2)
BY_NAME = Reader(num_classes=2, label_map=LabelMap.from_names(['cat', 'dog']))


def numbered(*labels, index=0, **fields):
    boxes = [BOX] * len(labels)
    image = png(20, 30, index)
    return record(boxes, list(labels), encoded=image, source_id=f'{index}.png', **fields)


def meaning(records, reader=BY_ID):
    checks = DetectionChecks(Model(), reader)
    return checks.check_meaning({'train_input_reader': map(checks.annotate, records)})


class Model:
    """What the report asks of a detector: one anchor, the left half of inputs of 40 x 80."""

    resizer = image_resizers.FixedShapeResizer(40, 80)
    family = axis_aligned

    def anchor_fit(self, images, boxes):
        anchors = np.array([[0.0, 0.0, 1.0, 0.5]], np.float32)
        similarity = tf.reduce_max(axis_aligned.pairwise_iou(boxes, anchors), -1)
        return AnchorFit(similarity, tf.constant(anchors), 0.5)


def first(records, are_all, reader=BY_ID):
    return DetectionChecks(Model(), reader).check_first_examples(records, are_all)


def test_boxes_that_no_anchor_meets_are_told_at_the_start_of_a_run():
    half, far = [0.0, 0.0, 1.0, 0.5], [0.5, 0.6, 0.9, 0.9]
    image = png(20, 30)
    fits = record([half], [1], encoded=image, source_id='a')
    assert first([fits], True) == []
    unfit = record([far], [1], encoded=png(20, 30, 9), source_id='b')
    (warning,) = first([fits, unfit], True)
    assert warning == (
        'train_input_reader: 50.0% of 2 boxes overlap no anchor by 0.5, matched_threshold: the '
        'anchors do not fit the boxes; --mode=check --propose_anchors proposes others'
    )


def test_labels_from_0_are_an_error_of_any_sample():
    records = [numbered(0, 1, index=index) for index in range(3)]
    for reader in (BY_ID, BY_NAME):
        report = meaning(records, reader)
        assert report.certain == [
            'train_input_reader: 3 of 6 objects have the label 0: labels start at 0, it seems; '
            'expected 1 to 2 (first: 0.png: box 1)'
        ]
        with pytest.raises(errors.DataError, match='labels start at 0, it seems'):
            first(records, False, reader)


def test_labels_beside_names_do_not_count():
    named = record([BOX] * 2, [0, 1], texts=['cat', 'dog'], encoded=png(20, 30))
    assert meaning([named], BY_NAME).certain == []


def test_labels_that_start_at_2():
    report = meaning([numbered(2, 3)])
    assert 'labels start at 2, it seems' in report.problems[0] and not report.certain
    assert not meaning([numbered(2, 3), numbered(1, index=1)]).problems


def test_crowds_only_are_an_error_where_all_records_are_known():
    records = [numbered(1, 2, index=index, is_crowd=[1, 1]) for index in range(2)]
    with pytest.raises(errors.DataError, match='all 4 objects are crowds'):
        first(records, True)
    warning, _ = first(records, False)
    assert 'all 4 objects are crowds' in warning


def test_weights_of_0_and_difficult_objects():
    (problem,) = meaning([numbered(1, 2, weight=[0.0, 0.0])]).problems
    assert 'all 2 objects are of weight 0: training ignores them' in problem
    report = meaning([numbered(1, 2, difficult=[1, 1])])
    assert not report.problems and 'all 2 objects are difficult' in report.warnings[0]


def test_images_that_lose_all_objects_and_ids_that_repeat():
    records = [numbered(1), numbered(9, index=1), numbered(2, index=1), numbered(1)]
    warnings = meaning(records).warnings
    assert warnings == [
        'train_input_reader: 1 of 4 images lose all of their objects, and are trained as '
        'background (first: 1.png)',
        'train_input_reader: 2 of 4 images have the source id of an image before them (first: '
        '1.png)',
        'train_input_reader: 2 of 4 images are equal to an image before them (first: 1.png)',
    ]


def test_recorded_case(shared):
    folder = shared / 'cases' / 'rec_label0_notext'
    reader = Reader(num_classes=2, label_map=LabelMap.read(str(folder / 'label_map.pbtxt')))
    records = list(tf.compat.v1.io.tf_record_iterator(str(folder / 'label0_notext.record')))
    with pytest.raises(errors.DataError, match='8 of 16 objects have the label 0'):
        first(records, True, reader)
