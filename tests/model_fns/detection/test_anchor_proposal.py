"""Proposed anchors: k-means against a slow version, feature maps, and a whole proposal."""

import dataclasses
import itertools
import math
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.commands import check
from model_fns.cli import front_door, run_options
from model_fns.detection import anchor_proposal, box_report
from model_fns.detection.boxes import anchors, quadrilaterals
from model_fns.structures import rotated_overlaps
from model_fns.structures.label_map import LabelMap
from tests import tiny_detection, tiny_rotated, tiny_two_stage
from tests.model_fns.detection.records import png, record

pytestmark = pytest.mark.usefixtures('shallow_networks')


def propose(config):
    return anchor_proposal.propose(model_fns.make_task(config), config)


def slow_overlap(size, center):
    common = min(size[0], center[0]) * min(size[1], center[1])
    return common / (size[0] * size[1] + center[0] * center[1] - common)


def slow_clusters(sizes, count):
    sizes = sorted(map(tuple, sizes), key=lambda size: size[0] * size[1])
    centers = [sizes[int((index + 0.5) / count * len(sizes))] for index in range(count)]
    for _ in range(50):
        members = [[] for _ in centers]
        for size in sizes:
            likeness = [slow_overlap(size, center) for center in centers]
            members[likeness.index(max(likeness))].append(size)
        for index, group in enumerate(members):
            if group:
                centers[index] = tuple(sum(side) / len(group) for side in zip(*group))
    return sorted(centers, key=lambda size: size[0] * size[1])


@pytest.mark.parametrize('count', [1, 3, 5])
def test_clusters_are_those_of_a_slow_version(count):
    sizes = np.exp(np.random.RandomState(count).uniform(1, 5, [60, 2]))
    np.testing.assert_allclose(
        anchor_proposal.cluster(sizes, count), slow_clusters(sizes, count), rtol=1e-9
    )


def test_more_clusters_than_sizes():
    sizes = np.array([[2.0, 8.0], [2.0, 8.0]])
    np.testing.assert_allclose(anchor_proposal.cluster(sizes, 3), [[2.0, 8.0]] * 3)


def test_feature_maps_of_a_generator():
    shapes = [[(0.2, 1.0), (0.2, 2.0)], [(0.5, 1.0)], [(0.7, 1.0)], [(0.9, 0.5), (0.9, 1.0)]]
    generator = anchors.SsdAnchorGenerator(shapes)
    grids = [(4, 6), (2, 3), (1, 1), (1, 1)]
    levels = anchor_proposal.find_levels(generator, grids, (80, 120))
    assert [level.strides for level in levels] == [
        pytest.approx((20, 20)),
        pytest.approx((40, 40)),
        pytest.approx((80, 120)),
        pytest.approx((80, 120)),
    ]
    assert levels[0].offsets == pytest.approx((10, 10))
    # Of the shorter side, 80 pixels.
    np.testing.assert_allclose(levels[0].shapes, [[16, 16], [16 / 2**0.5, 16 * 2**0.5]], rtol=1e-4)
    np.testing.assert_allclose(levels[2].shapes, [[56, 56]], rtol=1e-4)
    np.testing.assert_allclose(levels[3].shapes[1], [72, 72], rtol=1e-4)


def test_feature_maps_of_a_generator_with_strides():
    generator = anchors.MultiscaleAnchorGenerator(3, 7, 2.0, [1.0], 1, normalize=False)
    levels = anchor_proposal.find_levels(generator, (), (128, 128))
    assert [level.strides for level in levels] == [(2.0**k, 2.0**k) for k in range(3, 8)]
    assert [level.offsets for level in levels] == [(2.0**k, 2.0**k) for k in range(2, 7)]
    np.testing.assert_allclose(levels[4].shapes, [[256, 256]])


def test_each_map_gets_the_boxes_of_its_size():
    present = np.array([[1.0, 1.0]])
    levels = [anchor_proposal.Level(present, (side,) * 2, (0.0, 0.0)) for side in (8.0, 16.0, 64.0)]
    # Roots of the area over 4 sqrt(2): 7.1, 8.8 and 17.7; nothing is near 64.
    sizes = np.array([[40.0, 40.0], [50.0, 50.0], [50.0, 200.0]])
    fitted = anchor_proposal.fit_levels(levels, sizes, 4 * 2**0.5)
    np.testing.assert_allclose(fitted[0].shapes, [[45.0, 45.0]])
    np.testing.assert_allclose(fitted[1].shapes, [[50.0, 200.0]])
    np.testing.assert_allclose(fitted[2].shapes, present)


