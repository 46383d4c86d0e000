"""Analysis of the errors of a classifier."""

from __future__ import annotations

import array
import heapq
from typing import Callable, List, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import texts
from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import ExampleError, Figure, Finding, Section, Table, Tile
from estimator_lib.task import IMAGE, SOURCE_ID, Arrays, Features, Labels, Tensors
from estimator_lib.task_interfaces.analysis import Analyzer
from model_fns import class_analysis
from model_fns.classification import inputs
from model_fns.classification.analysis import calibration, resampling
from model_fns.classification.analysis.score_histograms import ScoreHistograms
from model_fns.classification.deployable import CLASSES, PROBABILITIES
from model_fns.structures.confusion import Confusion, mean_of_known

WRONG_CLASS = 'wrong class'  # the type of all errors of a classifier

_MOST_MISTAKES = 32  # in the table of the most confident ones
_NAME = 'name'
_PREDICTION = 'prediction'

# Confidence, order, name, class of the groundtruth, prediction, probability of the groundtruth.
_Mistake = Tuple[float, int, str, int, int, float]


class ClassificationAnalyzer(Analyzer):
    """Analyzer of a classifier.

    Confusion and calibration are exact: label, prediction and confidence of 100,000 images take
    1.2 MB. Areas under ROC curves come from histograms of at most 32 MB, and the report states the
    bound of their error. Nothing else grows with the images or with the square of the classes.

    Args:
        class_names: names of the classes.
        labels_offset: the label of the first class, in the output `CLASSES`.
        to_pixels: converts the network's input to pixels from 0 to 255, for pictures.
    """

    def __init__(
        self,
        class_names: Sequence[str],
        labels_offset: int,
        to_pixels: Callable[[tf.Tensor], tf.Tensor],
    ):
        self._names = class_names
        self._labels_offset = labels_offset
        self._to_pixels = to_pixels
        # 4 bytes a number; a list takes 8, and each number is an object.
        self._labels = array.array('i')
        self._predictions = array.array('i')
        self._confidences = array.array('f')
        self._mistakes: List[_Mistake] = []  # a heap, the least confident first
        self._histograms = ScoreHistograms(len(class_names))

    def fetches(self, features: Features, outputs: Tensors, labels: Labels) -> Tensors:
        """Return probabilities, label, prediction and name.

        Returns:
            [batch, classes] of the first, [batch] of the others.
        """
        return {
            PROBABILITIES: outputs[PROBABILITIES],
            _PREDICTION: outputs[CLASSES] - self._labels_offset,
            inputs.LABEL: labels[inputs.LABEL],
            _NAME: features[SOURCE_ID],
        }

    def drawn(
        self, features: Features, outputs: Tensors, labels: Labels
    ) -> Tuple[Features, Tensors, Labels]:
        """Return what `ClassificationPresentation.draw` needs, with images as uint8.

        Returns:
            Images [batch, height, width, channels].
        """
        return drawn_tensors(self._to_pixels, features, outputs, labels)

    def add(self, arrays: Arrays) -> Finding:
        """Add one image; a wrong one is as bad as the model is confident."""
        # A model that diverged is analyzed too.
        probabilities = np.nan_to_num(arrays[PROBABILITIES], posinf=0.0)
        label, prediction = int(arrays[inputs.LABEL]), int(arrays[_PREDICTION])
        confidence = float(probabilities[prediction])
        number = len(self._labels)
        self._labels.append(label)
        self._predictions.append(prediction)
        self._confidences.append(confidence)
        self._histograms.add(probabilities, label)
        if label == prediction:
            return Finding(0.0)
        name = bytes(arrays[_NAME]).decode('utf-8', 'replace')
        # Of equally confident mistakes, the first ones are kept.
        mistake = (confidence, -number, name, label, prediction, float(probabilities[label]))
        heapq.heappush(self._mistakes, mistake)
        if len(self._mistakes) > _MOST_MISTAKES:
            heapq.heappop(self._mistakes)
        error = ExampleError(
            WRONG_CLASS, self._names[prediction], score=confidence, note=self._names[label]
        )
        # Above 0 for a confidence of 0, of a model that diverged.
        return Finding(confidence + 1e-9, [error])

    def advise(self, metrics: Mapping[str, float]) -> Sequence[str]:
        """Suggest more images of weak classes."""
        return class_analysis.advise_on_classes(
            class_analysis.values_by_class(metrics, self._names)
        )

    def finish(self, metrics: Mapping[str, float]) -> Sequence[Section]:
        """Return sections on classes, their confusion, the worst mistakes, and calibration."""
        del metrics
        if not self._labels:
            return []
        labels, predictions = np.array(self._labels), np.array(self._predictions)
        confusion = Confusion.from_pairs(labels, predictions, len(self._names))
        calibrated = calibration.calibrate(np.array(self._confidences), labels == predictions)
        return [
            self._class_section(confusion, calibrated.error),
            class_analysis.confusion_section(confusion, self._names, 'images'),
            self._mistake_section(len(labels) - int(confusion.right.sum())),
            _calibration_section(calibrated),
        ]

    def examples(self) -> Arrays:
        """Return label and prediction of each image."""
        return {
            resampling.LABELS: np.array(self._labels, np.int32),
            resampling.PREDICTIONS: np.array(self._predictions, np.int32),
        }

    def _class_section(self, confusion: Confusion, calibration_error: float) -> Section:
        scores, (areas, bounds) = confusion.scores(), self._histograms.areas()
        labeled, predicted, right = confusion.labeled, confusion.predicted, confusion.right
        columns = (scores.precision, scores.recall, scores.f1, areas)
        table = Table(
            'classes',
            'Scores of each class',
            ('class', 'images', 'predicted', 'right', 'precision', 'recall', 'F1', 'AUC'),
            [
                (
                    name,
                    int(labeled[index]),
                    int(predicted[index]),
                    int(right[index]),
                    *(class_analysis.known(column[index]) for column in columns),
                )
                for index, name in enumerate(self._names)
            ],
            'AUC: area under the ROC curve of the class against all others. It is exact to '
            f'{np.nanmax(bounds, initial=0.0):.2g}.',
        )
        worst = class_analysis.worst_first(scores.f1, self._names)
        return Section(
            'Classes',
            [
                Figure('f1', 'F1 of each class', lambda figure: plots.bars(figure, worst, 'F1')),
                table,
            ],
            f'{texts.counted(len(self._labels), "image")}. Means are over the classes that '
            'have a value.',
            [
                Tile('accuracy', f'{confusion.accuracy:.1%}'),
                Tile('mean F1', f'{mean_of_known(scores.f1):.3f}'),
                Tile('mean AUC', f'{mean_of_known(areas):.3f}'),
                Tile('calibration error (ECE)', f'{calibration_error:.3f}', '0 is best'),
            ],
        )

    def _mistake_section(self, count: int) -> Section:
        rows = [
            (name, self._names[label], self._names[prediction], confidence, probability)
            for confidence, _, name, label, prediction, probability in sorted(
                self._mistakes, reverse=True
            )
        ]
        table = Table(
            'confident_mistakes',
            'Most confident mistakes',
            ('image', 'groundtruth', 'prediction', 'confidence', 'probability of the groundtruth'),
            rows,
        )
        return Section(
            'Most confident mistakes',
            [table] if rows else [],
            f'{texts.counted(count, "image is", "images are")} wrong. Where a good model is '
            'confident and wrong, look at the label first.'
            if rows
            else 'All images are right.',
        )


