"""Areas under ROC curves from histograms: the memory does not depend on the number of images.

The area of a class is the probability that a random image of the class has a higher score than a
random other image, where equal scores count as half (Hanley and McNeil 1982). It depends on the
order of the scores alone. So the histograms have bins of equal width of the log-odds
log(p / (1 - p)): softmax puts most of the probabilities of many classes close to 0, and those of
good classifiers close to 1, where bins of the probability itself could not tell them apart.

Scores in the same bin count as equal. Each such pair moves the area by at most half a pair, so the
error is at most half of the fraction of pairs of an image of the class and another one that share
a bin. This bound is computed from the histograms.
"""

from __future__ import annotations

from typing import Optional, Tuple, Union

import numpy as np

# Bins of all classes together: 32 MB.
_MOST_BINS = 1 << 22
_MOST_BINS_OF_CLASS = 1 << 16
# Log-odds of the least normal float32, and of the greatest one below 1: -87.3 and 16.6. Numbers
# outside of this range share the outermost bins.
_LOWEST, _HIGHEST = -88.0, 17.0


class ScoreHistograms:
    """Histograms of the probabilities of each class, of its own images and of all.

    The histograms take at most 2^22 * 8 bytes = 32 MB. 1,001 classes have 4,190 bins each, which
    are 0.025 wide: scores whose odds differ by more than 2.6 % never share a bin.

    Args:
        num_classes: number of classes.
    """

    def __init__(self, num_classes: int):
        self._bins = max(1, min(_MOST_BINS_OF_CLASS, _MOST_BINS // num_classes))
        self._of_class = np.zeros([num_classes, self._bins], np.uint32)
        self._of_all = np.zeros([num_classes, self._bins], np.uint32)
        self._rows = np.arange(num_classes)

    def add(
        self,
        probabilities: np.ndarray,
        label: Union[int, np.ndarray],
        known: Optional[np.ndarray] = None,
    ) -> None:
        """Add an image.

        Args:
            probabilities: float32 [num_classes].
            label: its class; int [n] if it has several, or none.
            known: bool [num_classes], False where it is unknown whether the image has the class;
                None: all are known.
        """
        # In float64, 1 - p is exact for any float32.
        scores = np.asarray(probabilities, np.float64)
        with np.errstate(divide='ignore', invalid='ignore'):
            odds = np.log(scores) - np.log1p(-scores)
        # A probability that is not a number, of a model that diverged, ranks lowest.
        odds = np.clip(np.nan_to_num(odds, nan=_LOWEST), _LOWEST, _HIGHEST)
        bins = ((odds - _LOWEST) * (self._bins / (_HIGHEST - _LOWEST))).astype(np.int64)
        bins = np.minimum(bins, self._bins - 1)
        self._of_all[self._rows, bins] += 1 if known is None else known
        self._of_class[label, bins[label]] += 1

    def areas(self) -> Tuple[np.ndarray, np.ndarray]:
        """Compute the area under the ROC curve of each class, and the bound of its error.

        Returns:
            Two arrays, float64 [num_classes]; NaN where there are no images of the class, or no
            others.
        """
        areas = np.full([2, len(self._rows)], np.nan)
        # One class at a time, because float64 copies of all would take three times the memory.
        for index in self._rows:
            positives = self._of_class[index].astype(np.float64)
            negatives = self._of_all[index] - positives
            num_pairs = positives.sum() * negatives.sum()
            if num_pairs:
                lower = np.cumsum(negatives) - negatives
                equal = positives @ negatives
                areas[0, index] = (positives @ lower + 0.5 * equal) / num_pairs
                areas[1, index] = 0.5 * equal / num_pairs
        return areas[0], areas[1]
