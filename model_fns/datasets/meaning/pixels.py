"""Checks of the values of masks: numbers of classes, or levels of gray."""

from __future__ import annotations

import collections
from typing import Counter, List, Optional

from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.meaning.issues import Issue, Severity

_BACKGROUND = 0
# A set of one or few classes numbers them from 1; a smallest value above is a level.
_LEAST_LEVEL = 9
_MANY_VALUES = 32
_LIGHT = 0.75  # of the largest value
_MOST_BETWEEN = 0.1  # of the pixels of a mask whose outlines are smooth
_MOST_NAMED = 8


class PixelValues:
    """Check of the values of all masks.

    Args:
        ignored: the value of pixels that count for nothing; None: there is none.
        are_ids: True: values are numbers of classes, whose names nobody gave; the check for levels
            is for these.
        hint: advice where no pixel is of a class.

    Attributes:
        counts: number of pixels by value.
    """

    def __init__(self, ignored: Optional[int], are_ids: bool, hint: str):
        self.counts: Counter[int] = collections.Counter()
        self._num_images = 0
        self._ignored = ignored
        self._are_ids = are_ids
        self._hint = hint

    def add(self, image: Annotated) -> None:
        """Add the mask of an image."""
        if image.pixels is not None:
            self.counts.update(image.pixels)
            self._num_images += 1

    @property
    def classes(self) -> List[int]:
        """The values that are neither background nor ignored, sorted."""
        return sorted(
            value
            for value, count in self.counts.items()
            if count and value not in (_BACKGROUND, self._ignored)
        )

    def issues(self) -> List[Issue]:
        """Return the issue that there are no classes, or that values are levels of gray."""
        values = self.classes
        if not self._num_images:
            return []
        if not values:
            ignored = '' if self._ignored is None else f', or {self._ignored}, which is ignored'
            text = (
                f'have no pixel of a class: all are {_BACKGROUND}, the background{ignored}. '
                f'{self._hint}'
            )
            return [self._issue(text)]
        if not self._are_ids:
            return []
        if self._is_smooth(values):
            return [
                self._issue(
                    f'have {len(values)} values between those of nearly all pixels: their outlines '
                    'are smoothed, or the file was compressed with losses; expected one value for '
                    'each class'
                )
            ]
        if values[0] < _LEAST_LEVEL or values[0] <= len(values):
            return []
        shown = [*([_BACKGROUND] if self.counts[_BACKGROUND] else []), *values]
        named = [
            f'{value}:{"NAME" if len(values) == 1 else f"NAME_{index}"}'
            for index, value in enumerate(values[:_MOST_NAMED], 1)
        ]
        return [
            self._issue(
                f'have the values {_listed(shown)}: levels of gray, it seems, not numbers of '
                f'classes from 1 on; write --mask_values=0:background,{",".join(named)}'
            )
        ]

    def _is_smooth(self, values: List[int]) -> bool:
        """Return whether nearly all pixels are black or white, and the others between."""
        # Padded, for masks of a single value.
        (first, _), (second, _), *_ = [*self.counts.most_common(2), (0, 0), (0, 0)]
        most = sum(count for _, count in self.counts.most_common(2))
        return (
            len(values) > _MANY_VALUES
            and min(first, second) == _BACKGROUND
            and max(first, second) >= _LIGHT * max(self.counts)
            and most > (1 - _MOST_BETWEEN) * sum(self.counts.values())
        )

    def _issue(self, text: str) -> Issue:
        return Issue(Severity.ERROR, self._num_images, self._num_images, 'masks', text)


def _listed(values: List[int]) -> str:
    """Join values: `0 and 128`, `0, 85 and 170`."""
    texts = [str(value) for value in values[:_MOST_NAMED]]
    if len(values) > _MOST_NAMED:
        return f'{", ".join(texts)} and {len(values) - _MOST_NAMED} more'
    return ' and '.join(filter(None, [', '.join(texts[:-1]), texts[-1]]))