@pytest.fixture
def folder(tmp_path):
    """Boxes of 24 x 8 and 8 x 24 pixels around the centers of cells of 8 x 8."""
    LabelMap.from_names(['green', 'blue']).write(str(tmp_path / 'label_map.pbtxt'))
    with tf.io.TFRecordWriter(str(tmp_path / 'train.tfrecord')) as writer:
        for height, width in ((24, 8), (8, 24)):
            box = np.array([28 - height / 2, 28 - width / 2, 28 + height / 2, 28 + width / 2]) / 64
            writer.write(record([box], [1], encoded=png(64, 64)))
    return tmp_path


def test_a_proposal_is_a_part_of_a_config_and_says_what_it_gains(folder):
    text = tiny_detection.config_text(folder)
    lines = propose(config_lib.parse_pipeline_config(text, 'text'))
    # The anchors have 16 x 16 pixels: 128 in common, of 320.
    assert lines[:2] == [
        'anchors: 0.0% of 2 boxes overlap one by 0.5 (mean of the best overlaps: 0.400)',
        'anchors below: 100.0% (mean: 1.000); write them in place of anchor_generator',
    ]
    fragment = config_lib.parse_pipeline_config('\n'.join(lines[2:]), 'proposal')
    grids = fragment.model.ssd.anchor_generator.flexible_grid_anchor_generator.anchor_grid
    assert [grid.height_stride for grid in grids] == [8, 16]
    assert [grid.width_offset for grid in grids] == [4, 8]
    assert list(grids[0].aspect_ratios) == pytest.approx([1 / 3, 3], rel=1e-3)
    # No box is of the size of the second map.
    assert list(grids[1].base_sizes) == pytest.approx([32, 32 * 2**0.5], rel=1e-3)
    config = config_lib.parse_pipeline_config(text, 'text')
    config.model.ssd.anchor_generator.CopyFrom(fragment.model.ssd.anchor_generator)
    assert propose(config)[1] == 'anchors: k-means finds none that fit better'


def test_a_bad_box_that_the_policy_leaves_out_withholds_no_anchors(folder, monkeypatch, capsys):
    """One image has a good box and an inverted one; the anchors are those of the good boxes."""
    monkeypatch.setattr(check, '_model_lines', lambda *_: [])
    path = folder / 'pipeline.config'
    path.write_text(tiny_detection.config_text(folder).split('eval_config {')[0])
    with tf.io.TFRecordWriter(str(folder / 'train.tfrecord')) as writer:
        for boxes in ([[16, 24, 40, 32]], [[24, 16, 32, 40], [40, 16, 24, 40]]):
            ids = [1] * len(boxes)
            writer.write(record(np.array(boxes) / 64, ids, encoded=png(64, 64)))
    options = run_options.RunOptions(
        mode='check', pipeline_config_path=str(path), propose_anchors=True
    )
    with pytest.raises(errors.UserError, match='1 problem found'):
        front_door.run(options)
    capsys.readouterr()
    policy = ('train_input_reader { corrupt_record_policy: SKIP }',)
    front_door.run(dataclasses.replace(options, config_override=policy))
    said = capsys.readouterr().out
    assert 'warning: left out: train_input_reader: ' in said
    assert 'anchors: 0.0% of 2 boxes overlap one by 0.5' in said
    assert 'anchors below: 100.0% (mean: 1.000)' in said


def test_models_without_such_anchors_are_refused():
    config = config_lib.parse_pipeline_config('model { center_net { num_classes: 2 } }', 'text')
    with pytest.raises(errors.UserError, match='is center_net; expected ssd or faster_rcnn'):
        anchor_proposal.propose(None, config)


