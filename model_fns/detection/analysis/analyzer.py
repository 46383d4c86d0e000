"""Analyzer of a detector's evaluation."""

from __future__ import annotations

import copy
from typing import Callable, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.analysis.parts import ExampleError, Finding, Section
from estimator_lib.task import IMAGE, Arrays, Features, Labels, Tensors
from estimator_lib.task_interfaces.analysis import Analyzer
from model_fns.detection import fields
from model_fns.detection.analysis import advice, confusions, error_types, resampling, sections
from model_fns.detection.analysis.error_types import Detected, ImageErrors, Kind
from model_fns.detection.metrics import coco_matching, image_arrays
from model_fns.detection.metrics.coco import CocoEvaluator

# Outputs that pictures show.
_DRAWN = (
    fields.DETECTION_BOXES,
    fields.DETECTION_CORNERS,
    fields.DETECTION_SCORES,
    fields.DETECTION_CLASSES,
    fields.NUM_DETECTIONS,
    fields.DETECTION_MASKS,
    fields.DETECTION_KEYPOINTS,
    fields.SHOWN_PROPOSALS,
)


class _Image(NamedTuple):
    """Data that is kept of an image, beside its matches.

    Attributes:
        errors: its errors.
        pairs: pairs that may be confused.
        classes: int16 [m], class ids of its objects.
        counted: bool [m], objects that are not optional.
    """

    errors: ImageErrors
    pairs: confusions.Pairs
    classes: np.ndarray
    counted: np.ndarray


