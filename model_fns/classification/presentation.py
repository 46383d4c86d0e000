"""Presentation of classified images: pictures, and the classes by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

import numpy as np

from estimator_lib.analysis import plots, rendering
from estimator_lib.drawing import visualization
from estimator_lib.task import AS_CONFIGURED, IMAGE, Arrays, Description, Presentation, Shown
from model_fns.classification import inputs, metrics
from model_fns.classification.analysis.label_analyzer import THRESHOLD
from model_fns.classification.deployable import CLASSES, PROBABILITIES
from model_fns.structures.label_map import with_class_name

_TOP_K = 5  # classes that are told of an image, unless another number is asked for


class ClassificationPresentation(Presentation):
    """Presentation of images of one class.

    Args:
        class_names: names of the classes.
        labels_offset: the label of logit 0.
    """

    def __init__(self, class_names: Sequence[str], labels_offset: int):
        self.class_names = class_names
        self._labels_offset = labels_offset
        self.described_outputs = {PROBABILITIES: (len(class_names),), CLASSES: ()}

    def metric_title(self, name: str) -> str:
        """Return the name of a metric with the class that it belongs to."""
        return with_class_name(name, self.class_names)

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> Optional[np.ndarray]:
        """Return the image over its class, probability and label: uint8 [height', width', 3]."""
        names = self.class_names
        if not outputs:
            picture = visualization.displayable(features[IMAGE])
            return visualization.captioned(picture, inputs.label_lines(labels, names))
        predicted = int(outputs[CLASSES]) - self._labels_offset
        lines = [f'{names[predicted]} {outputs[PROBABILITIES][predicted]:.0%}']
        wrong = False
        if labels is not None:
            label = int(labels[inputs.LABEL])
            wrong = label != predicted
            lines.append(f'is {names[label]}')
        return visualization.captioned(
            visualization.displayable(features[IMAGE]), lines, alarming=wrong
        )

    def describe(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Description:
        """Return the most probable classes: their names, labels and probabilities."""
        probabilities = np.asarray(outputs[PROBABILITIES])
        names = self.class_names
        best = np.argsort(-probabilities, kind='stable')
        if shown.class_indices is not None:
            best = best[np.isin(best, shown.class_indices)]
        rows = [
            {
                'class': names[index],
                'id': int(index) + self._labels_offset,
                'score': round(float(probabilities[index]), 6),
            }
            for index in best[: shown.top_k or _TOP_K]
            if probabilities[index] >= (shown.least_score or 0.0)
        ]
        return Description({'classes': rows}, rows, self.draw(features, outputs))

    def draw_metrics(self, values: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        """Return the confusion matrix."""
        counts, names = values[metrics.CONFUSION], self.class_names
        titles = ('label', 'predicted')
        return {
            metrics.CONFUSION: rendering.picture(
                lambda figure: plots.confusion_matrix(figure, counts, names, True, titles)
            )
        }


class MultiLabelPresentation(ClassificationPresentation):
    """Presentation of images of any number of classes."""

    def __init__(self, class_names: Sequence[str], labels_offset: int):
        super().__init__(class_names, labels_offset)
        self.described_outputs = dict.fromkeys((PROBABILITIES, CLASSES), (len(class_names),))

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> Optional[np.ndarray]:
        """Return the image over its predicted classes, and its labels.

        Returns:
            uint8 [height', width', 3].
        """
        picture = visualization.displayable(features[IMAGE])
        own = np.flatnonzero(() if labels is None else self._shown(labels))
        if not outputs:
            return visualization.captioned(picture, [self._joined(own.tolist())])
        probabilities = np.asarray(outputs[PROBABILITIES])
        predicted = np.flatnonzero(probabilities >= THRESHOLD)
        lines = [self._joined(predicted.tolist())]
        if labels is not None:
            lines.append(f'is {self._joined(own.tolist())}')
        # No frame for a class that was not looked for.
        known = () if labels is None else np.flatnonzero(~np.isnan(labels[inputs.LABEL]))
        wrong = labels is not None and list(own) != [each for each in predicted if each in known]
        return visualization.captioned(picture, lines, alarming=wrong)

    def draw_metrics(self, values: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        """Return no pictures: labels that occur together have no confusion matrix."""
        del values
        return {}

    @staticmethod
    def _shown(labels: Arrays) -> np.ndarray:
        return np.nan_to_num(labels.get(inputs.SHARES, labels[inputs.LABEL]))

    def _joined(self, indices: Sequence[int]) -> str:
        return ', '.join(self.class_names[index] for index in indices) or 'none'
