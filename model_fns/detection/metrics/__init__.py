"""How good detections are."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional

from estimator_lib.registry import Registry
from model_fns.detection.metrics.accumulation import Metrics
from model_fns.detection.metrics.coco import CocoEvaluator
from model_fns.detection.metrics.evaluator import Evaluator
from model_fns.label_map import FIRST_ID, LabelMap
from protos import eval_pb2

__all__ = ['METRICS_SETS', 'Metrics', 'build_metrics']

DEFAULT_METRICS_SET = 'coco_detection_metrics'

# (evaluation config, class names by id) -> evaluator, by the name in `eval_config.metrics_set`.
METRICS_SETS: Registry[Callable[[eval_pb2.EvalConfig, Mapping[int, str]], Evaluator]] = Registry(
    'metrics set'
)


@METRICS_SETS.register(DEFAULT_METRICS_SET)
def _coco(config: eval_pb2.EvalConfig, class_names: Mapping[int, str]) -> Evaluator:
    return CocoEvaluator(
        class_names,
        per_category=config.include_metrics_per_category,
        all_per_category=config.all_metrics_per_category,
        super_categories={
            group: [name.strip() for name in members.split(',')]
            for group, members in config.super_categories.items()
        },
    )


def build_metrics(
    config: eval_pb2.EvalConfig, num_classes: int, label_map: Optional[LabelMap]
) -> Metrics:
    """The metrics that an evaluation config asks for.

    Raises:
        errors.ConfigError: a metrics set is unknown.
    """
    names: Dict[int, str] = {
        class_id: str(class_id) for class_id in range(FIRST_ID, FIRST_ID + num_classes)
    }
    if label_map is not None:
        names.update(
            {class_id: name for class_id, name in label_map.names.items() if class_id in names}
        )
    sets: List[str] = list(config.metrics_set) or [DEFAULT_METRICS_SET]
    return Metrics(
        [METRICS_SETS.get(name, 'eval_config.metrics_set')(config, names) for name in sets],
        class_id_offset=FIRST_ID,
    )
