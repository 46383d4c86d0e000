"""Analysis of the errors of a classifier of images with several labels."""

from __future__ import annotations

import heapq
from typing import Callable, List, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import texts
from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import ExampleError, Figure, Finding, Section, Table, Tile
from estimator_lib.task import SOURCE_ID, Arrays, Features, Labels, Tensors
from estimator_lib.task_interfaces.analysis import Analyzer
from model_fns import class_analysis
from model_fns.classification import inputs, multi_label_metrics
from model_fns.classification.analysis import analyzer as analysis
from model_fns.classification.analysis.score_histograms import ScoreHistograms
from model_fns.classification.deployable import PROBABILITIES
from model_fns.structures.confusion import ClassScores, mean_of_known

MISSED_LABEL, WRONG_LABEL = 'missed label', 'wrong label'  # the types of errors
THRESHOLD = 0.5  # of the probability of a class that an image is said to have

_MOST_MISTAKES = 32  # in the table of the most confident ones
_MOST_ERRORS = 100  # of an image in `errors.csv`
_NAME = 'name'

# Distance to the truth, order, name, class, probability.
_Mistake = Tuple[float, int, str, int, float]


class MultiLabelAnalyzer(Analyzer):
    """Analyzer of a classifier of images with several labels.

    Counts of classes are exact. Areas under ROC curves come from histograms of at most 32 MB.
    Nothing grows with the number of images.

    Args:
        class_names: names of the classes.
        to_pixels: converts the network's input to pixels from 0 to 255, for pictures.
    """

    def __init__(self, class_names: Sequence[str], to_pixels: Callable[[tf.Tensor], tf.Tensor]):
        self._names = class_names
        self._to_pixels = to_pixels
        self._labeled, self._predicted, self._right = np.zeros([3, len(class_names)], np.int64)
        self._num_images = self._num_exact = 0
        self._mistakes: List[_Mistake] = []  # a heap, the least confident first
        self._histograms = ScoreHistograms(len(class_names))

    def fetches(self, features: Features, outputs: Tensors, labels: Labels) -> Tensors:
        """Return probabilities, labels and name.

        Returns:
            [batch, classes] of the first two, [batch] of the name.
        """
        return {
            PROBABILITIES: outputs[PROBABILITIES],
            inputs.LABEL: labels[inputs.LABEL],
            _NAME: features[SOURCE_ID],
        }

    def drawn(
        self, features: Features, outputs: Tensors, labels: Labels
    ) -> Tuple[Features, Tensors, Labels]:
        """Return what `MultiLabelPresentation.draw` needs, with images as uint8.

        Returns:
            Images [batch, height, width, channels].
        """
        return analysis.drawn_tensors(self._to_pixels, features, outputs, labels)

    def add(self, arrays: Arrays) -> Finding:
        """Add one image; it is as bad as its wrong probabilities are far from the truth, in sum."""
        probabilities = np.nan_to_num(arrays[PROBABILITIES], posinf=0.0)
        labeled, predicted = arrays[inputs.LABEL] > 0, probabilities >= THRESHOLD
        known = ~np.isnan(arrays[inputs.LABEL])  # else the class was not looked for
        predicted &= known
        self._num_images += 1
        self._labeled += labeled
        self._predicted += predicted
        self._right += labeled & predicted
        self._histograms.add(probabilities, np.flatnonzero(labeled), known)
        wrong = np.flatnonzero(labeled != predicted)
        self._num_exact += not len(wrong)
        distances = np.abs(labeled - probabilities)
        farthest = wrong[np.argsort(-distances[wrong], kind='stable')]
        name = bytes(arrays[_NAME]).decode('utf-8', 'replace')
        errors = []
        for index in farthest[:_MOST_ERRORS].tolist():
            probability, distance = float(probabilities[index]), float(distances[index])
            kind = MISSED_LABEL if labeled[index] else WRONG_LABEL
            errors.append(ExampleError(kind, self._names[index], score=probability))
            # Of equally confident mistakes, the first ones are kept.
            mistake = (distance, -self._num_images, name, index, probability)
            heapq.heappush(self._mistakes, mistake)
            if len(self._mistakes) > _MOST_MISTAKES:
                heapq.heappop(self._mistakes)
        return Finding(float(distances[wrong].sum()), errors)

    def advise(self, metrics: Mapping[str, float]) -> Sequence[str]:
        """Suggest more images of weak classes."""
        return class_analysis.advise_on_classes(
            class_analysis.values_by_class(metrics, self._names)
        )

    def finish(self, metrics: Mapping[str, float]) -> Sequence[Section]:
        """Return sections on classes and on the worst mistakes."""
        if not self._num_images:
            return []
        return [self._class_section(metrics), self._mistake_section()]

    def _class_section(self, metrics: Mapping[str, float]) -> Section:
        labeled, predicted, right = self._labeled, self._predicted, self._right
        scores = ClassScores.from_counts(right, predicted, labeled)
        precisions = np.array(
            [
                metrics.get(multi_label_metrics.ap_name(index), np.nan)
                for index in range(len(self._names))
            ]
        )
        areas, bounds = self._histograms.areas()
        columns = (scores.precision, scores.recall, scores.f1, precisions, areas)
        table = Table(
            'classes',
            'Scores of each class',
            ('class', 'images', 'predicted', 'right', 'precision', 'recall', 'F1', 'AP', 'AUC'),
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
            f'A class is predicted from the probability {THRESHOLD} on. AP: average precision; '
            'AUC: area under the ROC curve, exact to '
            f'{np.nanmax(bounds, initial=0.0):.2g}. Both are of all probabilities.',
        )
        worst = class_analysis.worst_first(scores.f1, self._names)
        micro = ClassScores.from_counts(right.sum(), predicted.sum(), labeled.sum())
        return Section(
            'Classes',
            [
                Figure('f1', 'F1 of each class', lambda figure: plots.bars(figure, worst, 'F1')),
                table,
            ],
            f'{texts.counted(self._num_images, "image")}. Means are over the classes that '
            'have a value.',
            [
                Tile('mean AP', f'{mean_of_known(precisions):.3f}'),
                Tile('mean F1', f'{mean_of_known(scores.f1):.3f}'),
                Tile('F1 of all labels', f'{micro.f1:.3f}'),
                Tile('all labels right', f'{self._num_exact / self._num_images:.1%}', 'of images'),
            ],
        )

    def _mistake_section(self) -> Section:
        rows = [
            (
                name,
                self._names[index],
                WRONG_LABEL if probability >= THRESHOLD else MISSED_LABEL,
                probability,
            )
            for _, _, name, index, probability in sorted(self._mistakes, reverse=True)
        ]
        table = Table(
            'confident_mistakes',
            'Most confident mistakes',
            ('image', 'class', 'error', 'probability'),
            rows,
        )
        count = self._num_images - self._num_exact
        return Section(
            'Most confident mistakes',
            [table] if rows else [],
            f'{texts.counted(count, "image has", "images have")} a class too many or too few. '
            'Where a good model is confident and wrong, look at the labels first.'
            if rows
            else 'All images are right.',
        )
