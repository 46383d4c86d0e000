"""Metrics of detections, by the sets that an evaluation config names."""

from __future__ import annotations

import collections
from typing import Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple

from estimator_lib import errors
from estimator_lib.registry import Registry
from model_fns.detection import fields
from model_fns.detection.metrics import coco, coco_keypoints, open_images, pascal, shapes
from model_fns.detection.metrics.accumulation import Metrics
from model_fns.detection.metrics.best_f1 import BestF1Evaluator
from model_fns.detection.metrics.coco import CocoEvaluator, CocoFiles
from model_fns.detection.metrics.evaluator import Evaluator
from model_fns.detection.metrics.lvis import LvisEvaluator
from model_fns.detection.metrics.open_images import OpenImagesEvaluator
from model_fns.detection.metrics.pascal import PascalEvaluator
from model_fns.detection.metrics.rotated import RotatedEvaluator
from model_fns.structures.label_map import FIRST_ID, LabelMap
from protos import eval_pb2

__all__ = [
    'METRICS_SETS',
    'Metrics',
    'build_analyzed',
    'build_metrics',
    'find_instance_sets',
    'list_metrics_sets',
    'needs_absent_classes',
    'needs_image_classes',
]

DEFAULT_METRICS_SET = 'coco_detection_metrics'
ROTATED_METRICS_SET = 'rotated_detection_metrics'
_COCO_MASKS = 'coco_mask_metrics'
_COCO_KEYPOINTS = 'coco_keypoint_metrics'
_LVIS_MASKS = 'lvis_mask_metrics'
_CHALLENGES = ('oid_challenge_detection_metrics', 'oid_challenge_segmentation_metrics')
# Names in published configs of earlier releases.
_ALIASES = {
    'pascal_voc_metrics': 'pascal_voc_detection_metrics',
    'weighted_pascal_voc_metrics': 'weighted_pascal_voc_detection_metrics',
    'open_images_metrics': 'oid_V2_detection_metrics',
    'open_images_V2_detection_metrics': 'oid_V2_detection_metrics',
    'oid_challenge_object_detection_metrics': _CHALLENGES[0],
}
# Name in the config of a published detector of rotated boxes.
_ROTATED_ALIASES = {'pascal_voc_metrics': ROTATED_METRICS_SET}
_REFUSED = {
    'coco_panoptic_metrics': 'detectors do not classify the background between objects',
}
_COCO = (DEFAULT_METRICS_SET, _COCO_MASKS)
_MASK_SETS = {
    _COCO_MASKS,
    _LVIS_MASKS,
    'pascal_voc_instance_segmentation_metrics',
    'weighted_pascal_voc_instance_segmentation_metrics',
    _CHALLENGES[1],
}
_WHERE = 'eval_config.metrics_set'
# Up to this number of classes, each class is reported unless a config says otherwise.
_FEW_CLASSES = 30

# Required outputs of the model by what an evaluator needs, and their names in messages.
_OUTPUTS = {
    fields.MASKS: (fields.DETECTION_MASKS, 'masks'),
    fields.KEYPOINTS: (fields.DETECTION_KEYPOINTS, 'keypoints'),
}


class Classes(NamedTuple):
    """Names and label map of the classes.

    Attributes:
        names: unique names by id.
        label_map: source of the names; None without.
    """

    names: Mapping[int, str]
    label_map: Optional[LabelMap] = None


# Functions (evaluation config, classes) -> evaluator, by the name in `eval_config.metrics_set`.
METRICS_SETS: Registry[Callable[[eval_pb2.EvalConfig, Classes], Evaluator]] = Registry(
    'metrics set'
)


