"""COCO keypoint metrics (cocodataset.org/#keypoints-eval), for each class with keypoints."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.metrics import coco_matching
from model_fns.detection.metrics.coco_matching import Matches
from model_fns.detection.metrics.evaluator import Detections, Evaluator, Groundtruth
from model_fns.detection.metrics.keypoint_similarity import COCO_SIGMAS, Keypoints
from model_fns.structures.label_map import LabelMap
from protos import eval_pb2

PREFIX = 'Keypoints_'

_LIMIT = 20  # number of counted detections of an image, those with the highest scores
_ALL = slice(None)

# The ten numbers of a COCO summary of keypoints, in its order, with their published names; table
# and index as in `coco`. COCO itself calls the recalls AR, AR at a similarity of .50, of .75, and
# AR of medium and large objects. The published names are those of boxes, in the same order.
_NUMBERS = (
    ('Precision/mAP', 'precision', (_ALL, 0)),
    ('Precision/mAP@.50IOU', 'precision', (0, 0)),
    ('Precision/mAP@.75IOU', 'precision', (5, 0)),
    ('Precision/mAP (medium)', 'precision', (_ALL, 2)),
    ('Precision/mAP (large)', 'precision', (_ALL, 3)),
    ('Recall/AR@1', 'recall', (_ALL, 0, -1)),
    ('Recall/AR@10', 'recall', (0, 0, -1)),
    ('Recall/AR@100', 'recall', (5, 0, -1)),
    ('Recall/AR@100 (medium)', 'recall', (_ALL, 2, -1)),
    ('Recall/AR@100 (large)', 'recall', (_ALL, 3, -1)),
)
_UNDEFINED = -1.0  # value of numbers without groundtruth, as in COCO


class CocoKeypointEvaluator(Evaluator):
    """Evaluator of average precision and recall over ten similarities of keypoints, by class.

    Args:
        class_names: names by id.
        keypoints: counted keypoints and their sigmas for each evaluated class, by id.
    """

    def __init__(self, class_names: Mapping[int, str], keypoints: Mapping[int, Keypoints]):
        super().__init__(class_names)
        self.needs = Keypoints.needs
        self._keypoints = dict(keypoints)
        self.clear()

    def clear(self) -> None:
        """Discard all images."""
        self._matches: Dict[int, List[Matches]] = {class_id: [] for class_id in self._keypoints}
        # Numbers of objects to find, by size range.
        sizes = len(coco_matching.AREA_RANGES)
        self._counts = {class_id: np.zeros([sizes], np.int64) for class_id in self._keypoints}

    def names(self) -> Sequence[str]:
        """List the names of all numbers of all classes with keypoints."""
        return [name for class_id in self._keypoints for name in self._metric_names(class_id)]

    def add_image(self, image_id: str, groundtruth: Groundtruth, detections: Detections) -> None:
        """Match the detections of one image and keep the matches."""
        for class_id, keypoints in self._keypoints.items():
            objects = groundtruth.kept(groundtruth.classes == class_id)
            candidates = detections.kept(detections.classes == class_id)
            # `maxDets` of keypoints in pycocotools is 20, for each image and class.
            best = np.argsort(-candidates.scores, kind='stable')[:_LIMIT]
            skipped = coco_matching.not_counted(objects, keypoints)
            self._counts[class_id] += np.sum(~skipped, axis=1)
            self._matches[class_id].append(
                coco_matching.match(objects, candidates.kept(best), keypoints)
            )

    def evaluate(self) -> Dict[str, float]:
        """Compute all numbers; an undefined number is -1."""
        values: Dict[str, float] = {}
        for class_id, matches in self._matches.items():
            joined = coco_matching.concatenate(matches) if matches else None
            result = joined and coco_matching.class_result(joined, self._counts[class_id])
            for name, (_, table, index) in zip(self._metric_names(class_id), _NUMBERS):
                values[name] = _mean(getattr(result, table)[index]) if result else _UNDEFINED
        return values

    def _metric_names(self, class_id: int) -> List[str]:
        return [f'{PREFIX}{name} ByCategory/{self.class_names[class_id]}' for name, *_ in _NUMBERS]


def _mean(values: np.ndarray) -> float:
    return _UNDEFINED if np.isnan(values).all() else float(np.nanmean(values))


def build_keypoints(
    config: eval_pb2.EvalConfig, label_map: Optional[LabelMap], names: Mapping[int, str]
) -> Dict[int, Keypoints]:
    """Build the keypoints of each class that a config evaluates, by the id of the class.

    Args:
        config: config with `parameterized_metric`.
        label_map: label map with the names of the keypoints of each class.
        names: names of the classes by id.

    Raises:
        errors.ConfigError: no class, an unknown class, keypoints without names, or a keypoint
            without a sigma.
    """
    keypoints: Dict[int, Keypoints] = {}
    for metric in Section(config, 'eval_config').children('parameterized_metric'):
        chosen = metric.child('coco_keypoint_metrics')
        class_id = _class_id(chosen, label_map, names)
        if class_id in keypoints:
            label = chosen.message.class_label
            raise chosen.error(
                'class_label', f'{label!r} for a second time; expected each class once.'
            )
        numbers = label_map.item(class_id).keypoints if label_map else ()
        keypoints[class_id] = _build_class_keypoints(chosen, numbers)
    if not keypoints:
        raise errors.ConfigError(
            'eval_config.metrics_set: coco_keypoint_metrics needs a class; expected '
            'parameterized_metric { coco_keypoint_metrics { class_label: "person" } }, with '
            'keypoint_label_to_sigmas.'
        )
    return keypoints


def _class_id(
    section: Section[eval_pb2.CocoKeypointMetrics],
    label_map: Optional[LabelMap],
    names: Mapping[int, str],
) -> int:
    """Find a class by its name in records, or by its display name."""
    label = section.message.class_label
    known = {name: class_id for class_id, name in names.items()}
    if label_map is not None:
        known.update({item.name: item.id for item in label_map.items})
    if label not in known:
        hint = errors.did_you_mean(label, known)
        raise section.error('class_label', f'no class is named {label!r}{hint}')
    return known[label]


def _build_class_keypoints(
    section: Section[eval_pb2.CocoKeypointMetrics], numbers: Sequence[Tuple[int, str]]
) -> Keypoints:
    """Build the keypoints of a class, which are numbered and named, with their sigmas."""
    label, sigmas = section.message.class_label, section.message.keypoint_label_to_sigmas
    if not sigmas and len(numbers) in (0, len(COCO_SIGMAS)):
        # The keypoints of a person in COCO.
        indices = [number for number, _ in numbers] or range(len(COCO_SIGMAS))
        return Keypoints(indices, COCO_SIGMAS)
    field = 'keypoint_label_to_sigmas'
    if not numbers:
        raise section.error(
            field,
            f'the label map names no keypoints of {label!r}; expected keypoints '
            '{ id: 0 label: "nose" } and so on in its item.',
        )
    labels = [name for _, name in numbers]
    unknown = next((name for name in sorted(sigmas) if name not in labels), None)
    if unknown is not None:
        hint = errors.did_you_mean(unknown, labels)
        raise section.error(field, f'no keypoint of {label!r} is named {unknown!r}{hint}')
    missing = ', '.join(name for name in labels if not sigmas.get(name, 0.0) > 0.0)
    if missing:
        raise section.error(
            field, f'{missing} of {label!r} have none above 0; expected one for each keypoint.'
        )
    return Keypoints([number for number, _ in numbers], [sigmas[name] for name in labels])
