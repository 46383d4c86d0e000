"""Split of a data set without one: whole groups of images on one side, always the same ones."""

from __future__ import annotations

import collections
import hashlib
import os
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from estimator_lib import errors, texts

AUTO = 'auto'
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


def group_numbers(names: Sequence[str], pattern: str) -> List[int]:
    """Return the number of the group of each image, for a split by `--group`.

    With the pattern `^(cam[0-9]+)_`, `a/cam1_01.png` and `a/cam1_02.png` are of one group, and
    `a/x.png` is one of its own.

    Args:
        names: paths of the images.
        pattern: a regular expression, whose first group, or else whose match, names the group. It
            is searched in the paths below the folder that all images are in. `AUTO`: copies and
            frames of a scene, as `find_group` tells.

    Raises:
        errors.DataError: the pattern is not valid, or no name matches it.
    """
    if pattern == AUTO:
        groups = group_images(names, range(len(names)))
        numbers = {place: index for index, own in enumerate(groups.values()) for place in own}
        return [numbers[place] for place in range(len(names))]
    # `os.path.commonpath` would change gs://bucket to gs:/bucket.
    start = os.path.commonprefix(names).rfind('/') + 1  # noqa: RUF071
    try:
        matches = [re.search(pattern, name[start:]) for name in names]
    except re.error as error:
        raise errors.DataError(f'--group={pattern!r}: {error}.') from None
    groups_by_name = [match[min(1, match.re.groups)] or '' if match else '' for match in matches]
    if not any(groups_by_name):
        raise errors.DataError(
            f'--group={pattern!r} matches none of {texts.counted(len(names), "name")}, like '
            f'{names[0][start:]!r}; expected a pattern of what the images of a group share.'
        )
    known: Dict[Tuple[bool, str], int] = {}
    return [
        known.setdefault((bool(group), group or name), len(known))
        for name, group in zip(names, groups_by_name)
    ]


def group_parts(
    names: Sequence[str], pattern: str, num_parts: int
) -> Tuple[Optional[List[int]], List[str]]:
    """Return the group of each image, and a line on all; None without a pattern.

    Args:
        names: paths of the images.
        pattern: regular expression whose first group, or whole match, names the group of an image;
            '': each image is its own group.
        num_parts: number of parts of the split.

    Raises:
        errors.DataError: there are fewer groups than parts.
    """
    if not pattern:
        return None, []
    groups = group_numbers(names, pattern)
    count = len(set(groups))
    if count < num_parts:
        raise errors.DataError(
            f'--group={pattern}: {texts.counted(len(names), "image")} are of '
            f'{texts.counted(count, "group")}; expected at least one for each of the '
            f'{num_parts} parts of --split.'
        )
    return groups, [f'split by groups: {count} of {texts.counted(len(names), "image")}']


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
        groups = group_images(names, places)
        num_groups += len(groups)
        evaluation += _choose(groups, SHARE * len(places), len(by_class) == 1)
    if not evaluation:  # classes of one image each, or all images in one group
        evaluation = [max(range(len(names)), key=lambda place: _hash(names[place]))]
    chosen = set(evaluation)
    train = [place for place in range(len(names)) if place not in chosen]
    return Split(train, sorted(chosen), num_groups)


def group_images(names: Sequence[str], places: Sequence[int]) -> Dict[str, List[int]]:
    """Return the positions of images by the name of their group.

    Args:
        names: paths of the images.
        places: positions of the images to group.
    """
    copies: Dict[str, List[int]] = collections.defaultdict(list)
    groups: Dict[str, List[int]] = collections.defaultdict(list)
    for place in places:
        copies[_COPY.sub('', os.path.splitext(names[place])[0])].append(place)
        groups[find_group(names[place])].append(place)
    whole: Dict[str, List[int]] = {}
    for name, members in groups.items():
        # One name for nearly all, as IMG_0001 to IMG_0900: whole, it would leave one side empty.
        if 2 * len(members) <= len(places):
            whole[name] = members
            continue
        # An ending is added, because `find_group` takes one away.
        own = sorted({key for key in copies if find_group(f'{key}.x') == name}, key=_natural)
        size = max(1, len(own) // _BLOCKS)
        for start in range(0, len(own), size):
            block = own[start : start + size]
            whole[f'{name}/{block[0]}'] = [place for key in block for place in copies[key]]
    return whole


def _choose(groups: Dict[str, List[int]], wanted: float, at_least_one: bool) -> List[int]:
    """Return the positions of the groups that go to the evaluation; never all groups."""
    chosen: List[int] = []
    # By a hash: in the order of names, the last scenes or days would be the evaluation.
    for name in sorted(groups, key=_hash)[:-1]:
        # At most half a group too many, so that shares stay near the one that is asked for.
        if len(chosen) + len(groups[name]) / 2 <= wanted:
            chosen += groups[name]
    if not chosen and at_least_one and len(groups) > 1:
        chosen = groups[min(groups, key=lambda name: (len(groups[name]), _hash(name)))]
    return chosen


def _hash(name: str) -> str:
    # Python's hash() has a salt for each process. Names that are not UTF-8 have surrogates.
    return hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()


def _natural(name: str) -> List[Tuple[int, str]]:
    """Return a key that sorts numbers in names by their values."""
    words = re.split(r'(\d+)', name)
    return [(int(word), '') if word.isdecimal() else (0, word) for word in words]
