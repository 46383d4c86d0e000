"""Feature pyramids of two-stage detectors: kernels of the first stage, padding."""

import pytest

from protos import pipeline_pb2
from vision_extras.recover.detection import region_pyramids, two_stage
from vision_extras.recover.facts import Proposal


def test_kernels_of_regions_are_in_the_order_of_levels():
    end = 'BoxEncodingPredictor/weights'
    names = [f'FirstStageBoxPredictor_{number}/{end}' for number in (10, 0, 2)]
    assert two_stage.region_codes(dict.fromkeys(names, ())) == [
        names[1], names[2], names[0]
    ]  # fmt: skip
    assert two_stage.region_codes({f'FirstStageBoxPredictor/{end}': ()})
    assert not region_pyramids.has_pyramid(dict.fromkeys(names, ()))


@pytest.mark.parametrize(('rows', 'multiple'), [((8, 12), 32), ((5, 10), 1), ((6, 10), 16)])
def test_padding_by_the_size_of_the_finest_map(rows, multiple):
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    extractor = proposal.at('model.faster_rcnn.feature_extractor')
    extractor.fpn.min_level = 3
    # 40 x 80 pixels in cells of 8: 5 x 10; padded to 64 x 96: 8 x 12; to 48 x 80: 6 x 10.
    region_pyramids.read_padding(rows, (40, 80), proposal)
    assert extractor.pad_to_multiple == multiple
    assert bool(proposal.facts) == (multiple != 32)
