"""Heads by their kernels."""

import pytest

from vision_extras.recover.detection import heads
from vision_extras.recover.facts import Refusal


def test_separate_heads():
    head = heads.recognize(
        {
            'BoxPredictor_0/BoxEncodingPredictor/weights': (3, 3, 16, 12),
            'BoxPredictor_0/ClassPredictor/weights': (3, 3, 16, 63),
            'BoxPredictor_1/BoxEncodingPredictor/weights': (3, 3, 32, 24),
            'BoxPredictor_1/ClassPredictor/weights': (3, 3, 32, 126),
        }
    )
    assert (head.anchors, head.class_columns) == ([3, 6], 21)
    config = head.config.convolutional_box_predictor
    assert (config.kernel_size, config.use_depthwise) == (3, False)


def test_shared_head():
    scope = 'WeightSharedConvolutionalBoxPredictor'
    head = heads.recognize(
        {
            f'{scope}/PredictionTower/conv2d_0/weights': (3, 3, 16, 24),
            f'{scope}/PredictionTower/conv2d_1/weights': (3, 3, 24, 24),
            f'{scope}/BoxPredictor/weights': (3, 3, 24, 8),
            f'{scope}/ClassPredictor/weights': (3, 3, 24, 10),
        }
    )
    assert (head.anchors, head.class_columns) == ([2], 5)
    config = head.config.weight_shared_convolutional_box_predictor
    assert (config.depth, config.num_layers_before_predictor) == (24, 2)
    assert config.share_prediction_tower and not config.use_depthwise


def test_other_kernels_are_no_head():
    assert heads.recognize({'MobilenetV1/Conv2d_0/weights': (3, 3, 3, 32)}) is None


def test_codes_of_rotated_boxes_must_be_known():
    scope = 'WeightSharedConvolutionalBoxPredictor'
    shapes = {
        f'{scope}/BoxPredictor/weights': (3, 3, 24, 30),
        f'{scope}/ClassPredictor/weights': (3, 3, 24, 18),
    }
    with pytest.raises(Refusal, match='its 30 codes of boxes .* of rotated boxes is not supported'):
        heads.recognize(shapes)
    head = heads.recognize(shapes, 5)
    assert (head.anchors, head.class_columns) == ([6], 3)
