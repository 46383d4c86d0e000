"""Checks across the config fields of a single-shot detector, and shared checks of detectors."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Tuple, Union

from google.protobuf import message as message_lib

from estimator_lib.config import message_checks
from estimator_lib.config.rules import PipelineConfig, Problem
from model_fns import config_rules
from model_fns.detection.config_rules.kinds import SINGLE_SHOT
from protos import (
    anchors_pb2,
    box_coding_pb2,
    box_predictors_pb2,
    feature_pyramids_pb2,
    image_resizer_pb2,
    input_reader_pb2,
    losses_pb2,
    post_processing_pb2,
    ssd_pb2,
    target_assignment_pb2,
    train_pb2,
)
from protos.field_rules import FRACTION

Pyramid = Union[
    feature_pyramids_pb2.FeaturePyramidNetworks,
    feature_pyramids_pb2.BidirectionalFeaturePyramidNetworks,
]

Head = Union[
    box_predictors_pb2.ConvolutionalBoxPredictor,
    box_predictors_pb2.WeightSharedConvolutionalBoxPredictor,
]

_WHERE = 'model.ssd'

# Numbers in the code of a box, by coder.
_CODE_SIZES: Mapping[str, int] = {
    'faster_rcnn_box_coder': 4,
    'mean_stddev_box_coder': 4,
    'square_box_coder': 3,
    'rotated_box_coder': 5,
}
_OVERLAP_LOSSES = (
    'weighted_iou',
    'weighted_giou',
    'gaussian_wasserstein',
    'gaussian_kullback_leibler',
)
# Losses with a part of its own for each class.
_SIGMOIDS = (
    'weighted_sigmoid',
    'weighted_sigmoid_focal',
    'bootstrapped_sigmoid',
    'quality_focal',
)
_SIGMOID_NAMES = ', '.join(_SIGMOIDS)
# Matchers whose thresholds are found among overlaps.
_BY_OVERLAPS = ('atss_matcher', 'dynamic_matcher')
# Steps after which a decay of 0.9997 has forgotten nearly all of its initial value.
SLOW_STATISTICS = 10_000
_REDUCED = 3  # anchors of a cell of the first map, where they are reduced


def check_ssd(pipeline: PipelineConfig) -> Iterator[Problem]:
    """Check `model.ssd` beyond single fields."""
    config = pipeline.model.ssd
    yield from resizer_problems(f'{_WHERE}.image_resizer', config.image_resizer)
    yield from _matcher(f'{_WHERE}.matcher', config)
    yield from _anchors(f'{_WHERE}.anchor_generator', config)
    yield from _predictor(f'{_WHERE}.box_predictor', config)
    yield from loss_problems(f'{_WHERE}.loss', config.loss)
    yield from post_processing_problems(f'{_WHERE}.post_processing', config.post_processing)


def check_part(message: message_lib.Message, where: str, further: Iterable[Problem] = ()) -> None:
    """Check a part of `model.ssd` that is built without the rest of the config.

    Args:
        message: the part.
        where: its path in the config.
        further: more problems of the part.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(SINGLE_SHOT, message, where, further)