def test_matchers_that_give_each_box_an_anchor_have_none_to_fit():
    setting = 'model.ssd.matcher={ atss_matcher { } }'
    path = pathlib.Path(model_fns.__file__).parent.parent / 'configs' / 'bccd_ssd.config'
    config = config_lib.load_pipeline_config(str(path), settings=[setting])
    own = box_report.Record((60, 80), np.float32([[0.1, 0.1, 0.3, 0.3]]), (1,))
    assert 'there is none to fit' in anchor_proposal.fit(config, [own])


def slow_anchors(generator, size):
    """Generate the anchors of a flexible grid for an input, one at a time.

    Returns:
        [A, 5]: center, height, width, angle.
    """
    found = []
    for grid in generator.anchor_grid:
        rows, columns = (
            math.ceil(side / stride)
            for side, stride in zip(size, (grid.height_stride, grid.width_stride))
        )
        for row, column in itertools.product(range(rows), range(columns)):
            for side, ratio in zip(grid.base_sizes, grid.aspect_ratios):
                for angle in generator.angles or [0.0]:
                    y = grid.height_offset + row * grid.height_stride
                    x = grid.width_offset + column * grid.width_stride
                    found.append([y, x, side / ratio**0.5, side * ratio**0.5, angle])
    return np.array(found)


def slow_corners(boxes):
    """Return ymin, xmin, ymax, xmax of boxes [n, 5] that are not rotated."""
    return np.concatenate([boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, :2] + boxes[:, 2:4] / 2], 1)


def slow_outlines(boxes):
    """Return the corners [n, 4, 2] of boxes [n, 5]; a width of angle 0 is along x."""
    outlines = []
    for y, x, height, width, angle in boxes:
        cosine, sine = math.cos(angle), math.sin(angle)
        sides = [(-height, -width), (-height, width), (height, width), (height, -width)]
        outlines.append(
            [
                (y + (along * sine + across * cosine) / 2, x + (along * cosine - across * sine) / 2)
                for across, along in sides
            ]
        )
    return np.array(outlines)


def slow_best(anchors, boxes):
    """Compute the best overlap of each box [n, 4] with anchors [A, 4]."""
    best = []
    for ymin, xmin, ymax, xmax in boxes:
        overlaps = [0.0]
        for top, left, bottom, right in anchors:
            down = min(ymax, bottom) - max(ymin, top)
            common = max(0, down) * max(0, min(xmax, right) - max(xmin, left))
            area = (bottom - top) * (right - left)
            overlaps.append(common / (area + (ymax - ymin) * (xmax - xmin) - common))
        best.append(max(overlaps))
    return np.array(best)


def said(lines):
    """Read the recall in percent and the mean overlap that the second line says."""
    return tuple(map(float, re.match(r'anchors below: (.*)% \(mean: (.*)\);', lines[1]).groups()))


@pytest.fixture(scope='module')
def large_boxes(tmp_path_factory):
    """Write boxes in an image of 128 x 192 pixels; return the folder and the normalized boxes."""
    folder = tmp_path_factory.mktemp('large')
    random = np.random.RandomState(1)
    low = random.uniform(0.0, 0.4, [40, 2])
    boxes = np.concatenate([low, low + random.uniform(0.1, 0.5, [40, 2])], 1)
    LabelMap.from_names(['green', 'blue']).write(str(folder / 'label_map.pbtxt'))
    with tf.io.TFRecordWriter(str(folder / 'train.tfrecord')) as writer:
        writer.write(record(boxes, [1] * 40, encoded=png(128, 192)))
    return folder, boxes


RESIZER = 'keep_aspect_ratio_resizer {{ min_dimension: 64 max_dimension: 96 }}'
DROPPING = tiny_two_stage.MODEL.replace('anchors_to_image: true', 'anchors_to_image: false')
PYRAMID = tiny_two_stage.PYRAMID.replace('resnet50_fpn', 'mobilenet_v1_025_fpn')


