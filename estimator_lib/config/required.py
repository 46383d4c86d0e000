"""What the messages of a config must have, and which of their numbers may not be above another."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence, Tuple

from google.protobuf import descriptor as descriptor_lib
from google.protobuf import message as message_lib

from estimator_lib.config import schema, support
from estimator_lib.config.ranges import RANGES
from estimator_lib.config.support import Problem

# Fields that a message is of no use without. A list must have something in it.
REQUIRED: Mapping[str, str] = {
    'Ssd': (
        'num_classes image_resizer feature_extractor box_coder matcher similarity_calculator '
        'box_predictor anchor_generator loss'
    ),
    'SsdFeatureExtractor': 'type conv_hyperparams',
    'Hyperparams': 'initializer',
    'ConvolutionalBoxPredictor': 'conv_hyperparams',
    'WeightSharedConvolutionalBoxPredictor': 'conv_hyperparams',
    'ConvolutionalBoxPredictor.BoxEncodingsClipRange': 'min max',
    'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange': 'min max',
    'GridAnchorGenerator': 'scales aspect_ratios',
    'MultiscaleAnchorGenerator': 'aspect_ratios',
    'FlexibleGridAnchorGenerator': 'anchor_grid',
    'AnchorGrid': 'base_sizes aspect_ratios height_stride width_stride',
    'Loss': 'localization_loss classification_loss',
    'BootstrappedSigmoidClassificationLoss': 'alpha',
    'FunctionApproximation': 'x_y_pairs',
    'ClassIdFunctionApproximations': 'class_id_xy_pairs_map',
    'ClassIdSigmoidCalibrations': 'class_id_sigmoid_parameters_map',
    'XYPairs': 'x_y_pair',
    'TemperatureScalingCalibration': 'scaler',
    'NormalizeImage': 'original_maxval',
    'RandomResizeMethod': 'target_height target_width',
    'ResizeImage': 'new_height new_width',
    'SubtractChannelMean': 'means',
    'DropLabelProbabilistically': 'label',
    'RemapLabels': 'original_labels new_label',
    'SSDRandomCropOperation': 'min_aspect_ratio max_aspect_ratio min_area max_area',
    'SSDRandomCropPadOperation': 'min_aspect_ratio max_aspect_ratio min_area max_area',
    'SSDRandomCropFixedAspectRatioOperation': 'min_area max_area',
    'SSDRandomCropPadFixedAspectRatioOperation': (
        'min_aspect_ratio max_aspect_ratio min_area max_area'
    ),
}

# The choices that have to be made in a message. In all others none is a choice too, or what asks
# for them is checked where it is.
CHOICES = (
    'image_resizer_oneof',
    'anchor_generator_oneof',
    'box_coder_oneof',
    'matcher_oneof',
    'region_similarity',
    'box_predictor_oneof',
    'regularizer_oneof',
    'initializer_oneof',
    'localization_loss',
    'classification_loss',
    'calibrator',
    'preprocessing_step',
)

_CROPS = (('min_aspect_ratio', 'max_aspect_ratio'), ('min_area', 'max_area'))

# (field, one that it may not be above) by message.
ORDERED: Mapping[str, Sequence[Tuple[str, str]]] = {
    'EvalConfig': (('recall_lower_bound', 'recall_upper_bound'),),
    'KeepAspectRatioResizer': (('min_dimension', 'max_dimension'),),
    'FeaturePyramidNetworks': (('min_level', 'max_level'),),
    'MultiscaleAnchorGenerator': (('min_level', 'max_level'),),
    'BatchNonMaxSuppression': (('max_detections_per_class', 'max_total_detections'),),
    'ConvolutionalBoxPredictor.BoxEncodingsClipRange': (('min', 'max'),),
    'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange': (('min', 'max'),),
    'RandomPixelValueScale': (('minval', 'maxval'),),
    'RandomImageScale': (('min_scale_ratio', 'max_scale_ratio'),),
    'RandomAdjustContrast': (('min_delta', 'max_delta'),),
    'RandomAdjustSaturation': (('min_delta', 'max_delta'),),
    'RandomCropImage': _CROPS,
    'RandomCropPadImage': _CROPS,
    'SSDRandomCropOperation': _CROPS,
    'SSDRandomCropPadOperation': _CROPS,
    'SSDRandomCropFixedAspectRatioOperation': _CROPS[1:],
    'SSDRandomCropPadFixedAspectRatioOperation': _CROPS,
    'RandomJpegQuality': (('min_jpeg_quality', 'max_jpeg_quality'),),
    'RandomDownscaleToTargetPixels': (('min_target_pixels', 'max_target_pixels'),),
    'RandomPatchGaussian': (
        ('min_patch_size', 'max_patch_size'),
        ('min_gaussian_stddev', 'max_gaussian_stddev'),
    ),
    'RandomSquareCropByScale': (('scale_min', 'scale_max'),),
    'RandomScaleCropAndPadToSquare': (('scale_min', 'scale_max'),),
}


def check_parts(config: message_lib.Message) -> Iterator[Problem]:
    """What is missing, not chosen or out of order in the messages that a config has set.

    Args:
        config: a pipeline config.
    """
    for path, message in support.set_messages(config):
        name = schema.short_name(message.DESCRIPTOR)
        yield from _missing(path, message, REQUIRED.get(name, '').split())
        yield from _not_chosen(path, message)
        for low, high in ORDERED.get(name, ()):
            values = getattr(message, low), getattr(message, high)
            if values[0] > values[1]:
                text = f'{values[0]:g}; expected at most {values[1]:g}, {high}.'
                yield Problem(f'{path}.{low}', text)


def choices(message: descriptor_lib.Descriptor, oneof: str) -> str:
    """The members of a oneof that are honoured, for an error message."""
    name = schema.short_name(message)
    return ', '.join(
        field.name
        for field in message.oneofs_by_name[oneof].fields
        if support.columns(name, field.name) == ['HONOURED']
    )


def _missing(path: str, message: message_lib.Message, fields: Sequence[str]) -> Iterator[Problem]:
    set_fields = {field.name for field, value in message.ListFields() if value != ''}
    for name in fields:
        if name not in set_fields:
            yield Problem(f'{path}.{name}', _expected(message.DESCRIPTOR.fields_by_name[name]))


def _expected(field: descriptor_lib.FieldDescriptor) -> str:
    """What is said of a field that is not set."""
    if schema.is_repeated(field):
        return 'empty; expected at least one.'
    if schema.is_message(field):
        for oneof in _must_choose(field.message_type):
            return f'is missing; expected one of: {choices(field.message_type, oneof)}.'
        return 'is missing.'
    name = f'{schema.short_name(field.containing_type)}.{field.name}'
    return f'not set; expected {RANGES[name]}.' if name in RANGES else 'not set.'


def _not_chosen(path: str, message: message_lib.Message) -> Iterator[Problem]:
    for oneof in _must_choose(message.DESCRIPTOR):
        if message.WhichOneof(oneof) is None:
            yield Problem(path, f'empty; expected one of: {choices(message.DESCRIPTOR, oneof)}.')


def _must_choose(message: descriptor_lib.Descriptor) -> Iterator[str]:
    return (oneof.name for oneof in message.oneofs if oneof.name in CHOICES)
