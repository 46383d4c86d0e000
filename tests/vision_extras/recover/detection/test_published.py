"""Published settings that a checkpoint does not tell; values from the published configs."""

import pytest

from model_fns.detection.architectures.center_net import extractors
from model_fns.detection.task import DetectionTask
from protos import hyperparams_pb2, pipeline_pb2
from vision_extras.recover.detection import published
from vision_extras.recover.facts import Proposal, Refusal

SHARED = 'weight_shared_convolutional_box_predictor'
EFFICIENT = 'ssd_efficientnet-b0_bifpn_keras'


def test_bases_have_the_training_of_the_package_and_no_sizes():
    plain = published.single_shot('ssd_mobilenet_v2', 'convolutional_box_predictor')
    pyramid = published.single_shot('ssd_mobilenet_v1_fpn', SHARED)
    for config in (plain, pyramid):
        ssd = config.model.ssd
        assert ssd.loss.classification_loss.HasField('weighted_sigmoid_focal')
        assert ssd.matcher.argmax_matcher.matched_threshold == 0.5
        assert not ssd.HasField('anchor_generator') and not ssd.HasField('image_resizer')
        assert not ssd.feature_extractor.HasField('fpn')
        assert ssd.feature_extractor.conv_hyperparams.batch_norm.decay < 0.98
    overrides = [
        each.model.ssd.feature_extractor.override_base_feature_extractor_hyperparams
        for each in (plain, pyramid)
    ]
    assert overrides == [False, True]


def test_efficient_detectors_have_their_activation_and_no_background():
    ssd = published.single_shot(EFFICIENT, SHARED).model.ssd
    head = ssd.box_predictor.weight_shared_convolutional_box_predictor
    for hyperparams in (ssd.feature_extractor.conv_hyperparams, head.conv_hyperparams):
        assert hyperparams.activation == hyperparams_pb2.Hyperparams.SWISH
        assert hyperparams.force_use_bias
    assert not ssd.add_background_class
    assert not ssd.loss.HasField('hard_example_miner')


def add_single_shot(kind, pyramid='', anchors=6, depthwise=False):
    proposal = Proposal(published.single_shot(kind, SHARED), kind)
    extractor = proposal.at('model.ssd.feature_extractor')
    if pyramid:
        levels = getattr(extractor, pyramid)
        levels.min_level, levels.max_level = 3, 7
    if depthwise:
        extractor.use_depthwise = True
    published.add_single_shot(proposal, anchors, 6)
    assert len(proposal.unknown) == 1
    return proposal.at('model.ssd')


@pytest.mark.parametrize(
    ('kind', 'pyramid', 'anchors', 'depthwise', 'side'),
    [
        ('ssd_mobilenet_v1', '', 6, False, 300),
        ('ssd_mobilenet_v1_fpn_keras', 'fpn', 6, False, 640),
        ('ssd_mobilenet_v2_fpn_keras', 'fpn', 6, True, 320),
        ('ssd_efficientnet-b2_bifpn_keras', 'bifpn', 9, False, 768),
    ],
)
def test_sizes_of_single_shot_detectors(kind, pyramid, anchors, depthwise, side):
    ssd = add_single_shot(kind, pyramid, anchors, depthwise)
    resizer = ssd.image_resizer
    sides = [resizer.fixed_shape_resizer.width, resizer.keep_aspect_ratio_resizer.max_dimension]
    assert side in sides
    generator = ssd.anchor_generator
    if pyramid:
        multiscale = generator.multiscale_anchor_generator
        assert (multiscale.max_level, multiscale.scales_per_octave) == (7, anchors // 3)
    else:
        assert generator.ssd_anchor_generator.num_layers == 6


@pytest.mark.parametrize('pyramid, anchors', [('', 5), ('fpn', 7), ('fpn', 0)])
def test_other_anchors_of_single_shot_detectors_are_refused(pyramid, anchors):
    with pytest.raises(Refusal, match=f'tells no anchors, and its {anchors} anchors of a cell'):
        add_single_shot('ssd_mobilenet_v1_fpn', pyramid, anchors)


@pytest.mark.parametrize('kind', list(extractors.EXTRACTORS))
def test_configs_of_center_nets_are_valid(kind):
    config = published.center_net(kind)
    config.model.center_net.num_classes = 3
    DetectionTask.from_config(config)
    assert config.model.center_net.feature_extractor.bgr_ordering == kind.startswith('hourglass')


def build(kind, masks=False, anchors=12):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    model = config.model.faster_rcnn
    model.feature_extractor.type = kind
    head = model.second_stage_box_predictor.mask_rcnn_box_predictor
    head.predict_instance_masks = masks
    proposal = Proposal(config, '')
    published.add_two_stages(proposal, anchors)
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
def test_sizes_of_two_stages(kind, masks, stride, crop, shorter, mask):
    model = build(kind, masks)
    grid = model.first_stage_anchor_generator.grid_anchor_generator
    assert (grid.height_stride, model.initial_crop_size) == (stride, crop)
    assert model.first_stage_atrous_rate == 16 // stride
    assert model.image_resizer.keep_aspect_ratio_resizer.min_dimension == shorter
    assert model.second_stage_box_predictor.mask_rcnn_box_predictor.mask_height == mask


def test_searched_cells_have_images_of_one_size():
    assert build('faster_rcnn_nas').image_resizer.fixed_shape_resizer.height == 1200


def test_other_anchors_of_two_stages_are_refused():
    with pytest.raises(Refusal, match='its 9 anchors of a cell are not the published 12'):
        build('faster_rcnn_resnet50', anchors=9)
