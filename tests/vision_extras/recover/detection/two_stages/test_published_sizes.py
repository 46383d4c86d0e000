"""Published sizes by the kind of a detector; values from the published configs."""

import pytest

from protos import faster_rcnn_pb2, pipeline_pb2
from vision_extras.recover.detection.two_stages import published_sizes
from vision_extras.recover.facts import Proposal, Refusal


def build(kind, masks=False, anchors=12):
    model = faster_rcnn_pb2.FasterRcnn()
    model.feature_extractor.type = kind
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    head.predict_instance_masks = masks
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    published_sizes.set_all(model, anchors, proposal)
    assert len(proposal.unknown) == 1
    return model


@pytest.mark.parametrize(
    ('kind', 'masks', 'stride', 'crop', 'shorter', 'mask'),
    [
        ('faster_rcnn_resnet101', False, 16, 14, 600, 15),
        ('faster_rcnn_resnet101', True, 8, 14, 800, 33),
        ('faster_rcnn_inception_v2', True, 16, 14, 800, 15),
        ('faster_rcnn_inception_resnet_v2', False, 8, 17, 600, 15),
    ],
)
def test_sizes_of_a_kind(kind, masks, stride, crop, shorter, mask):
    model = build(kind, masks)
    grid = model.first_stage_anchor_generator.grid_anchor_generator
    assert (grid.height_stride, model.initial_crop_size) == (stride, crop)
    assert model.first_stage_atrous_rate == 16 // stride
    assert model.image_resizer.keep_aspect_ratio_resizer.min_dimension == shorter
    assert model.second_stage_box_predictor.mask_rcnn_box_predictor.mask_height == mask


def test_searched_cells_have_images_of_one_size():
    assert build('faster_rcnn_nas').image_resizer.fixed_shape_resizer.height == 1200


def test_other_anchors_are_refused():
    with pytest.raises(Refusal, match='its 9 anchors of a cell are not the published 12'):
        build('faster_rcnn_resnet50', anchors=9)
