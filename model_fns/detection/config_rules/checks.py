"""Checks across the config fields of a single-shot detector, and shared checks of detectors."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Tuple, Union

from estimator_lib.config import message_checks
from estimator_lib.config.rules import PipelineConfig, Problem
from estimator_lib.config.section import Section
from model_fns import config_rules
from model_fns.detection.config_rules.kinds import SINGLE_SHOT
from protos import (
    anchors_pb2,
    box_coding_pb2,
    box_predictors_pb2,
    feature_pyramids_pb2,
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
    model = Section(pipeline).child('model.ssd')
    yield from _matcher(model)
    yield from _anchors(model)
    yield from _predictor(model)
    yield from post_processing_problems(model.child('post_processing'))


def check_part(section: Section[Any], further: Iterable[Problem] = ()) -> None:
    """Check a part of `model.ssd` that is built without the rest of the config.

    Args:
        section: the part.
        further: more problems of the part.

    Raises:
        errors.ConfigError: there are problems; the message lists all.
    """
    message_checks.check_message(SINGLE_SHOT, section, further)


def find_warnings(config: PipelineConfig) -> Iterator[str]:
    """Yield warnings about values of any detector that are allowed but probably mistakes."""
    path = _find_pixel_path(Section(config).child('model.ssd.anchor_generator'))
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


def _matcher(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    yield from matcher_problems(model.child('matcher'))
    config, chosen = model.message, model.child('matcher.argmax_matcher')
    matcher = chosen.message
    is_negative = config.similarity_calculator.HasField('neg_sq_dist_similarity')
    kind = config.matcher.WhichOneof('matcher_oneof')
    similarity = config.similarity_calculator.WhichOneof('region_similarity')
    if kind in _BY_OVERLAPS and similarity not in (None, 'iou_similarity'):
        yield model.problem(
            f'similarity_calculator.{similarity}',
            f'{kind} compares overlaps; expected iou_similarity.',
        )
    loss = config.loss.classification_loss.WhichOneof('classification_loss')
    if kind == 'dynamic_matcher' and loss not in _SIGMOIDS:
        yield model.problem(
            'loss.classification_loss',
            f'{loss}; dynamic_matcher takes scores of the classes by a sigmoid: expected one of '
            f'{_SIGMOID_NAMES}.',
        )
    if config.matcher.HasField('argmax_matcher') and not (matcher.ignore_thresholds or is_negative):
        for field in ('matched_threshold', 'unmatched_threshold'):
            if not FRACTION.holds(getattr(matcher, field)):
                yield chosen.problem(field, expected=str(FRACTION))


def matcher_problems(section: Section[target_assignment_pb2.Matcher]) -> Iterator[Problem]:
    """Check that the thresholds of a matcher do not contradict each other."""
    chosen = section.child('argmax_matcher')
    matcher = chosen.message
    if not section.message.HasField('argmax_matcher') or matcher.ignore_thresholds:
        return
    matched, unmatched = matcher.matched_threshold, matcher.unmatched_threshold
    if unmatched > matched:
        yield chosen.problem(
            'unmatched_threshold', expected=f'at most {matched:g}, matched_threshold'
        )
    if unmatched == matched and not matcher.negatives_lower_than_unmatched:
        yield chosen.problem(
            'negatives_lower_than_unmatched',
            'false, but with equal thresholds no anchor is between them; expected true.',
        )


def _anchors(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    section, extractor = model.child('anchor_generator'), model.message.feature_extractor
    generator = section.message
    yield from anchor_problems(section)
    if generator.HasField('ssd_anchor_generator'):
        yield from _equal_counts(model)
    neck = extractor.WhichOneof('feature_pyramid_oneof')
    if generator.HasField('multiscale_anchor_generator') and neck:
        anchors = section.child('multiscale_anchor_generator')
        yield from anchor_level_problems(anchors, getattr(extractor, neck), neck)


def anchor_problems(section: Section[anchors_pb2.AnchorGenerator]) -> Iterator[Problem]:
    """Check that the lists of an anchor generator have matching lengths and orders."""
    multiscale = section.message.multiscale_anchor_generator
    ratios = list(multiscale.aspect_ratios)
    if multiscale.layout == multiscale.TORCHVISION and ratios != sorted(ratios, reverse=True):
        yield section.problem(
            'multiscale_anchor_generator.aspect_ratios',
            f'{ratios}; expected {sorted(ratios, reverse=True)}: weights of torchvision have the '
            'anchors of a cell in this order.',
        )
    if section.message.HasField('ssd_anchor_generator'):
        yield from _ssd_anchors(section.child('ssd_anchor_generator'))


def anchor_level_problems(
    section: Section[anchors_pb2.MultiscaleAnchorGenerator], pyramid: Pyramid, neck: str = 'fpn'
) -> Iterator[Problem]:
    """Check that anchors have the levels of the feature pyramid.

    Args:
        section: the anchors.
        pyramid: the feature pyramid.
        neck: the field of the feature extractor that holds the pyramid.

    Yields:
        The problems.
    """
    for field in ('min_level', 'max_level'):
        expected = getattr(pyramid, field)
        if getattr(section.message, field) != expected:
            yield section.problem(field, expected=f'{expected}, that of feature_extractor.{neck}')


def _num_layers(config: anchors_pb2.SsdAnchorGenerator) -> int:
    return len(config.scales) or config.num_layers


def _ssd_anchors(section: Section[anchors_pb2.SsdAnchorGenerator]) -> Iterator[Problem]:
    """Check that lists have one value for each feature map."""
    config = section.message
    layers = _num_layers(config)
    if config.HasField('num_layers') and config.num_layers != layers:
        yield section.problem('scales', expected=f'{config.num_layers}, num_layers')
    for field in ('height_stride', 'width_stride', 'height_offset', 'width_offset'):
        count = len(getattr(config, field))
        other = (
            field.replace('height', 'width')
            if 'height' in field
            else field.replace('width', 'height')
        )
        if count not in (0, layers) or (not count and getattr(config, other)):
            yield section.problem(field, expected=f'{layers}, one for each feature map')
    is_bare = not (config.aspect_ratios or config.interpolated_scale_aspect_ratio)
    if is_bare and not (config.reduce_boxes_in_lowest_layer and layers == 1):
        yield section.problem(
            'aspect_ratios',
            'empty; expected at least one, or interpolated_scale_aspect_ratio above 0, for there '
            'are layers without anchors.',
        )


def _equal_counts(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    """Check that a head shared by all feature maps has as many anchors on each map."""
    generator = model.message.anchor_generator.ssd_anchor_generator
    shared = model.message.box_predictor.HasField('weight_shared_convolutional_box_predictor')
    count = len(generator.aspect_ratios) + (generator.interpolated_scale_aspect_ratio > 0)
    reduced = generator.reduce_boxes_in_lowest_layer and _num_layers(generator) > 1
    if shared and reduced and count != _REDUCED:
        yield model.problem(
            'anchor_generator.ssd_anchor_generator.reduce_boxes_in_lowest_layer',
            f'true: cells have {_REDUCED} anchors on the first feature map, {count} on the others, '
            'and weight_shared_convolutional_box_predictor needs as many; expected false.',
        )


def _find_pixel_path(section: Section[anchors_pb2.AnchorGenerator]) -> str:
    """Return the path of the field that gives anchors in pixels; empty if none does."""
    kind = section.message.WhichOneof('anchor_generator_oneof')
    if kind == 'grid_anchor_generator':
        return section.at(kind)
    if kind in ('multiscale_anchor_generator', 'flexible_grid_anchor_generator'):
        chosen = section.child(kind)
        return '' if chosen.message.normalize_coordinates else chosen.at('normalize_coordinates')
    return ''


def _predictor(model: Section[ssd_pb2.Ssd]) -> Iterator[Problem]:
    kind = model.message.box_predictor.WhichOneof('box_predictor_oneof')
    coder = model.message.box_coder.WhichOneof('box_coder_oneof')
    if kind not in _HEADS:
        return
    head = model.child(f'box_predictor.{kind}')
    if coder in _CODE_SIZES:
        yield from code_size_problems(head, _CODE_SIZES[coder], coder)


def code_size_problems(section: Section[Head], size: int, coder: str) -> Iterator[Problem]:
    """Check that `box_code_size` is that of the box coder.

    Args:
        section: the head.
        size: the code size of the box coder.
        coder: the name of the box coder in messages.

    Yields:
        The problem, if there is one.
    """
    if section.message.HasField('box_code_size') and section.message.box_code_size != size:
        yield section.problem('box_code_size', expected=f'{size}, that of {coder}')


_HEADS = ('convolutional_box_predictor', 'weight_shared_convolutional_box_predictor')


def size_problems(section: Section[ssd_pb2.Ssd], multiple: int) -> Iterator[Problem]:
    """Check that input sizes are multiples of the stride that a bidirectional neck needs.

    Args:
        section: the model.
        multiple: the divisor of the sides, in pixels.

    Yields:
        The problems.
    """
    kind = section.message.image_resizer.WhichOneof('image_resizer_oneof')
    if kind is None or section.message.feature_extractor.pad_to_multiple % multiple == 0:
        return
    chosen = section.child(f'image_resizer.{kind}')
    resizer = chosen.message
    fields = {
        'fixed_shape_resizer': ('height', 'width'),
        'keep_aspect_ratio_resizer': ('max_dimension',),
        'pad_to_multiple_resizer': ('multiple',),
    }.get(kind, ())
    fix = f'pad_to_multiple: {multiple}'
    varies = kind == 'keep_aspect_ratio_resizer' and not resizer.pad_to_max_dimension
    if varies or not fields:
        yield chosen.problem(
            '',
            f'gives inputs of any size; expected multiples of {multiple} pixels, as the levels of '
            f'feature_extractor.bifpn are half of each other, so feature_extractor.{fix}.',
        )
        return
    for field in fields:
        if getattr(resizer, field) % multiple:
            yield chosen.problem(
                field,
                expected=f'a multiple of {multiple}, as the levels of feature_extractor.bifpn are '
                f'half of each other (or feature_extractor.{fix})',
            )


def post_processing_problems(
    section: Section[post_processing_pb2.PostProcessing],
) -> Iterator[Problem]:
    """Check the score threshold of probabilities."""
    config, rules = section.message, section.child('batch_non_max_suppression')
    is_fraction = config.score_converter != post_processing_pb2.PostProcessing.IDENTITY
    if is_fraction and rules.message.score_threshold > 1:
        yield rules.problem('score_threshold', expected=str(FRACTION))
