"""Published settings of detectors of TensorFlow 2; values from the published configs."""

import pytest

from model_fns.detection.task import DetectionTask
from protos import hyperparams_pb2
from vision_extras.recover.detection import published_objects


def test_efficient_detectors_have_their_activation_and_no_background():
    kind, iterations, side = published_objects.EFFICIENT[64][0]
    assert (kind, iterations, side) == ('ssd_efficientnet-b0_bifpn_keras', 3, 512)
    ssd = published_objects.efficient_detector(kind).model.ssd
    head = ssd.box_predictor.weight_shared_convolutional_box_predictor
    for hyperparams in (ssd.feature_extractor.conv_hyperparams, head.conv_hyperparams):
        assert hyperparams.activation == hyperparams_pb2.Hyperparams.SWISH
        assert hyperparams.force_use_bias
    assert not ssd.add_background_class
    assert not ssd.loss.HasField('hard_example_miner')


@pytest.mark.parametrize('kind', [*published_objects.HOURGLASSES, *published_objects.CENTER_NETS])
def test_configs_of_center_nets_are_valid(kind):
    config = published_objects.center_net(kind)
    config.model.center_net.num_classes = 3
    DetectionTask.from_config(config)
    assert config.model.center_net.feature_extractor.bgr_ordering == kind.startswith('hourglass')


def test_lite_pyramids_have_smaller_images():
    assert published_objects.side('ssd_mobilenet_v2_fpn_keras', depthwise=True) == 320
    assert published_objects.side('ssd_mobilenet_v1_fpn_keras', depthwise=False) == 640