def find_warnings(config: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of any detector that are allowed but probably mistakes."""
    path = _find_pixel_path(config.model.ssd.anchor_generator)
    if path and config.model.ssd.box_type == box_coding_pb2.UPRIGHT:
        yield f'{path}: anchors are in pixels, and boxes are normalized: none will match.'
    reader = config.train_input_reader
    if reader.load_context_features and not config.model.faster_rcnn.HasField('context_config'):
        yield (
            'train_input_reader.load_context_features has no effect: the model has no '
            'context_config.'
        )
    for index, reader in enumerate(config.eval_input_reader):
        if reader.ignored_boxes:
            yield (
                f'eval_input_reader.{index}.ignored_boxes has no effect: it is about training, and '
                'metrics have rules of their own.'
            )
    names = config.eval_config.metrics_set or ['coco_detection_metrics']
    for needed, fields in _ONLY_WITH.items():
        for field in fields:
            is_set = field in {set_field.name for set_field, _ in config.eval_config.ListFields()}
            if is_set and not set(names) & set(needed):
                yield f'eval_config.{field} has no effect without {needed[0]} in metrics_set.'
    ssd = config.model.ssd
    box_loss = ssd.loss.localization_loss.WhichOneof('localization_loss')
    if ssd.normalize_loc_loss_by_codesize and box_loss in _OVERLAP_LOSSES:
        yield (
            f'model.ssd.normalize_loc_loss_by_codesize: {box_loss} is one number for a box, and is '
            'divided by those of its code; expected false, or a larger localization_weight.'
        )
    train_config = config.train_config
    if train_config.merge_multiple_label_boxes and _is_softmax(config):
        yield (
            'train_config.merge_multiple_label_boxes: the classes of a box exclude each other in a '
            f'softmax loss; expected one of {_SIGMOID_NAMES}.'
        )
    if train_config.load_all_detection_checkpoint_vars and train_config.fine_tune_checkpoint:
        kind = train_config.fine_tune_checkpoint_type
        is_of_detection = kind in ('detection', 'fine_tune')
        if not is_of_detection and (kind or not train_config.from_detection_checkpoint):
            yield (
                'train_config.load_all_detection_checkpoint_vars has no effect with a '
                'fine_tune_checkpoint_type that is not "detection".'
            )


def check_labeled(config: PipelineConfig) -> Iterator[Problem]:
    """Check that the loss has a part for each class where not all classes were looked for."""
    if _is_softmax(config) and not config.model.HasField('center_net'):
        yield from config_rules.labeled_problems(
            config, f'one of {_SIGMOID_NAMES} as its classification_loss'
        )


def _is_softmax(config: PipelineConfig) -> bool:
    """Check whether the loss of classes is a softmax, which is the default of two stages."""
    two_stage = config.model.faster_rcnn.second_stage_classification_loss
    single_shot = config.model.ssd.loss.classification_loss
    kinds = (loss.WhichOneof('classification_loss') for loss in (two_stage, single_shot))
    return all(kind not in _SIGMOIDS for kind in kinds)


# Fields of `eval_config` that only these sets of metrics use.
_ONLY_WITH: Mapping[Tuple[str, ...], Tuple[str, ...]] = {
    ('precision_at_recall_detection_metrics',): ('recall_lower_bound', 'recall_upper_bound'),
    ('coco_detection_metrics', 'coco_mask_metrics'): (
        'all_metrics_per_category',
        'super_categories',
    ),
}


def is_short(config: train_pb2.TrainConfig) -> bool:
    """Check whether a run from scratch ends before slow moving statistics have settled."""
    return 0 < config.num_steps < SLOW_STATISTICS and not config.fine_tune_checkpoint


def readers(pipeline: PipelineConfig) -> Iterator[Tuple[str, input_reader_pb2.InputReader]]:
    """Yield the input readers of a config with their paths."""
    if pipeline.HasField('train_input_reader'):
        yield 'train_input_reader', pipeline.train_input_reader
    for index, reader in enumerate(pipeline.eval_input_reader):
        yield f'eval_input_reader.{index}', reader


def resizer_problems(path: str, config: image_resizer_pb2.ImageResizer) -> Iterator[Problem]:
    """Check that the padding has a value for each channel."""
    kind = config.WhichOneof('image_resizer_oneof')
    values = len(config.keep_aspect_ratio_resizer.per_channel_pad_value)
    if values not in (0, 3):  # padding is converted to gray with the image
        yield Problem(
            f'{path}.{kind}.per_channel_pad_value',
            f'{values} values; expected 3, or none.',
        )


def _matcher(path: str, config: ssd_pb2.Ssd) -> Iterator[Problem]:
    yield from matcher_problems(path, config.matcher)
    matcher = config.matcher.argmax_matcher
    is_negative = config.similarity_calculator.HasField('neg_sq_dist_similarity')
    kind = config.matcher.WhichOneof('matcher_oneof')
    similarity = config.similarity_calculator.WhichOneof('region_similarity')
    if kind in _BY_OVERLAPS and similarity not in (None, 'iou_similarity'):
        yield Problem(
            f'{_WHERE}.similarity_calculator.{similarity}',
            f'{kind} compares overlaps; expected iou_similarity.',
        )
    loss = config.loss.classification_loss.WhichOneof('classification_loss')
    if kind == 'dynamic_matcher' and loss not in _SIGMOIDS:
        yield Problem(
            f'{_WHERE}.loss.classification_loss',
            f'{loss}; dynamic_matcher takes scores of the classes by a sigmoid: expected one of '
            f'{_SIGMOID_NAMES}.',
        )
    if config.matcher.HasField('argmax_matcher') and not (matcher.ignore_thresholds or is_negative):
        for field in ('matched_threshold', 'unmatched_threshold'):
            value = getattr(matcher, field)
            if not FRACTION.holds(value):
                yield Problem(f'{path}.argmax_matcher.{field}', f'{value:g}; expected {FRACTION}.')


def matcher_problems(path: str, config: target_assignment_pb2.Matcher) -> Iterator[Problem]:
    """Check that the thresholds of a matcher do not contradict each other."""
    matcher, path = config.argmax_matcher, f'{path}.argmax_matcher'
    if not config.HasField('argmax_matcher') or matcher.ignore_thresholds:
        return
    matched, unmatched = matcher.matched_threshold, matcher.unmatched_threshold
    if unmatched > matched:
        yield Problem(
            f'{path}.unmatched_threshold',
            f'{unmatched:g}; expected at most {matched:g}, matched_threshold.',
        )
    if unmatched == matched and not matcher.negatives_lower_than_unmatched:
        yield Problem(
            f'{path}.negatives_lower_than_unmatched',
            'false, but with equal thresholds no anchor is between them; expected true.',
        )


def _anchors(path: str, config: ssd_pb2.Ssd) -> Iterator[Problem]:
    generator = config.anchor_generator
    yield from anchor_problems(path, generator)
    if generator.HasField('ssd_anchor_generator'):
        yield from _equal_counts(f'{path}.ssd_anchor_generator', config)
    extractor = config.feature_extractor
    neck = extractor.WhichOneof('feature_pyramid_oneof')
    if generator.HasField('multiscale_anchor_generator') and neck:
        anchors, pyramid = generator.multiscale_anchor_generator, getattr(extractor, neck)
        yield from anchor_level_problems(path, anchors, pyramid, neck)


def anchor_problems(path: str, config: anchors_pb2.AnchorGenerator) -> Iterator[Problem]:
    """Check that the lists of an anchor generator have matching lengths and orders."""
    multiscale = config.multiscale_anchor_generator
    ratios = list(multiscale.aspect_ratios)
    if multiscale.layout == multiscale.TORCHVISION and ratios != sorted(ratios, reverse=True):
        yield Problem(
            f'{path}.multiscale_anchor_generator.aspect_ratios',
            f'{ratios}; expected {sorted(ratios, reverse=True)}: weights of torchvision have the '
            'anchors of a cell in this order.',
        )
    if config.HasField('ssd_anchor_generator'):
        yield from _ssd_anchors(f'{path}.ssd_anchor_generator', config.ssd_anchor_generator)
    for index, grid in enumerate(config.flexible_grid_anchor_generator.anchor_grid):
        sizes, count = len(grid.base_sizes), len(grid.aspect_ratios)
        if sizes != count:
            yield Problem(
                f'{path}.flexible_grid_anchor_generator.anchor_grid.{index}.aspect_ratios',
                f'{count} values; expected {sizes}, one for each of base_sizes.',
            )


def anchor_level_problems(
    path: str,
    config: anchors_pb2.MultiscaleAnchorGenerator,
    pyramid: Pyramid,
    neck: str = 'fpn',
) -> Iterator[Problem]:
    """Check that anchors have the levels of the feature pyramid.

    Args:
        path: the path of the anchor generator.
        config: the anchors.
        pyramid: the feature pyramid.
        neck: the field of the feature extractor that holds the pyramid.

    Yields:
        The problems.
    """
    for field in ('min_level', 'max_level'):
        level, expected = getattr(config, field), getattr(pyramid, field)
        if level != expected:
            yield Problem(
                f'{path}.multiscale_anchor_generator.{field}',
                f'{level}; expected {expected}, that of feature_extractor.{neck}.',
            )


def _num_layers(config: anchors_pb2.SsdAnchorGenerator) -> int:
    return len(config.scales) or config.num_layers


def _ssd_anchors(path: str, config: anchors_pb2.SsdAnchorGenerator) -> Iterator[Problem]:
    """Check that lists have one value for each feature map."""
    layers = _num_layers(config)
    if config.HasField('num_layers') and config.num_layers != layers:
        yield Problem(
            f'{path}.scales', f'{layers} values; expected {config.num_layers}, num_layers.'
        )
    for field in ('height_stride', 'width_stride', 'height_offset', 'width_offset'):
        count = len(getattr(config, field))
        other = (
            field.replace('height', 'width')
            if 'height' in field
            else field.replace('width', 'height')
        )
        if count not in (0, layers) or (not count and getattr(config, other)):
            yield Problem(
                f'{path}.{field}', f'{count} values; expected {layers}, one for each feature map.'
            )
    is_bare = not (config.aspect_ratios or config.interpolated_scale_aspect_ratio)
    if is_bare and not (config.reduce_boxes_in_lowest_layer and layers == 1):
        yield Problem(
            f'{path}.aspect_ratios',
            'empty; expected at least one, or interpolated_scale_aspect_ratio above 0, for there '
            'are layers without anchors.',
        )


def _equal_counts(path: str, config: ssd_pb2.Ssd) -> Iterator[Problem]:
    """Check that a head shared by all feature maps has as many anchors on each map."""
    generator = config.anchor_generator.ssd_anchor_generator
    shared = config.box_predictor.HasField('weight_shared_convolutional_box_predictor')
    count = len(generator.aspect_ratios) + (generator.interpolated_scale_aspect_ratio > 0)
    reduced = generator.reduce_boxes_in_lowest_layer and _num_layers(generator) > 1
    if shared and reduced and count != _REDUCED:
        yield Problem(
            f'{path}.reduce_boxes_in_lowest_layer',
            f'true: cells have {_REDUCED} anchors on the first feature map, {count} on the others, '
            'and weight_shared_convolutional_box_predictor needs as many; expected false.',
        )


def _find_pixel_path(config: anchors_pb2.AnchorGenerator) -> str:
    """Return the path of the field that gives anchors in pixels; empty if none does."""
    kind = config.WhichOneof('anchor_generator_oneof')
    path = f'{_WHERE}.anchor_generator.{kind}'
    if kind == 'grid_anchor_generator':
        return path
    if kind in ('multiscale_anchor_generator', 'flexible_grid_anchor_generator'):
        return (
            '' if getattr(config, kind).normalize_coordinates else f'{path}.normalize_coordinates'
        )
    return ''


def _predictor(path: str, config: ssd_pb2.Ssd) -> Iterator[Problem]:
    kind = config.box_predictor.WhichOneof('box_predictor_oneof')
    coder = config.box_coder.WhichOneof('box_coder_oneof')
    if kind not in _HEADS:
        return
    predictor = getattr(config.box_predictor, kind)
    if coder in _CODE_SIZES:
        yield from code_size_problems(f'{path}.{kind}', predictor, _CODE_SIZES[coder], coder)
    if kind == _HEADS[1]:
        yield from _towers(f'{path}.{kind}', predictor)


def code_size_problems(path: str, config: Head, size: int, coder: str) -> Iterator[Problem]:
    """Check that `box_code_size` is that of the box coder.

    Args:
        path: the path of the head.
        config: the head.
        size: the code size of the box coder.
        coder: the name of the box coder in messages.

    Yields:
        The problem, if there is one.
    """
    if config.HasField('box_code_size') and config.box_code_size != size:
        yield Problem(
            f'{path}.box_code_size', f'{config.box_code_size}; expected {size}, that of {coder}.'
        )


_HEADS = ('convolutional_box_predictor', 'weight_shared_convolutional_box_predictor')


def _towers(
    path: str, config: box_predictors_pb2.WeightSharedConvolutionalBoxPredictor
) -> Iterator[Problem]:
    if config.num_layers_before_predictor > 0 and not config.depth:
        yield Problem(
            f'{path}.depth', '0; expected at least 1, with num_layers_before_predictor above 0.'
        )


def size_problems(where: str, config: ssd_pb2.Ssd, multiple: int) -> Iterator[Problem]:
    """Check that input sizes are multiples of the stride that a bidirectional neck needs.

    Args:
        where: the path of the model.
        config: the model.
        multiple: the divisor of the sides, in pixels.

    Yields:
        The problems.
    """
    kind = config.image_resizer.WhichOneof('image_resizer_oneof')
    if kind is None or config.feature_extractor.pad_to_multiple % multiple == 0:
        return
    resizer = getattr(config.image_resizer, kind)
    fields = {
        'fixed_shape_resizer': ('height', 'width'),
        'keep_aspect_ratio_resizer': ('max_dimension',),
        'pad_to_multiple_resizer': ('multiple',),
    }.get(kind, ())
    where, fix = f'{where}.image_resizer.{kind}', f'pad_to_multiple: {multiple}'
    varies = kind == 'keep_aspect_ratio_resizer' and not resizer.pad_to_max_dimension
    if varies or not fields:
        yield Problem(
            where,
            f'gives inputs of any size; expected multiples of {multiple} pixels, as the levels of '
            f'feature_extractor.bifpn are half of each other, so feature_extractor.{fix}.',
        )
        return
    for field in fields:
        if getattr(resizer, field) % multiple:
            yield Problem(
                f'{where}.{field}',
                f'{getattr(resizer, field)}; expected a multiple of {multiple}, as the levels of '
                f'feature_extractor.bifpn are half of each other (or feature_extractor.{fix}).',
            )


def loss_problems(path: str, config: losses_pb2.Loss) -> Iterator[Problem]:
    """Check that no two ways to choose examples exclude each other."""
    mines = config.HasField('hard_example_miner')
    loss = config.classification_loss.WhichOneof('classification_loss')
    if mines and loss in ('weighted_sigmoid_focal', 'quality_focal'):
        yield Problem(
            f'{path}.hard_example_miner', f'it excludes {loss}, which weighs hard examples itself.'
        )
    if config.expected_loss_weights != losses_pb2.Loss.NONE:
        for other in ('hard_example_miner', 'random_example_sampler'):
            if config.HasField(other):
                yield Problem(f'{path}.expected_loss_weights', f'it excludes {other}; set one.')


def post_processing_problems(
    path: str, config: post_processing_pb2.PostProcessing
) -> Iterator[Problem]:
    """Check the score threshold and the kind of suppression."""
    rules = config.batch_non_max_suppression
    path = f'{path}.batch_non_max_suppression'
    is_fraction = config.score_converter != post_processing_pb2.PostProcessing.IDENTITY
    if is_fraction and rules.score_threshold > 1:
        yield Problem(f'{path}.score_threshold', f'{rules.score_threshold:g}; expected {FRACTION}.')
    yield from suppression_problems(path, rules)


def suppression_problems(
    path: str, rules: post_processing_pb2.BatchNonMaxSuppression
) -> Iterator[Problem]:
    """Check that no two kinds of suppression exclude each other."""
    soft, several = rules.soft_nms_sigma > 0, rules.max_classes_per_detection > 1
    excluded = (
        (soft, 'soft_nms_sigma', 'use_static_shapes'),
        (soft, 'soft_nms_sigma', 'use_hard_nms'),
        (soft, 'soft_nms_sigma', 'use_combined_nms'),
        (rules.use_combined_nms, 'use_combined_nms', 'use_class_agnostic_nms'),
        (rules.use_combined_nms, 'use_combined_nms', 'change_coordinate_frame'),
    )
    for is_set, field, other in excluded:
        if is_set and getattr(rules, other):
            yield Problem(f'{path}.{field}', f'it excludes {other}; expected {other}: false.')
    if several and not rules.use_class_agnostic_nms:
        yield Problem(
            f'{path}.max_classes_per_detection',
            f'{rules.max_classes_per_detection}; expected 1, or use_class_agnostic_nms: true.',
        )
    if several and soft:
        yield Problem(
            f'{path}.max_classes_per_detection', 'it excludes soft_nms_sigma; expected 1.'
        )
