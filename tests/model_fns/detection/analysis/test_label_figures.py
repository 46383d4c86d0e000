"""Figures of boxes beside anchors, on the detector of two anchors of `test_box_report`."""

import numpy as np
import pytest

from model_fns.detection import box_report
from model_fns.detection.analysis import label_figures
from tests.model_fns.detection.test_box_report import FAR, FITS, HALF, Model, RotatedModel

canvases = pytest.importorskip('matplotlib.figure')


def drawn(figure):
    canvas = canvases.Figure()
    figure.draw(canvas)
    (axes,) = canvas.axes
    return axes


def figures(model, boxes, size=(4, 6)):
    records = [box_report.Record(size, np.array([box], np.float32), (1,)) for box in boxes]
    made = label_figures.box_figures(model, {'none': [], 'train': records})
    assert all(each.title.startswith('train: ') for each in made)
    return {each.name: each for each in made}


def test_boxes_beside_anchors():
    made = figures(Model(), [FITS, FITS, HALF, FAR])
    assert list(made) == ['box_positions', 'box_sizes', 'anchor_overlaps']
    boxes, anchors = drawn(made['box_sizes']).collections
    # Inputs have 40 x 80 pixels: widths and heights.
    np.testing.assert_allclose(
        boxes.get_offsets(), [[20, 20], [20, 20], [16, 20], [8, 4]], rtol=1e-5
    )
    np.testing.assert_allclose(anchors.get_offsets(), [[20, 20], [40, 40]])
    counts = drawn(made['box_positions']).images[0].get_array()
    # The center of FITS is at 0.25 and 0.125, of 32 rows and columns.
    assert counts[8, 4] == 2 and counts.sum() == 4
    overlaps = drawn(made['anchor_overlaps'])
    heights = [patch.get_height() for patch in overlaps.patches]
    assert sum(heights) == 4 and heights[-1] == 2
    assert '25.0% of 4 boxes overlap no anchor by 0.5' in made['anchor_overlaps'].note


def test_a_model_without_anchors():
    made = figures(Model(threshold=None), [FITS])
    assert list(made) == ['box_positions', 'box_sizes']
    assert len(drawn(made['box_sizes']).collections) == 1


def test_no_boxes_have_no_figures():
    assert label_figures.box_figures(Model(), {'train': []}) == []


def test_sides_of_rotated_boxes():
    # Of images of 4 x 8 pixels: 1 x 4, that is 10 x 40 in inputs of 40 x 80; turned, as the anchor.
    made = figures(RotatedModel(), [[0.5, 0.5, 0.25, 0.5, 0.5]], size=(4, 8))
    boxes, anchors = drawn(made['box_sizes']).collections
    assert sorted(boxes.get_offsets()[0]) == pytest.approx([10, 40], rel=1e-4)
    np.testing.assert_allclose(anchors.get_offsets(), boxes.get_offsets(), rtol=1e-2)
    assert drawn(made['box_positions']).images[0].get_array()[16, 16] == 1
