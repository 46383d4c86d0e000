"""Feature pyramids of two-stage detectors: kernels of the first stage, anchors, padding."""

import numpy as np
import pytest

from protos import faster_rcnn_pb2, pipeline_pb2
from vision_extras.recover.detection.two_stages import region_pyramids
from vision_extras.recover.facts import Proposal, Refusal

SIZE = (32, 48)


def clipped_anchors():
    """Anchors of levels 3 and 4, by hand: sides 16 and 32, ratios 1 and 4, clipped to the image."""
    boxes = []
    for stride in (8, 16):
        for row in range(SIZE[0] // stride):
            for column in range(SIZE[1] // stride):
                y, x = (row + 0.5) * stride, (column + 0.5) * stride
                for height, width in ((2 * stride, 2 * stride), (stride, 4 * stride)):
                    boxes.append([y - height / 2, x - width / 2, y + height / 2, x + width / 2])
    return np.clip(np.array(boxes, np.float32), 0, [*SIZE, *SIZE])


def test_clipped_anchors_are_fitted():
    config = region_pyramids._fit(3, clipped_anchors(), [(4, 6), (2, 3)], 2, SIZE)
    anchors = config.multiscale_anchor_generator
    assert (anchors.min_level, anchors.max_level, anchors.scales_per_octave) == (3, 4, 1)
    assert (anchors.anchor_scale, list(anchors.aspect_ratios)) == (2.0, [1.0, 4.0])
    assert not anchors.normalize_coordinates


def test_other_anchors_are_refused():
    boxes = clipped_anchors()
    boxes[5, 0] += 1
    with pytest.raises(Refusal, match='its 2 anchors of a cell'):
        region_pyramids._fit(3, boxes, [(4, 6), (2, 3)], 2, SIZE)


def test_kernels_of_regions_are_in_the_order_of_levels():
    end = 'BoxEncodingPredictor/weights'
    names = [f'FirstStageBoxPredictor_{number}/{end}' for number in (10, 0, 2)]
    assert region_pyramids.region_codes(dict.fromkeys(names, ())) == [
        names[1], names[2], names[0]
    ]  # fmt: skip
    assert region_pyramids.region_codes({f'FirstStageBoxPredictor/{end}': ()})
    assert not region_pyramids.has_pyramid(dict.fromkeys(names, ()))


@pytest.mark.parametrize(('rows', 'multiple'), [((8, 12), 32), ((5, 10), 1), ((6, 10), 16)])
def test_padding_by_the_size_of_the_finest_map(rows, multiple):
    model = faster_rcnn_pb2.FasterRcnn()
    model.feature_extractor.fpn.min_level = 3
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    # 40 x 80 pixels in cells of 8: 5 x 10; padded to 64 x 96: 8 x 12; to 48 x 80: 6 x 10.
    region_pyramids._read_padding(model.feature_extractor, rows, (40, 80), proposal)
    assert model.feature_extractor.pad_to_multiple == multiple
    assert bool(proposal.facts) == (multiple != 32)
