"""Analysis of the errors of a segmentation."""

from __future__ import annotations

from typing import List, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import texts
from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import ExampleError, Figure, Finding, Section, Table, Tile
from estimator_lib.task import Arrays, Features, Labels, Tensors
from estimator_lib.task_interfaces.analysis import Analyzer
from model_fns import class_analysis
from model_fns.segmentation import fields
from model_fns.segmentation.analysis import class_boundaries, resampling
from model_fns.segmentation.metrics import boundaries
from model_fns.structures.confusion import Confusion, mean_of_known

# Types of errors: of the classes of one image.
MISSED = 'missed'  # labeled, and not predicted there
FALSE = 'false'  # predicted, and not labeled in the image
LOW_OVERLAP = 'low overlap'  # an IoU below `LEAST_OVERLAP`

LEAST_OVERLAP = 0.5

# Tensors that no picture shows.
_NOT_DRAWN = (
    fields.SEMANTIC_PROBABILITIES,
    fields.CENTER_OFFSETS,
    fields.OFFSET,
    fields.OFFSET_WEIGHTS,
)


class SegmentationAnalyzer(Analyzer):
    """Analyzer of the classes of pixels.

    It keeps counts by pair of classes, 0.2 MB for 150 classes, and 18 bytes for each class in an
    image: 18 MB for 100,000 images of 10 classes. All numbers are exact.

    Args:
        class_names: names of the C classes.
        ignore_label: of pixels that do not count.
    """

    def __init__(self, class_names: Sequence[str], ignore_label: int):
        self._names = class_names
        self._ignore_label = ignore_label
        self._num_images = 0
        self._confusion = np.zeros([len(class_names)] * 2, np.int64)
        self._boundaries = np.zeros([len(class_names), boundaries.NUM_COUNTS], np.int64)
        self._counts = resampling.ClassCounts()

    def fetches(self, features: Features, outputs: Tensors, labels: Labels) -> Tensors:
        """Return predicted and labeled classes, and the size without padding.

        Returns:
            Classes int32 [batch, height, width].
        """
        return {
            fields.SEMANTIC_PREDICTIONS: tf.cast(outputs[fields.SEMANTIC_PREDICTIONS], tf.int32),
            fields.SEMANTIC: labels[fields.SEMANTIC],
            fields.TRUE_IMAGE_SHAPE: features[fields.TRUE_IMAGE_SHAPE],
        }

    def drawn(
        self, features: Features, outputs: Tensors, labels: Labels
    ) -> Tuple[Features, Tensors, Labels]:
        """Return what `SegmentationPresentation.draw` needs: images as uint8, integers as int32.

        Returns:
            Images [batch, height, width, 3].
        """
        pixels = tf.clip_by_value(tf.round(features[fields.IMAGE]), 0.0, 255.0)
        outputs, labels = (
            {
                name: tf.cast(value, tf.int32) if value.dtype.is_integer else value
                for name, value in tensors.items()
                if name not in _NOT_DRAWN
            }
            for tensors in (outputs, labels)
        )
        return {**features, fields.IMAGE: tf.cast(pixels, tf.uint8)}, outputs, labels

    def add(self, arrays: Arrays) -> Finding:
        """Add one image; its badness is the fraction of labeled pixels that are wrong."""
        height, width = arrays[fields.TRUE_IMAGE_SHAPE][:2]
        labels = arrays[fields.SEMANTIC][:height, :width]
        predictions = arrays[fields.SEMANTIC_PREDICTIONS][:height, :width]
        size = len(self._names)
        is_labeled = labels != self._ignore_label
        cells = labels[is_labeled].astype(np.int64) * size + predictions[is_labeled]
        matrix = np.bincount(cells, minlength=size**2).reshape([size, size])
        self._counts.add(matrix)
        self._num_images += 1
        self._confusion += matrix
        self._boundaries += class_boundaries.count_boundaries(
            predictions, labels, size, self._ignore_label
        )
        wrong = int(matrix.sum() - np.trace(matrix))
        return Finding(wrong / len(cells) if wrong else 0.0, self._errors(matrix))

    def advise(self, metrics: Mapping[str, float]) -> Sequence[str]:
        """Suggest more images of weak classes."""
        return class_analysis.advise_on_classes(
            class_analysis.values_by_class(metrics, self._names)
        )

    def finish(self, metrics: Mapping[str, float]) -> Sequence[Section]:
        """Return sections on the classes and on their confusion."""
        del metrics
        if not self._num_images:
            return []
        confusion = Confusion.from_matrix(self._confusion)
        return [
            self._class_section(confusion),
            class_analysis.confusion_section(confusion, self._names, 'pixels'),
        ]

    def examples(self) -> Arrays:
        """Return the counts of each image."""
        return self._counts.arrays()

    def _errors(self, matrix: np.ndarray) -> List[ExampleError]:
        """Return the errors of the classes of one image, given its confusion matrix."""
        right, labeled, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
        errors = []
        for index in np.flatnonzero(labeled + predicted > 0):
            overlap = float(right[index] / (labeled[index] + predicted[index] - right[index]))
            if overlap >= LEAST_OVERLAP:
                continue
            if not labeled[index]:
                kind, others, verb = FALSE, matrix[:, index], 'labeled as'
            elif not right[index]:
                kind, others, verb = MISSED, matrix[index], 'predicted as'
            else:
                kind, others, verb = LOW_OVERLAP, matrix[:, index] + matrix[index], 'confused with'
            # Right pixels are no errors.
            other = int(np.argmax(np.where(np.arange(len(others)) == index, 0, others)))
            note = f'{verb} {self._names[other]}'
            errors.append(ExampleError(kind, self._names[index], overlap=overlap, note=note))
        return errors

    def _class_section(self, confusion: Confusion) -> Section:
        scores = confusion.scores()
        edges = [boundaries.boundary_scores(counts, 'boundary') for counts in self._boundaries]
        edge_columns = [
            np.array([of_class.get(f'boundary_{name}', np.nan) for of_class in edges])
            for name in boundaries.SCORES
        ]
        columns = (scores.iou, scores.f1, scores.precision, scores.recall, *edge_columns)
        labeled, predicted = confusion.labeled, confusion.predicted
        table = Table(
            'classes',
            'Scores of each class',
            (
                'class',
                'labeled pixels',
                'predicted pixels',
                'IoU',
                'Dice',
                'precision',
                'recall',
                'boundary F',
                'boundary precision',
                'boundary recall',
            ),
            [
                (
                    name,
                    int(labeled[index]),
                    int(predicted[index]),
                    *(class_analysis.known(column[index]) for column in columns),
                )
                for index, name in enumerate(self._names)
            ],
            'Boundaries match within '
            f'{class_boundaries.TOLERANCE:.2%} of the diagonal of their image.',
        )
        worst = class_analysis.worst_first(scores.iou, self._names)
        chart = Figure('iou', 'IoU of each class', lambda figure: plots.bars(figure, worst, 'IoU'))
        return Section(
            'Classes',
            [chart, table],
            f'{texts.counted(self._num_images, "image")}. Means are over the classes that have a '
            'value. Ignored pixels do not count.',
            [
                Tile('mean IoU', f'{mean_of_known(scores.iou):.1%}'),
                Tile('mean Dice', f'{mean_of_known(scores.f1):.1%}'),
                Tile('mean boundary F', f'{mean_of_known(edge_columns[0]):.1%}'),
                Tile('pixel accuracy', f'{confusion.accuracy:.1%}'),
            ],
        )
