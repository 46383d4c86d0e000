"""How good detections are."""

from __future__ import annotations

import collections
from typing import Callable, Dict, List, Mapping, Optional

from estimator_lib import errors
from estimator_lib.registry import Registry
from model_fns.detection.metrics import open_images, pascal
from model_fns.detection.metrics.accumulation import Metrics
from model_fns.detection.metrics.best_f1 import BestF1Evaluator
from model_fns.detection.metrics.coco import CocoEvaluator
from model_fns.detection.metrics.evaluator import Evaluator
from model_fns.detection.metrics.open_images import OpenImagesEvaluator
from model_fns.detection.metrics.pascal import PascalEvaluator
from model_fns.label_map import FIRST_ID, LabelMap
from protos import eval_pb2

__all__ = ['METRICS_SETS', 'Metrics', 'build_metrics', 'needs_image_classes']

DEFAULT_METRICS_SET = 'coco_detection_metrics'
_CHALLENGE = 'oid_challenge_detection_metrics'
# What published configs of earlier releases call them.
_ALIASES = {
    'pascal_voc_metrics': 'pascal_voc_detection_metrics',
    'weighted_pascal_voc_metrics': 'weighted_pascal_voc_detection_metrics',
    'open_images_metrics': 'oid_V2_detection_metrics',
    'open_images_V2_detection_metrics': 'oid_V2_detection_metrics',
    'oid_challenge_object_detection_metrics': _CHALLENGE,
}
_MASKS = 'masks need a two-stage model'
_KEYPOINTS = 'keypoints are not measured'
_REFUSED = {
    'coco_mask_metrics': _MASKS,
    'coco_panoptic_metrics': _MASKS,
    'lvis_mask_metrics': _MASKS,
    'pascal_voc_instance_segmentation_metrics': _MASKS,
    'weighted_pascal_voc_instance_segmentation_metrics': _MASKS,
    'oid_challenge_segmentation_metrics': _MASKS,
    'coco_keypoint_metrics': _KEYPOINTS,
}
_WHERE = 'eval_config.metrics_set'
# Up to so many, each class is reported where a config does not say whether.
_FEW_CLASSES = 30

# (evaluation config, class names by id) -> evaluator, by the name in `eval_config.metrics_set`.
METRICS_SETS: Registry[Callable[[eval_pb2.EvalConfig, Mapping[int, str]], Evaluator]] = Registry(
    'metrics set'
)


@METRICS_SETS.register(DEFAULT_METRICS_SET)
def _coco(config: eval_pb2.EvalConfig, names: Mapping[int, str]) -> Evaluator:
    return CocoEvaluator(
        names,
        per_category=(
            config.include_metrics_per_category
            if config.HasField('include_metrics_per_category')
            else len(names) <= _FEW_CLASSES
        ),
        all_per_category=config.all_metrics_per_category,
        super_categories=_super_categories(config, names),
        skip_unlabelled=config.skip_predictions_for_unlabeled_class,
        empty_to_all=config.image_classes_field_map_empty_to_ones,
    )


@METRICS_SETS.register('pascal_voc_detection_metrics')
def _pascal(config: eval_pb2.EvalConfig, names: Mapping[int, str]) -> Evaluator:
    return PascalEvaluator(names, pascal.PREFIX)


@METRICS_SETS.register('weighted_pascal_voc_detection_metrics')
def _weighted_pascal(config: eval_pb2.EvalConfig, names: Mapping[int, str]) -> Evaluator:
    return PascalEvaluator(names, pascal.WEIGHTED_PREFIX, pooled=True)


@METRICS_SETS.register('precision_at_recall_detection_metrics')
def _precision_at_recall(config: eval_pb2.EvalConfig, names: Mapping[int, str]) -> Evaluator:
    # A config's 0.3 is not the nearest number to 0.3 that a recall can be.
    low, high = (
        round(bound, 6) for bound in (config.recall_lower_bound, config.recall_upper_bound)
    )
    if not 0.0 <= low < high <= 1.0:
        raise errors.ConfigError(
            f'eval_config: recall_lower_bound is {low:g} and recall_upper_bound {high:g}; expected '
            '0 <= recall_lower_bound < recall_upper_bound <= 1.'
        )
    return PascalEvaluator(names, pascal.PRECISION_AT_RECALL_PREFIX, recall_bounds=(low, high))


@METRICS_SETS.register('oid_V2_detection_metrics')
def _open_images(config: eval_pb2.EvalConfig, names: Mapping[int, str]) -> Evaluator:
    return OpenImagesEvaluator(names)


@METRICS_SETS.register(_CHALLENGE)
def _open_images_challenge(config: eval_pb2.EvalConfig, names: Mapping[int, str]) -> Evaluator:
    return OpenImagesEvaluator(
        names,
        open_images.CHALLENGE_PREFIX,
        group_weight=1.0,
        verified_only=True,
        empty_to_all=config.image_classes_field_map_empty_to_ones,
    )


def build_metrics(
    config: eval_pb2.EvalConfig, num_classes: int, label_map: Optional[LabelMap]
) -> Metrics:
    """The metrics that an evaluation config asks for, and the score threshold of the best F1.

    Raises:
        errors.ConfigError: a metrics set is unknown or not available, or an option contradicts
            itself.
    """
    check_config(config)
    names = _class_names(num_classes, label_map)
    asked = [METRICS_SETS.get(name, _WHERE)(config, names) for name in _sets(config)]
    return Metrics([*asked, BestF1Evaluator(names)])


def check_config(config: eval_pb2.EvalConfig) -> None:
    """What can be told of an evaluation config without the names of the classes.

    Raises:
        errors.ConfigError: a metrics set is unknown or not available, or an option contradicts
            itself.
    """
    names = _sets(config)
    for name in names:
        METRICS_SETS.get(name, _WHERE)
    if config.skip_predictions_for_unlabeled_class and DEFAULT_METRICS_SET not in names:
        raise errors.ConfigError(
            'eval_config.skip_predictions_for_unlabeled_class: only '
            f'{DEFAULT_METRICS_SET} can leave detections out, and it is not in metrics_set.'
        )


def needs_image_classes(config: eval_pb2.EvalConfig) -> bool:
    """Whether it matters which classes were looked for in an image (`image/class/label`)."""
    return config.skip_predictions_for_unlabeled_class or _CHALLENGE in _sets(config)


def _sets(config: eval_pb2.EvalConfig) -> List[str]:
    """The metrics sets of a config by their present names, each once."""
    for name in config.metrics_set:
        if name in _REFUSED:
            raise errors.ConfigError(f'{_WHERE}: {name!r} is not available: {_REFUSED[name]}.')
    named = [_ALIASES.get(name, name) for name in config.metrics_set]
    return list(dict.fromkeys(named)) or [DEFAULT_METRICS_SET]


def _class_names(num_classes: int, label_map: Optional[LabelMap]) -> Dict[int, str]:
    """Names by id, no two alike; the id where there is no name."""
    ids = range(FIRST_ID, FIRST_ID + num_classes)
    known = {} if label_map is None else label_map.names
    names = {class_id: known.get(class_id, str(class_id)) for class_id in ids}
    uses = collections.Counter(names.values())
    return {
        class_id: name if uses[name] == 1 else f'{name} ({class_id})'
        for class_id, name in names.items()
    }


def _super_categories(
    config: eval_pb2.EvalConfig, names: Mapping[int, str]
) -> Dict[str, List[int]]:
    """Ids of the classes of each group."""
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