@METRICS_SETS.register(DEFAULT_METRICS_SET)
def _coco(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return _build_coco(shapes.BOXES, coco.PREFIX, config, classes.names)


@METRICS_SETS.register(_COCO_MASKS)
def _coco_masks(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return _build_coco(shapes.MASKS, coco.MASK_PREFIX, config, classes.names)


def _build_coco(
    shape: shapes.Shape, prefix: str, config: eval_pb2.EvalConfig, names: Mapping[int, str]
) -> Evaluator:
    return CocoEvaluator(
        names,
        per_category=(
            config.include_metrics_per_category
            if config.HasField('include_metrics_per_category')
            else len(names) <= _FEW_CLASSES
        ),
        all_per_category=config.all_metrics_per_category,
        super_categories=_super_categories(config, names),
        skip_unlabeled=config.skip_predictions_for_unlabeled_class,
        empty_to_all=config.image_classes_field_map_empty_to_ones,
        shape=shape,
        prefix=prefix,
    )


@METRICS_SETS.register(_COCO_KEYPOINTS)
def _coco_keypoints(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    keypoints = coco_keypoints.build_keypoints(config, classes.label_map, classes.names)
    return coco_keypoints.CocoKeypointEvaluator(classes.names, keypoints)


@METRICS_SETS.register(_LVIS_MASKS)
def _lvis_masks(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    items = classes.label_map.items if classes.label_map else ()
    return LvisEvaluator(classes.names, {item.id: item.frequency for item in items})


@METRICS_SETS.register('pascal_voc_detection_metrics')
def _pascal(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return PascalEvaluator(classes.names, pascal.PREFIX)


@METRICS_SETS.register('weighted_pascal_voc_detection_metrics')
def _weighted_pascal(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return PascalEvaluator(classes.names, pascal.WEIGHTED_PREFIX, pooled=True)


@METRICS_SETS.register('pascal_voc_instance_segmentation_metrics')
def _pascal_masks(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return PascalEvaluator(classes.names, pascal.MASK_PREFIX, shape=shapes.MASKS)


@METRICS_SETS.register('weighted_pascal_voc_instance_segmentation_metrics')
def _weighted_pascal_masks(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return PascalEvaluator(
        classes.names, pascal.WEIGHTED_MASK_PREFIX, pooled=True, shape=shapes.MASKS
    )


@METRICS_SETS.register('precision_at_recall_detection_metrics')
def _precision_at_recall(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    # 0.3 of a config is stored in 32 bits and is not the closest recall to 0.3.
    low, high = (
        round(bound, 6) for bound in (config.recall_lower_bound, config.recall_upper_bound)
    )
    if not 0.0 <= low < high <= 1.0:
        raise errors.ConfigError(
            f'eval_config: recall_lower_bound is {low:g} and recall_upper_bound {high:g}; expected '
            '0 <= recall_lower_bound < recall_upper_bound <= 1.'
        )
    return PascalEvaluator(
        classes.names, pascal.PRECISION_AT_RECALL_PREFIX, recall_bounds=(low, high)
    )


@METRICS_SETS.register('oid_V2_detection_metrics')
def _open_images(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return OpenImagesEvaluator(classes.names)


@METRICS_SETS.register(_CHALLENGES[0])
def _challenge(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return _build_challenge(shapes.BOXES, open_images.CHALLENGE_PREFIX, config, classes.names)


@METRICS_SETS.register(_CHALLENGES[1])
def _mask_challenge(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return _build_challenge(shapes.MASKS, open_images.MASK_CHALLENGE_PREFIX, config, classes.names)


def _build_challenge(
    shape: shapes.Shape, prefix: str, config: eval_pb2.EvalConfig, names: Mapping[int, str]
) -> Evaluator:
    return OpenImagesEvaluator(
        names,
        prefix,
        # The rule of the challenge: groups count as objects, and only verified classes are known.
        group_weight=1.0,
        verified_only=True,
        empty_to_all=config.image_classes_field_map_empty_to_ones,
        shape=shape,
    )


@METRICS_SETS.register(ROTATED_METRICS_SET)
def _rotated(config: eval_pb2.EvalConfig, classes: Classes) -> Evaluator:
    return RotatedEvaluator(classes.names)


def build_metrics(
    config: eval_pb2.EvalConfig,
    num_classes: int,
    label_map: Optional[LabelMap],
    outputs: FrozenSet[str] = frozenset(),
    rotated: bool = False,
) -> Metrics:
    """Build the metrics of an evaluation config, and the score threshold of the best F1.

    Args:
        config: evaluation config.
        num_classes: number of classes without background.
        label_map: names of the classes and of their keypoints.
        outputs: names of `fields` of the outputs besides boxes.
        rotated: True for rotated boxes.

    Raises:
        errors.ConfigError: a metrics set is unknown or not available, options contradict each
            other, or a set needs an output that the model does not have.
    """
    check_config(config, rotated)
    classes = Classes(_class_names(num_classes, label_map), label_map)
    evaluators = []
    for name in list_metrics_sets(config, rotated):
        evaluator = METRICS_SETS.get(name, _WHERE)(config, classes)
        for output, label in (_OUTPUTS[need] for need in sorted(evaluator.needs)):
            if output not in outputs:
                raise errors.ConfigError(
                    f'{_selecting_field(config, name)}: {name} is about {label}, and the model '
                    'predicts none.'
                )
        evaluators.append(evaluator)
    files = []
    if config.coco_files:
        needs = frozenset().union(*(evaluator.needs for evaluator in evaluators))
        files.append(CocoFiles(classes.names, config.coco_files, needs))
    return Metrics([*evaluators, BestF1Evaluator(classes.names), *files])


def build_analyzed(
    config: eval_pb2.EvalConfig, num_classes: int, label_map: Optional[LabelMap]
) -> CocoEvaluator:
    """Build the evaluator of an analysis: of masks if a metrics set compares masks, else of boxes.

    See `build_metrics` for the arguments.
    """
    has_masks = not _MASK_SETS.isdisjoint(config.metrics_set) or config.eval_instance_masks
    shape, prefix = (shapes.MASKS, coco.MASK_PREFIX) if has_masks else (shapes.BOXES, coco.PREFIX)
    return _build_coco(shape, prefix, config, _class_names(num_classes, label_map))


def _selecting_field(config: eval_pb2.EvalConfig, name: str) -> str:
    """Return the field that selects a metrics set."""
    if name == _COCO_KEYPOINTS and config.parameterized_metric:
        return 'eval_config.parameterized_metric'
    is_named = name in config.metrics_set or not config.eval_instance_masks
    return _WHERE if is_named or name != _COCO_MASKS else 'eval_config.eval_instance_masks'


def check_config(config: eval_pb2.EvalConfig, rotated: bool = False) -> None:
    """Check an evaluation config as far as possible without the names of the classes.

    Args:
        config: evaluation config.
        rotated: True for rotated boxes.

    Raises:
        errors.ConfigError: a metrics set is unknown or not available, or options contradict each
            other.
    """
    names = list_metrics_sets(config, rotated)
    if rotated and config.coco_files:
        raise errors.ConfigError(
            f'eval_config.coco_files: {config.coco_files!r}; COCO has no rotated boxes: leave it '
            'out.'
        )
    for name in names:
        METRICS_SETS.get(name, _WHERE)
        if rotated and name != ROTATED_METRICS_SET:
            raise errors.ConfigError(
                f'{_WHERE}: {name!r} is for axis-aligned boxes; expected '
                f'{ROTATED_METRICS_SET!r}, with box_type: ROTATED.'
            )
    if config.skip_predictions_for_unlabeled_class and not set(names) & set(_COCO):
        raise errors.ConfigError(
            'eval_config.skip_predictions_for_unlabeled_class: only '
            f'{" and ".join(_COCO)} can leave detections out, and metrics_set has neither.'
        )


def needs_image_classes(config: eval_pb2.EvalConfig) -> bool:
    """Check whether metrics depend on the verified classes of an image (`image/class/label`)."""
    return config.skip_predictions_for_unlabeled_class or bool(
        set(_CHALLENGES) & set(list_metrics_sets(config))
    )


def needs_absent_classes(config: eval_pb2.EvalConfig) -> bool:
    """Check whether metrics depend on the absent and incomplete classes of an image (LVIS)."""
    return _LVIS_MASKS in list_metrics_sets(config)


def find_instance_sets(config: eval_pb2.EvalConfig) -> Tuple[Optional[str], Optional[str]]:
    """Find the first set of metrics that compares masks, and the first that compares keypoints.

    Raises:
        errors.ConfigError: a metrics set is not available.
    """
    names = list_metrics_sets(config)
    return tuple(
        next((name for name in names if name in group), None)
        for group in (_MASK_SETS, (_COCO_KEYPOINTS,))
    )


def list_metrics_sets(config: eval_pb2.EvalConfig, rotated: bool = False) -> List[str]:
    """List the metrics sets of a config by their current names, without duplicates.

    Args:
        config: evaluation config.
        rotated: True for rotated boxes.

    Raises:
        errors.ConfigError: a metrics set is not available.
    """
    for name in config.metrics_set:
        if name in _REFUSED:
            raise errors.ConfigError(f'{_WHERE}: {name!r} is not available: {_REFUSED[name]}.')
    aliases = {**_ALIASES, **_ROTATED_ALIASES} if rotated else _ALIASES
    named = [aliases.get(name, name) for name in config.metrics_set]
    named = named or [ROTATED_METRICS_SET if rotated else DEFAULT_METRICS_SET]
    if config.eval_instance_masks:
        named.append(_COCO_MASKS)
    if config.parameterized_metric:
        named.append(_COCO_KEYPOINTS)
    return list(dict.fromkeys(named))


def _class_names(num_classes: int, label_map: Optional[LabelMap]) -> Dict[int, str]:
    """Return unique names by id; the id replaces a missing name."""
    ids = range(FIRST_ID, FIRST_ID + num_classes)
    known = {} if label_map is None else label_map.names
    names = {class_id: known.get(class_id, str(class_id)) for class_id in ids}
    # Names of metrics have to differ, and label maps may give two classes one display name.
    uses = collections.Counter(names.values())
    return {
        class_id: name if uses[name] == 1 else f'{name} ({class_id})'
        for class_id, name in names.items()
    }


def _super_categories(
    config: eval_pb2.EvalConfig, names: Mapping[int, str]
) -> Dict[str, List[int]]:
    """Return the ids of the classes of each group."""
    ids = {name: class_id for class_id, name in names.items()}
    groups: Dict[str, List[int]] = {}
    for group, members in sorted(config.super_categories.items()):
        groups[group] = []
        for member in (name.strip() for name in members.split(',')):
            if member not in ids:
                raise errors.ConfigError(
                    f'eval_config.super_categories.{group}: no class is named {member!r}'
                    f'{errors.did_you_mean(member, ids)}'
                )
            groups[group].append(ids[member])
    return groups