def drawn_tensors(
    to_pixels: Callable[[tf.Tensor], tf.Tensor],
    features: Features,
    outputs: Tensors,
    labels: Labels,
) -> Tuple[Features, Tensors, Labels]:
    """Return what a classifier's `draw` needs, with images as uint8; see `Analyzer.drawn`.

    Returns:
        Images [batch, height, width, channels].
    """
    pixels = tf.clip_by_value(tf.round(to_pixels(features[IMAGE])), 0.0, 255.0)
    shown = {name: outputs[name] for name in (CLASSES, PROBABILITIES)}
    return {IMAGE: tf.cast(pixels, tf.uint8), SOURCE_ID: features[SOURCE_ID]}, shown, labels


def _calibration_section(result: calibration.Calibration) -> Section:
    table = Table(
        'calibration',
        'Bins of the confidence',
        ('above', 'up to', 'images', 'mean confidence', 'accuracy'),
        [
            (
                float(result.edges[index]),
                float(result.edges[index + 1]),
                int(count),
                class_analysis.known(result.confidences[index]),
                class_analysis.known(result.accuracies[index]),
            )
            for index, count in enumerate(result.counts)
        ],
    )
    diagram = Figure(
        'reliability',
        'Reliability diagram',
        lambda figure: plots.reliability(
            figure, result.confidences, result.accuracies, result.counts
        ),
    )
    return Section(
        'Calibration',
        [diagram, table],
        f'The expected calibration error is {result.error:.4f}: the mean distance between accuracy '
        'and confidence (Guo et al. 2017). A model below the diagonal is too confident.',
    )
