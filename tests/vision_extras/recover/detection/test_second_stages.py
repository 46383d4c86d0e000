"""Heads by the shapes of kernels; the numbers follow from bins and classes by hand."""

import numpy as np
import pytest

from protos import pipeline_pb2
from vision_extras.recover.artifacts import reading
from vision_extras.recover.detection import second_stages
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels


def recognize(**widths):
    """Recognize a head of layers of 7 inputs."""
    arrays = {
        f'SecondStageBoxPredictor/{name}/weights': np.zeros([1, 1, 7, width], np.float32)
        for name, width in widths.items()
    }
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    artifact = reading.Artifact('a', reading.CHECKPOINT, arrays)
    second_stages.recognize(Kernels(artifact), None, proposal)
    return proposal.config.model.faster_rcnn


def test_boxes_of_each_class_and_of_all():
    model = recognize(ClassPredictor=4, BoxEncodingPredictor=12)
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    assert (model.num_classes, head.share_box_across_classes) == (3, False)
    model = recognize(ClassPredictor=4, BoxEncodingPredictor=4)
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    assert (model.num_classes, head.share_box_across_classes) == (3, True)


def test_masks_of_all_classes():
    model = recognize(ClassPredictor=4, BoxEncodingPredictor=12, Conv=6, Conv_1=6, Conv_2=1)
    assert model.number_of_stages == 3
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    assert head.masks_are_class_agnostic
    assert (head.mask_prediction_conv_depth, head.mask_prediction_num_conv_layers) == (6, 3)


def test_position_sensitive_maps():
    # 3x3 bins of 2 classes: 9 * 2 * 4 codes, 9 * 3 scores.
    model = recognize(refined_locations=72, class_predictions=27, reduce_depth=11)
    assert model.num_classes == 2
    head = model.second_stage_box_predictor.rfcn_box_predictor
    assert (head.num_spatial_bins_height, head.num_spatial_bins_width, head.depth) == (3, 3, 11)


@pytest.mark.parametrize(
    ('widths', 'message'),
    [
        ({'refined_locations': 48, 'class_predictions': 18}, 'its 48 codes and 18 scores'),
        ({'ClassPredictor': 4, 'BoxEncodingPredictor': 15}, 'its 15 values of boxes'),
        (
            {'ClassPredictor': 4, 'BoxEncodingPredictor': 12, 'Conv': 2},
            'its 2 masks of a box are neither 1 nor 3',
        ),
        ({'ClassPredictor': 4}, 'neither that of Faster R-CNN nor of R-FCN'),
    ],
)
def test_other_shapes_are_refused(widths, message):
    with pytest.raises(Refusal, match=message):
        recognize(**widths)
