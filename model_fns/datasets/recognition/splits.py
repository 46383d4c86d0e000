"""Split of a data set without one: whole groups of images on one side, always the same ones."""

from __future__ import annotations

import collections
import hashlib
import os
import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

from estimator_lib import errors, texts

SHARE = 0.2  # of the images, for evaluation
_COPY = re.compile(r'\.rf\.[0-9a-zA-Z]{6,}$')  # Roboflow's name of an augmented copy
_FRAME = re.compile(r'^(.*?)[-_. ]*(\d+)$')
_BLOCKS = 20  # of a group that is most of the data set


class Split(NamedTuple):
    """The two sides of a split.

    Attributes:
        train: positions of images.
        evaluation: positions of the others.
        num_groups: number of groups that stayed whole.
    """

    train: Sequence[int]
    evaluation: Sequence[int]
    num_groups: int


def find_group(name: str) -> str:
    """Return the group of an image: its name without a copy's hash and without a frame's number.

    `a/cam2_0017.rf.0f3a9c.jpg` is of the group `a/cam2`.
    """
    stem = _COPY.sub('', os.path.splitext(name)[0])
    match = _FRAME.match(stem)
    return match[1] if match and match[1] else stem


def split(names: Sequence[str], strata: Sequence[str] = ()) -> Split:
    """Split images so that copies and frames of one scene stay together.

    Groups go to the evaluation in the order of a hash of their names, until it has its share: the
    result depends on the names only. A group of more than half of the images is no scene but the
    name of the set: it is cut into blocks of neighbors.

    Args:
        names: paths of the images, relative to the data set.
        strata: class of each image, where images have one; each class is split by itself.

    Raises:
        errors.DataError: there are less than two images.
    """
    if len(names) < 2:
        raise errors.DataError(
            f'{texts.counted(len(names), "image")} cannot be split; expected two or more.'
        )
    evaluation: List[int] = []
    num_groups = 0
    by_class: Dict[str, List[int]] = collections.defaultdict(list)
    for place in range(len(names)):
        by_class[strata[place] if strata else ''].append(place)
    for places in by_class.values():
        groups = _groups(names, places)
        num_groups += len(groups)
        evaluation += _choose(groups, SHARE * len(places), len(by_class) == 1)
    if not evaluation:  # classes of one image each, or all images in one group
        evaluation = [max(range(len(names)), key=lambda place: _hash(names[place]))]
    chosen = set(evaluation)
    train = [place for place in range(len(names)) if place not in chosen]
    return Split(train, sorted(chosen), num_groups)


def _groups(names: Sequence[str], places: Sequence[int]) -> Dict[str, List[int]]:
    """Return the positions of images by the name of their group."""
    copies: Dict[str, List[int]] = collections.defaultdict(list)
    groups: Dict[str, List[int]] = collections.defaultdict(list)
    for place in places:
        copies[_COPY.sub('', os.path.splitext(names[place])[0])].append(place)
        groups[find_group(names[place])].append(place)
    whole: Dict[str, List[int]] = {}
    for name, members in groups.items():
        if 2 * len(members) <= len(places):
            whole[name] = members
            continue
        own = sorted({key for key in copies if find_group(f'{key}.x') == name}, key=_natural)
        size = max(1, len(own) // _BLOCKS)
        for start in range(0, len(own), size):
            block = own[start : start + size]
            whole[f'{name}/{block[0]}'] = [place for key in block for place in copies[key]]
    return whole


def _choose(groups: Dict[str, List[int]], wanted: float, at_least_one: bool) -> List[int]:
    """Return the positions of the groups that go to the evaluation; never all groups."""
    chosen: List[int] = []
    for name in sorted(groups, key=_hash)[:-1]:
        if len(chosen) + len(groups[name]) / 2 <= wanted:
            chosen += groups[name]
    if not chosen and at_least_one and len(groups) > 1:
        chosen = groups[min(groups, key=lambda name: (len(groups[name]), _hash(name)))]
    return chosen


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()


def _natural(name: str) -> List[Tuple[int, str]]:
    """Return a key that sorts numbers in names by their values."""
    words = re.split(r'(\d+)', name)
    return [(int(word), '') if word.isdigit() else (0, word) for word in words]