class DetectionAnalyzer(Analyzer):
    """Analyzer of boxes, rotated boxes or masks by COCO's matching.

    It keeps 6 KB of an image with 100 detections: 550 MiB for 100,000 such images. The end takes
    as much again for a moment. (Measured at commit f484f870.)

    Args:
        evaluator: computes average precision; its classes and shape are analyzed. It is copied.
        score_threshold: returns the least score of shown detections, given the metrics of the
            evaluation.
        change_labels: changes the labels of a batch as the metrics do.
    """

    def __init__(
        self,
        evaluator: CocoEvaluator,
        score_threshold: Callable[[Mapping[str, float]], float],
        change_labels: Callable[[Labels], Labels],
    ):
        # The metrics of the same evaluation fill the original.
        self._evaluator = copy.copy(evaluator)
        self._evaluator.clear()
        self._score_threshold = score_threshold
        self._change_labels = change_labels
        self._least_score = 0.0
        self._seen: Set[bytes] = set()
        self._images: List[_Image] = []
        # The image of each example; -1 for one with the id of another, which counts once.
        self._numbers: List[int] = []

    def fetches(self, features: Features, outputs: Tensors, labels: Labels) -> Tensors:
        """Return detections and groundtruth, as the metrics use them."""
        labels = self._change_labels(labels)
        return image_arrays.select(self._evaluator.needs, outputs, features, labels)

    def drawn(
        self, features: Features, outputs: Tensors, labels: Labels
    ) -> Tuple[Features, Tensors, Labels]:
        """Return what pictures show, with images as uint8: images [batch, height, width, 3]."""
        # A cast truncates and wraps around. Bicubic resizing yields values beyond [0, 255].
        pixels = tf.cast(tf.clip_by_value(tf.round(features[IMAGE]), 0.0, 255.0), tf.uint8)
        shown = {name: outputs[name] for name in _DRAWN if name in outputs}
        return {**features, IMAGE: pixels}, shown, labels

    def add(self, arrays: Arrays) -> Finding:
        """Add an image.

        Its badness is the sum of the squared score of each false positive, and of the squared
        distance from 1 of the score that each object is found with: errors count by confidence.
        """
        source_id = bytes(arrays[fields.SOURCE_ID])
        if source_id in self._seen:
            self._numbers.append(-1)
            return Finding(0.0)
        if source_id:
            self._seen.add(source_id)
        truth = image_arrays.groundtruth(arrays)
        assignment = self._evaluator.add_assigned(truth, image_arrays.detections(arrays))
        matches = assignment.matches
        counted = ~coco_matching.not_counted(truth, self._evaluator.shape)[0]
        errors = error_types.find_errors(assignment, truth.classes, counted)
        possible = ~coco_matching.lowest_flags(matches.ignored)[:, np.newaxis] & counted
        pairs = confusions.find_pairs(assignment.overlaps, matches.classes, truth.classes, possible)
        self._numbers.append(len(self._images))
        self._images.append(_Image(errors, pairs, truth.classes.astype(np.int16), counted))
        scores = np.zeros(len(counted))
        found = (errors.kinds == Kind.NONE) & (errors.objects >= 0)
        scores[errors.objects[found]] = matches.scores[found]
        false = matches.scores[errors.kinds != Kind.NONE]
        return Finding(float(np.sum(false**2) + np.sum((1 - scores[counted]) ** 2)))

    def advise(self, metrics: Mapping[str, float]) -> Sequence[str]:
        """Suggest a larger input for small objects, and more images of weak classes."""
        return advice.advise(metrics)

    def finish(self, metrics: Mapping[str, float]) -> Sequence[Section]:
        """Return sections on classes, types of errors, confusions and curves."""
        if not self._images:
            return []
        self._least_score = self._score_threshold(metrics)
        names = [self._evaluator.class_names[class_id] for class_id in self._evaluator.class_ids]
        detected = self._detected()
        counts = self._evaluator.counts[:, 0]
        by_class = {class_id: int(counts[class_id]) for class_id in self._evaluator.class_ids}
        missed = np.zeros(len(counts), np.int64)
        for image in self._images:
            # `missed[classes] += 1` would count a class once that is missed twice in an image.
            np.add.at(missed, image.classes[image.errors.missed], 1)
        return sections.create_sections(
            sections.Results(
                num_images=len(self._images),
                names=names,
                class_ids=self._evaluator.class_ids,
                counts=by_class,
                by_class=self._evaluator.results(),
                detected=detected,
                gains=error_types.compute_gains(detected, by_class, dict(enumerate(missed))),
                errors=self._count_errors(),
                confusion=self._confusion(),
                least_score=self._least_score,
            )
        )

    def examples(self) -> Arrays:
        """Return the matches and objects of each image."""
        numbers = [number for number, index in enumerate(self._numbers) if index >= 0]
        objects = [image.classes[image.counted] for image in self._images]
        return resampling.to_arrays(numbers, self._evaluator.matches, objects)

    def late_errors(self, number: int) -> Sequence[ExampleError]:
        """Return the errors of an image among the detections from the score threshold on."""
        index = self._numbers[number]
        if index < 0:
            return ()
        image, matches, names = self._images[index], self._evaluator.matches[index], self._name
        shown = self._shown(index)
        found = []
        rows = np.flatnonzero(shown & (image.errors.kinds != Kind.NONE))
        for row in rows[np.argsort(-matches.scores[rows], kind='stable')]:
            target, kind = int(image.errors.objects[row]), Kind(image.errors.kinds[row])
            confused = kind in (Kind.CLASSIFICATION, Kind.BOTH)
            found.append(
                ExampleError(
                    kind.name.lower(),
                    names(matches.classes[row]),
                    float(matches.scores[row]),
                    float(image.errors.overlaps[row]),
                    names(image.classes[target]) if confused else '',
                )
            )
        missed = error_types.missed_objects(image.errors, image.counted, shown)
        return found + [
            ExampleError(Kind.MISSED.name.lower(), names(class_id))
            for class_id in image.classes[missed]
        ]

    def _name(self, class_id: int) -> str:
        return self._evaluator.class_names.get(int(class_id), str(class_id))

    def _shown(self, index: int) -> np.ndarray:
        """Find the detections of an image from the score threshold on."""
        # Scores are float32: 0.7 as one is below 0.7 as a float64, and would not be shown.
        return self._evaluator.matches[index].scores >= np.float32(self._least_score)

    def _detected(self) -> Detected:
        """Return the counted detections of all images, in order."""
        kept = [~coco_matching.lowest_flags(each.ignored) for each in self._evaluator.matches]
        pairs = list(zip(self._images, self._evaluator.matches, kept))
        return Detected(
            np.concatenate([matches.classes[rows] for _, matches, rows in pairs]),
            np.concatenate([matches.scores[rows] for _, matches, rows in pairs]),
            np.concatenate(
                [coco_matching.lowest_flags(matches.found)[rows] for _, matches, rows in pairs]
            ),
            np.concatenate([image.errors.kinds[rows] for image, _, rows in pairs]),
            np.concatenate([image.errors.fixed[rows] for image, _, rows in pairs]),
        )

    def _count_errors(self) -> Dict[Kind, int]:
        """Count the errors among the detections from the score threshold on, by type."""
        counts = np.zeros(len(Kind), np.int64)
        for index, image in enumerate(self._images):
            shown = self._shown(index)
            counts += np.bincount(image.errors.kinds[shown], minlength=len(Kind))
            # Not `errors.missed`, which is of all detections: an object may have one below the
            # threshold.
            missed = error_types.missed_objects(image.errors, image.counted, shown)
            counts[Kind.MISSED] += np.count_nonzero(missed)
        return {kind: int(counts[kind]) for kind in error_types.KINDS}

    def _confusion(self) -> np.ndarray:
        """Count the confusions of classes, background last; see `confusions.count`."""
        ids = self._evaluator.class_ids
        # Class ids may have gaps, the rows of the matrix have none.
        positions = np.full(max(ids) + 1, -1)
        positions[ids] = np.arange(len(ids))
        matrix = np.zeros([len(ids) + 1] * 2, np.int64)
        for index, (image, matches) in enumerate(zip(self._images, self._evaluator.matches)):
            used = self._shown(index) & ~coco_matching.lowest_flags(matches.ignored)
            found = np.where(image.errors.kinds == Kind.NONE, image.errors.objects, -1)
            confusions.count(
                matrix,
                image.pairs,
                np.where(used, positions[matches.classes], -1),
                np.where(image.counted, positions[image.classes], -1),
                found,
            )
        return matrix