@pytest.mark.parametrize(
    'model, clips, counts',
    [
        (DROPPING, False, [2]),
        (PYRAMID, True, [2] * 4),
    ],
)
def test_proposals_for_two_stages_have_the_recall_of_a_slow_version(
    large_boxes, model, clips, counts
):
    folder, boxes = large_boxes
    model = model.replace('fixed_shape_resizer {{ height: 64 width: 64 }}', RESIZER)
    text = model.format(stages=2) + tiny_detection.REST.format(folder=folder)
    config = config_lib.parse_pipeline_config(text, 'text')
    lines = propose(config)
    assert lines[1].endswith('write them in place of first_stage_anchor_generator')
    fragment = config_lib.parse_pipeline_config('\n'.join(lines[2:]), 'proposal')
    generator = fragment.model.faster_rcnn.first_stage_anchor_generator
    grids = generator.flexible_grid_anchor_generator.anchor_grid
    assert [len(grid.base_sizes) for grid in grids] == counts
    made = slow_corners(slow_anchors(generator.flexible_grid_anchor_generator, (64, 96)))
    if clips:
        made = np.clip(made, 0, [64, 96, 64, 96])
    else:
        made = made[np.all((made >= 0) & (made <= [64, 96, 64, 96]), axis=1)]
    best = slow_best(made, boxes * [64, 96, 64, 96])
    assert said(lines) == (round(100 * np.mean(best >= 0.5), 1), round(best.mean(), 3))
    assert 0.1 < best.min() < 0.5 < best.max()
    config.model.faster_rcnn.first_stage_anchor_generator.CopyFrom(generator)
    model_fns.build_task(config)


def test_no_anchor_that_is_inside_of_the_input_is_no_proposal(tmp_path):
    LabelMap.from_names(['green', 'blue']).write(str(tmp_path / 'label_map.pbtxt'))
    with tf.io.TFRecordWriter(str(tmp_path / 'train.tfrecord')) as writer:
        writer.write(record([[0.0, 0.0, 1.0, 1.0]], [1], encoded=png(64, 64)))
    text = DROPPING.format(stages=2) + tiny_detection.REST.format(folder=tmp_path)
    lines = propose(config_lib.parse_pipeline_config(text, 'text'))
    assert lines[1:] == ['anchors: k-means finds none that fit better']


def test_proposals_for_rotated_boxes_have_the_recall_of_a_slow_version(tmp_path):
    LabelMap.from_names(['green', 'blue']).write(str(tmp_path / 'label_map.pbtxt'))
    random = np.random.RandomState(2)
    low, high = [20, 20, 6, 10, -1.5], [44, 60, 10, 24, 1.5]
    boxes = random.uniform(low, high, [30, 5])
    with tf.io.TFRecordWriter(str(tmp_path / 'train.tfrecord')) as writer:
        image = np.zeros([64, 80, 3], np.uint8)
        writer.write(tiny_rotated.record(image, boxes, np.ones([30], int)))
    text = tiny_rotated.config_text(tmp_path, stages=2)
    config = config_lib.parse_pipeline_config(text, 'text')
    lines = propose(config)
    fragment = config_lib.parse_pipeline_config('\n'.join(lines[2:]), 'proposal')
    generator = fragment.model.faster_rcnn.first_stage_anchor_generator
    config.model.faster_rcnn.first_stage_anchor_generator.CopyFrom(generator)
    generator = generator.flexible_grid_anchor_generator
    assert list(generator.angles) == pytest.approx([-1.5708, -1.0472, -0.5236, 0, 0.5236, 1.0472])
    outlines = slow_outlines(slow_anchors(generator, (64, 80)))
    best = rotated_overlaps.iou(slow_outlines(boxes), outlines).max(axis=1)
    assert said(lines) == (round(100 * np.mean(best >= 0.4), 1), round(best.mean(), 3))
    model_fns.build_task(config)


def test_sizes_of_rotated_boxes_are_seen_from_the_nearest_angle():
    records = np.array([[30.0, 30.0, 8.0, 20.0, angle] for angle in (0.1, 1.5, -1.5, 0.7, 3.1)])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        corners = session.run(quadrilaterals.from_boxes(tf.constant(records), 1.0, 1.0))
    along, across = [8, 20], [20, 8]
    for angles, expected in (
        ([0.0], [along, across, across, along, along]),
        ([0.0, math.pi / 2], [along] * 5),
        ([math.pi / 2], [across, along, along, across, across]),
    ):
        sizes = anchor_proposal._sizes(corners.astype(np.float32), quadrilaterals, angles)
        np.testing.assert_allclose(sizes, expected, rtol=1e-5)
