"""Published settings of the detectors of TensorFlow 2.

They are the values of the configs that were published for the TF2 Object Detection API.
"""

from __future__ import annotations

from google.protobuf import text_format

from protos import pipeline_pb2, post_processing_pb2, ssd_pb2
from vision_extras.recover import bases
from vision_extras.recover.detection import defaults

RATIOS = (1.0, 2.0, 0.5)
PYRAMIDS = (
    'ssd_mobilenet_v2_fpn_keras',
    'ssd_mobilenet_v1_fpn_keras',
    'ssd_resnet50_v1_fpn_keras',
    'ssd_resnet101_v1_fpn_keras',
    'ssd_resnet152_v1_fpn_keras',
)
# By the channels of the pyramid: (type, number of pyramids, side of images), the usual first.
EFFICIENT = {
    64: (('ssd_efficientnet-b0_bifpn_keras', 3, 512),),
    88: (('ssd_efficientnet-b1_bifpn_keras', 4, 640),),
    112: (('ssd_efficientnet-b2_bifpn_keras', 5, 768),),
    160: (('ssd_efficientnet-b3_bifpn_keras', 6, 896),),
    224: (('ssd_efficientnet-b4_bifpn_keras', 7, 1024),),
    288: (('ssd_efficientnet-b5_bifpn_keras', 7, 1280),),
    384: (
        ('ssd_efficientnet-b6_bifpn_keras', 8, 1408),
        ('ssd_efficientnet-b7_bifpn_keras', 8, 1536),
    ),
}
# From small to large, as building a small one takes little time.
HOURGLASSES = (
    'hourglass_10',
    'hourglass_20',
    'hourglass_32',
    'hourglass_52',
    'hourglass_104',
    'hourglass_100',
)
CENTER_NETS = (
    'resnet_v2_50',
    'resnet_v2_101',
    'resnet_v1_50_fpn',
    'resnet_v1_101_fpn',
    'resnet_v1_34_fpn',
    'resnet_v1_18_fpn',
    'mobilenet_v2',
    'mobilenet_v2_fpn',
    'mobilenet_v2_fpn_sep_conv',
)
_HOURGLASS_INPUT = """
  bgr_ordering: true
  channel_means: [104.01362025, 114.03422265, 119.9165958]
  channel_stds: [73.6027665, 69.89082075, 70.9150767]
"""
_SIDE = 640
_SIDE_OF_LITE = 320


def side(kind: str, depthwise: bool) -> int:
    """Return the height and width of images in pixels."""
    return _SIDE_OF_LITE if depthwise and 'mobilenet' in kind else _SIDE


def center_net(kind: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Build the config of a CenterNet without its number of classes."""
    config = bases.load('demo_centernet', 'detection')
    model = config.model.center_net
    bases.keep(model, ('object_detection_task', 'object_center_params'))
    for field in ('scale_head_params', 'offset_head_params'):
        model.object_detection_task.ClearField(field)
    model.object_center_params.ClearField('center_head_params')
    model.object_center_params.max_box_predictions = 100
    keeping = model.image_resizer.keep_aspect_ratio_resizer
    keeping.min_dimension = keeping.max_dimension = 512
    keeping.pad_to_max_dimension = True
    if kind.startswith('hourglass'):
        text_format.Merge(_HOURGLASS_INPUT, model.feature_extractor)
    model.feature_extractor.type = kind
    return config


def efficient_detector(kind: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Build the config of an EfficientDet without its sizes."""
    config = defaults.build(kind, 'weight_shared_convolutional_box_predictor')
    config.model.ssd.add_background_class = False
    config.model.ssd.image_resizer.keep_aspect_ratio_resizer.pad_to_max_dimension = True
    return config


def efficient_side(kind: str) -> int:
    """Return the height and width of images of an EfficientDet in pixels."""
    sides = {name: side for rows in EFFICIENT.values() for name, _, side in rows}
    return sides[kind]


def set_suppression(ssd: ssd_pb2.Ssd) -> None:
    """Set the conversion of scores and the suppression."""
    ssd.post_processing.score_converter = post_processing_pb2.PostProcessing.SIGMOID
    suppression = ssd.post_processing.batch_non_max_suppression
    efficient = ssd.feature_extractor.HasField('bifpn')
    suppression.score_threshold, suppression.iou_threshold = 1e-8, 0.5 if efficient else 0.6
    suppression.max_detections_per_class = suppression.max_total_detections = 100
