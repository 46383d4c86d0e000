"""Proposed anchors: k-means against a slow version, feature maps, and a whole proposal."""

import numpy as np
import pytest
import tensorflow as tf

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns.detection import anchor_proposal
from model_fns.detection.boxes import anchors
from model_fns.structures.label_map import LabelMap
from tests import tiny_detection, tiny_two_stage
from tests.model_fns.detection.records import png, record


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


def test_feature_maps_are_found_in_their_anchors():
    shapes = [[(0.2, 1.0), (0.2, 2.0)], [(0.5, 1.0)], [(0.7, 1.0)], [(0.9, 0.5), (0.9, 1.0)]]
    generator = anchors.SsdAnchorGenerator(shapes)
    grids = [(4, 6), (2, 3), (1, 1), (1, 1)]
    boxes = generator.generate(grids, (80, 120)) * [80, 120, 80, 120]
    levels = anchor_proposal.find_levels(boxes, generator.anchors_per_location(), (80, 120))
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


def test_each_map_gets_the_boxes_of_its_size():
    present = np.array([[1.0, 1.0]])
    levels = [anchor_proposal.Level(present, (side,) * 2, (0.0, 0.0)) for side in (8.0, 16.0, 64.0)]
    # Roots of the area over 4 sqrt(2): 7.1, 8.8 and 17.7; nothing is near 64.
    sizes = np.array([[40.0, 40.0], [50.0, 50.0], [50.0, 200.0]])
    fitted = anchor_proposal.fit_levels(levels, sizes)
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


def test_models_without_such_anchors_are_refused():
    config = config_lib.parse_pipeline_config(tiny_two_stage.MODEL.format(stages=2), 'text')
    with pytest.raises(errors.UserError, match='the model is faster_rcnn; expected ssd'):
        propose(config)
