"""Checks of flags, classes, groups and keys of the objects of a whole data set."""

from __future__ import annotations

import collections
from typing import Counter, Dict, List, Sequence, Set

from estimator_lib import errors
from model_fns.datasets.meaning.annotated import CROWD, DIFFICULT, Annotated
from model_fns.datasets.meaning.issues import Issue, Severity

_MANY_IGNORED = 0.1  # of the objects; COCO has 1 % crowds
_FAR = 0.1  # of the image's longer side, between the parts of an object
_MOST_NAMED = 10
_ADVICE = {
    CROWD: 'training ignores them; write iscrowd: 0 for a mask of one object',
    DIFFICULT: 'an evaluation does not count them',
}


class Ignored:
    """Check whether objects that training or evaluation ignores are more than exceptions."""

    def __init__(self) -> None:
        self._total = 0
        self._counts: Counter[str] = collections.Counter()
        self._first: Dict[str, str] = {}

    def add(self, image: Annotated) -> None:
        """Add the objects of an image."""
        self._total += len(image.objects)
        for item in image.objects:
            if item.ignored:
                self._counts[item.ignored] += 1
                self._first.setdefault(item.ignored, item.place)

    def issues(self) -> List[Issue]:
        """Return an issue for each reason; an error where training would learn nothing."""
        issues = []
        for reason, count in self._counts.items():
            is_all = count == self._total and reason != DIFFICULT
            is_odd = reason in _ADVICE and count > _MANY_IGNORED * self._total
            if is_all or is_odd:
                advice = _ADVICE.get(reason, 'training ignores them')
                severity = Severity.ERROR if is_all else Severity.WARNING
                text = f'are {reason}: {advice}'
                issues.append(
                    Issue(severity, count, self._total, 'objects', text, self._first[reason])
                )
        return issues


class Labels:
    """Check whether numbers of classes are counted from the expected number on.

    Args:
        expected: the numbers of the known classes.
        subject: name of what has a label, in messages.
        hint: what to write for labels that begin with another number.
    """

    def __init__(self, expected: range, subject: str = 'objects', hint: str = ''):
        self._expected = expected
        self._subject = subject
        self._hint = hint
        self._counts: Counter[int] = collections.Counter()
        self._first: Dict[int, str] = {}

    def add(self, image: Annotated) -> None:
        """Add the objects of an image that have a number in place of a name."""
        for item in image.objects:
            if item.label is not None:
                self._counts[item.label] += 1
                self._first.setdefault(item.label, item.place)

    def issues(self) -> List[Issue]:
        """Return the issue that numbers start one too low or one too high."""
        if not self._counts or not self._expected:
            return []
        first, last = self._expected[0], self._expected[-1]
        # A Counter gives 0 for labels that are not there, and does not add them.
        if self._counts[first - 1]:
            wrong, start = first - 1, first - 1
        elif self._counts[last + 1] and not self._counts[first]:
            wrong, start = last + 1, first + 1
        else:
            return []
        total = sum(self._counts.values())
        text = (
            f'have the label {wrong}: labels start at {start}, it seems; expected {first} to '
            f'{last}{self._hint}'
        )
        count = self._counts[wrong]
        example = self._first[wrong]
        return [Issue(Severity.ERROR, count, total, self._subject, text, example, wrong < first)]


class Classes:
    """Check whether each class has an object.

    Args:
        names: of the known classes.
    """

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._seen: Counter[str] = collections.Counter()

    def add(self, image: Annotated) -> None:
        """Add the objects of an image."""
        self._seen.update(item.name for item in image.objects if item.name)

    def issues(self) -> List[Issue]:
        """Return the classes without objects."""
        missing = [name for name in self._names if not self._seen[name]]
        if not missing or not self._seen:
            return []
        text = f'have no object: {errors.shortened(missing, _MOST_NAMED)}'
        return [Issue(Severity.WARNING, len(missing), len(self._names), 'classes', text)]


class Images:
    """Check for images that lose all of their objects, and for equal ids and equal images.

    Args:
        fate: what becomes of an image that loses all of its objects.
    """

    def __init__(self, fate: str = 'are left out'):
        self._fate = fate
        self._total = 0
        self._ids: Set[str] = set()
        self._digests: Set[str] = set()
        self._equal: List[str] = []
        self._lost: List[str] = []
        self._duplicates: List[str] = []

    def add(self, image: Annotated) -> None:
        """Add an image."""
        self._total += 1
        if image.objects and not image.num_kept:
            self._lost.append(image.place)
        if image.source_id in self._ids:
            self._duplicates.append(image.place)
        if image.source_id:
            self._ids.add(image.source_id)
        if image.digest in self._digests:
            self._equal.append(image.place)
        if image.digest:
            self._digests.add(image.digest)

    def issues(self) -> List[Issue]:
        """Return an issue for each kind of images."""
        kinds = (
            (self._lost, f'lose all of their objects, and {self._fate}'),
            (self._duplicates, 'have the source id of an image before them'),
            (self._equal, 'are equal to an image before them'),
        )
        return [
            Issue(Severity.WARNING, len(places), self._total, 'images', text, places[0])
            for places, text in kinds
            if places
        ]


class Groups:
    """Check whether the parts of an object are near each other."""

    def __init__(self) -> None:
        self._total = self._count = 0
        self._farthest = 0.0
        self._first = ''

    def add(self, image: Annotated) -> None:
        """Add the objects of an image."""
        self._total += len(image.objects)
        for item in image.objects:
            if item.gap > _FAR * max(image.size):
                self._count += 1
                self._farthest = max(self._farthest, item.gap)
                self._first = self._first or item.place

    def issues(self) -> List[Issue]:
        """Return the objects of distant parts."""
        if not self._count:
            return []
        text = (
            f'are made of distant shapes, which are up to {self._farthest:.0f} pixels apart, '
            'because these have one group_id; remove group_id where shapes are objects of their own'
        )
        return [Issue(Severity.WARNING, self._count, self._total, 'objects', text, self._first)]


class Unread:
    """Check for keys of objects that nobody reads."""

    def __init__(self) -> None:
        self._total = 0
        self._keys: Counter[str] = collections.Counter()
        self._first: Dict[str, str] = {}

    def add(self, image: Annotated) -> None:
        """Add the objects of an image."""
        self._total += len(image.objects)
        for item in image.objects:
            for key in item.unread:
                self._keys[key] += 1
                self._first.setdefault(key, item.place)

    def issues(self) -> List[Issue]:
        """Return one issue with all keys."""
        if not self._keys:
            return []
        named = errors.shortened([repr(key) for key in self._keys], _MOST_NAMED)
        key, count = self._keys.most_common(1)[0]
        text = f'have keys that nobody reads: {named}'
        return [Issue(Severity.WARNING, count, self._total, 'objects', text, self._first[key])]
