"""Boxes beside anchors, on a detector of two anchors."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import model_fns
from estimator_lib import config as config_lib
from model_fns.detection import box_report
from model_fns.detection.boxes import axis_aligned, quadrilaterals, rotated
from model_fns.detection.data import image_resizers
from model_fns.detection.detector import AnchorFit, build_detector
from model_fns.structures.label_map import LabelMap
from tests import tiny_detection, tiny_two_stage
from tests.model_fns.detection.records import png, record

pytestmark = pytest.mark.usefixtures('shallow_networks')

# Of inputs of 40 x 80: 20 x 20 and 40 x 40 pixels.
ANCHORS = np.array([[0.0, 0.0, 0.5, 0.25], [0.0, 0.0, 1.0, 0.5]], np.float32)


class Model:
    """What the report asks of a detector."""

    resizer = image_resizers.FixedShapeResizer(40, 80)
    family = axis_aligned

    def __init__(self, threshold=0.5):
        self.threshold = threshold

    def anchor_fit(self, images, boxes):
        assert images.shape == (1, 40, 80, 3)
        if self.threshold is None:
            return None
        similarity = tf.reduce_max(axis_aligned.pairwise_iou(boxes, ANCHORS), -1)
        return AnchorFit(similarity, tf.constant(ANCHORS), self.threshold)


def report(boxes, threshold=0.5):
    records = [box_report.Record((4, 6), np.array([box], np.float32), (1,)) for box in boxes]
    return box_report.box_report(Model(threshold), {'train_input_reader': records})


FITS, HALF, FAR = [0, 0, 0.5, 0.25], [0, 0, 0.5, 0.2], [0.9, 0.9, 1, 1]


def test_boxes_and_anchors_are_in_pixels_of_the_input():
    said = report([FITS, FITS, FITS, HALF])
    # The roots are 20, 20, 20 and sqrt(20 x 16) = 17.9; those of the anchors are 20 and 40.
    assert said.lines == [
        'boxes: root of the area 18 (5 %), 20 (median), 20 (95 %) pixels of the input',
        'anchors: root of the area 21 (5 %), 30 (median), 39 (95 %) pixels of the input, for '
        'inputs of 40 x 80',
        'matches: 0.0% of 4 boxes overlap no anchor by 0.5',
    ]
    assert list(said.warnings) == []


def test_a_report_without_eager_execution_leaves_other_graphs_alone():
    """So is a process of an all-reduce job, and a program without v2 behavior."""
    with tf.Graph().as_default() as outer:
        said = report([FITS, HALF])
    assert said.lines[-1] == 'matches: 0.0% of 2 boxes overlap no anchor by 0.5'
    assert outer.get_operations() == []


def test_boxes_that_no_anchor_overlaps():
    said = report([FITS, FAR])
    assert said.warnings == [
        '50.0% of 2 boxes overlap no anchor by 0.5, matched_threshold: the anchors do not fit the '
        'boxes'
    ]
    # The IoU of HALF is 0.8.
    assert report([HALF], 0.81).lines[-1] == 'matches: 100.0% of 1 boxes overlap no anchor by 0.81'
    assert report([HALF], 0.79).lines[-1] == 'matches: 0.0% of 1 boxes overlap no anchor by 0.79'


def test_the_number_of_graphs_does_not_depend_on_that_of_records():
    def count_graphs(boxes):
        with mock.patch.object(tf, 'Graph', side_effect=tf.Graph) as graph:
            report(boxes)
        return graph.call_count

    assert count_graphs([FITS]) == count_graphs([FITS, HALF, FAR]) > 0


def test_detectors_without_anchors_have_sizes_alone():
    assert len(report([FITS], None).lines) == 1
    assert report([]).lines == ()


def test_what_is_kept_of_a_record():
    label_map = LabelMap.from_names(['cat', 'dog'])
    boxes = [[0.1, 0.2, 0.5, 0.6], [0.0, 0.0, 1.0, 0.5]]
    one = box_report.examine(record(boxes, [2, 2], encoded=png(4, 6)), axis_aligned, label_map)
    assert one.size == (4, 6) and one.ids == (2, 2) and one.counts == {2: 2}
    np.testing.assert_allclose(one.boxes, boxes, rtol=1e-6)
    named = record(boxes, [], texts=['dog', 'cat'])
    assert box_report.examine(named, axis_aligned, label_map).ids == (2, 1)
    assert box_report.examine(record(), axis_aligned, None).boxes.shape == (0, 4)


NAN = float('nan')
SOUND = [0.1, 0.2, 0.5, 0.6]


def test_boxes_that_training_leaves_out_are_counted():
    label_map = LabelMap.from_names(['cat', 'dog'])
    boxes = [SOUND, [NAN, 0, 1, 1], [0.5, 0.2, 0.5, 0.6], [-0.01, 0.2, 0.5, 0.6], SOUND, SOUND]
    names = ['dog', 'dog', 'dog', 'cat', 'cow', 'cow']
    mixed = record(boxes, [], texts=names, encoded=png(4, 6), source_id='a.png')
    fine = record([SOUND] * 3, [], texts=['cat'] * 3, encoded=png(4, 6), source_id='b.png')
    records = [box_report.examine(one, axis_aligned, label_map, 2) for one in (mixed, fine)]
    assert [one.ids for one in records] == [(2, 1), (1, 1, 1)]
    assert len(records[0].boxes) == 2
    assert box_report.list_warnings({'train': records}, {'train': 2}) == [
        "train: 2 boxes of 1 record ('a.png' first) of classes that the model does not have, "
        "left out: 'cow' (2)",
        "train: 1 box of 1 record ('a.png' first) with sides that are not numbers, left out",
        "train: 1 box of 1 record ('a.png' first) without area, left out",
        "train: 1 box of 1 record ('a.png' first) beyond the edge of the image",
        "train: 1 box of 1 record ('b.png' first) left out, because max_number_of_boxes is "
        '2; max_number_of_boxes: 3 has room for all of them',
    ]
    assert box_report.list_warnings({'train': records[1:]}, {'train': 3}) == []


def test_regions_to_ignore_are_no_objects_and_take_room():
    regions = record([SOUND] * 3, [1, 1, 2], weight=[1.0, 0.0, 0.0], is_crowd=[0, 1, 1])
    found = box_report.examine(regions, axis_aligned, None, 2)
    assert (found.ids, len(found.boxes), found.num_rows()) == ((1,), 1, 3)
    (warning,) = box_report.list_warnings({'train': [found]}, {'train': 2})
    assert 'max_number_of_boxes: 3 has room for all of them' in warning


def test_ids_beyond_the_classes_are_unknown():
    found = box_report.examine(
        record([SOUND] * 3, [0, 2, 3], encoded=png(4, 6)), axis_aligned, None, 2
    )
    assert found.ids == (2,) and found.unknown == (0, 3)


def test_the_anchors_of_a_single_shot_detector(tmp_path):
    # Of 64 x 64 pixels: 8 x 8 cells with anchors of 16 and 16 sqrt(2), 4 x 4 with twice these.
    tiny_detection.write_records(tmp_path / 'train.tfrecord', 1, seed=0)
    LabelMap.from_names(['green', 'blue']).write(str(tmp_path / 'label_map.pbtxt'))
    text = tiny_detection.config_text(tmp_path)
    task = model_fns.build_task(config_lib.parse_pipeline_config(text, 'text'), 'train')
    content = record([[0.5, 0.5, 0.5 + 2 / 64, 0.5 + 2 / 64]], [2], encoded=png(4, 6))
    report = task.checks.data_report({'train_input_reader': [task.checks.examine(content)]})
    assert report.lines[1:] == [
        '  2 blue            1 objects 100.0%  in 1 of 1 images',
        'boxes: root of the area 2 (5 %), 2 (median), 2 (95 %) pixels of the input',
        'anchors: root of the area 16 (5 %), 23 (median), 45 (95 %) pixels of the input, for '
        'inputs of 64 x 64',
        'matches: 100.0% of 1 boxes overlap no anchor by 0.5',
    ]
    assert report.warnings[0] == 'there is no example of 1 of 2 classes: 1 green'
    # A matcher that gives each box an anchor.
    config = config_lib.parse_pipeline_config(text, 'text')
    config.model.ssd.matcher.atss_matcher.SetInParent()
    task = model_fns.build_task(config, 'train')
    report = task.checks.data_report({'train_input_reader': [task.checks.examine(content)]})
    # 2 x 2 of the 16 x 16 pixels of the best anchor.
    assert report.lines[-1] == (
        'matches: each of 1 boxes has an anchor, whatever their overlap (0.02 in the median)'
    )
    assert not any('anchors do not fit' in warning for warning in report.warnings)


def test_the_anchors_need_no_weights(monkeypatch):
    # Most of the time would go into the initial values of a network that is never run.
    text = tiny_two_stage.MODEL.format(stages=2)
    made = build_detector(config_lib.parse_pipeline_config(text, 'text').model)
    fit_anchors, weights = made.anchor_fit, []

    def anchor_fit(*tensors):
        fit = fit_anchors(*tensors)
        weights.append(tf.compat.v1.trainable_variables())
        return fit

    monkeypatch.setattr(made, 'anchor_fit', anchor_fit)
    box = np.array([[14, 14, 34, 34]], np.float32) / 64
    box_report.fit_anchors(made, [box_report.Record((64, 64), box, (1,))])
    assert weights == [[]]


def test_the_anchors_of_a_two_stage_detector():
    # 4 x 4 cells, centers at 8, 24, 40 and 56, with anchors of 14 and 20 pixels, cut off at 64.
    text = tiny_two_stage.MODEL.format(stages=2)
    made = build_detector(config_lib.parse_pipeline_config(text, 'text').model)
    fits = np.array([14, 14, 34, 34], np.float32) / 64
    far = np.array([0, 0, 4, 4], np.float32) / 64
    records = [box_report.Record((64, 64), np.array([fits, far]), (1, 1))]
    report = box_report.box_report(made, {'train_input_reader': records})
    assert report.lines[1].endswith('20 (95 %) pixels of the input, for inputs of 64 x 64')
    assert report.lines[2] == 'matches: 50.0% of 2 boxes overlap no anchor by 0.5'
    assert report.warnings == [
        '50.0% of 2 boxes overlap no anchor by 0.5, what the second stage takes for an object: '
        'the anchors do not fit the boxes'
    ]


class RotatedModel(Model):
    """The same of rotated boxes: one anchor of 10 x 40 pixels, turned by 0.5."""

    family = quadrilaterals

    def anchor_fit(self, images, boxes):
        anchors = tf.constant([[20.0, 40, 10, 40, 0.5]])
        own = quadrilaterals.to_boxes(boxes, 40.0, 80.0)
        similarity = tf.reduce_max(rotated.pairwise_iou(own, anchors), -1)
        return AnchorFit(similarity, quadrilaterals.from_boxes(anchors, 40.0, 80.0), self.threshold)


def test_rotated_boxes_are_in_pixels_of_the_input_too():
    # Of images of 4 x 8 pixels: 1 x 4 and turned by 0.5, and the same turned by a right angle more.
    boxes = [[0.5, 0.5, 0.25, 0.5, angle] for angle in (0.5, 0.5, 0.5, 0.5 + np.pi / 2)]
    records = [box_report.Record((4, 8), np.array([box], np.float32), (1,)) for box in boxes]
    said = box_report.box_report(RotatedModel(), {'train_input_reader': records})
    assert said.lines == [
        'boxes: root of the area 20 (5 %), 20 (median), 20 (95 %) pixels of the input',
        'anchors: root of the area 20 (5 %), 20 (median), 20 (95 %) pixels of the input, for '
        'inputs of 40 x 80',
        'matches: 25.0% of 4 boxes overlap no anchor by 0.5',
    ]


def test_inputs_that_squeeze_images_and_small_boxes_have_remedies():
    """The input is 40 x 80; images are square, and the boxes become 8 x 16 and 40 x 80 pixels."""

    def warn(size, *boxes):
        found = [box_report.Record(size, np.array([box], np.float32), (1,)) for box in boxes]
        return box_report.input_warnings(Model(), found)

    small, large = [0, 0, 0.1, 0.1], [0, 0, 1, 1]  # roots of 0.1 * 56.6 = 5.7 and of 56.6 pixels
    assert warn((60, 60), small, large) == [
        "all 2 images are about 1.00:1, and the network's input is 2.00:1: objects are squeezed; "
        'fixed_shape_resizer { height: 64 width: 64 } has the shape of the images',
        '50% of the boxes have less than 10 pixels at the input: expected a larger image_resizer, '
        'or tiles (of a reader of files or convert-records --tile; eval_config.tiles; '
        '--mode=predict --tile)',
    ]
    assert not warn((30, 60), large, large)
