"""Lists of images and their parts: `--list` and `--split` of the converter."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Protocol, Sequence, TypeVar

import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets.files import folder_files


class Listed(Protocol):
    """An image that may be in a list: `sources.Item`."""

    stem: str
    path: str


AnyListed = TypeVar('AnyListed', bound=Listed)


def read(path: str) -> List[str]:
    """Return the lines of a list that are not empty.

    Raises:
        errors.DataError: it is not there, cannot be read, or is not UTF-8.
    """
    if not tf.io.gfile.exists(path):
        raise folder_files.missing('--list', 'file', path)
    lines = [line.strip() for line in folder_files.read_text(path).splitlines()]
    return [line for line in lines if line]


def select(items: List[AnyListed], lines: Optional[Sequence[str]]) -> List[AnyListed]:
    """Select the items that a list names.

    Args:
        items: all of them.
        lines: each has a stem or the path of an image; further words are ignored, as in the lists
            of Pascal VOC. None: all items are taken.

    Raises:
        errors.DataError: a line names none.
    """
    if lines is None:
        return items
    by_stem: Dict[str, List[AnyListed]] = {}
    for item in items:
        by_stem.setdefault(item.stem, []).append(item)
    lines = list(dict.fromkeys(lines))
    named = [_named(line, by_stem) for line in lines]
    missing = [line for line, matches in zip(lines, named) if not matches]
    if missing:
        raise errors.DataError(
            f'--list: {len(missing)} of {len(lines)} stems have no image and annotation: '
            f'{errors.shortened(missing, 20)}.'
        )
    taken = {id(item) for matches in named for item in matches}
    return [item for item in items if id(item) in taken]


def assign_parts(
    strata: Sequence[str], shares: Sequence[float], groups: Optional[Sequence[int]] = None
) -> List[int]:
    """Assign each item to a part of a split.

    Each stratum is split in proportion, and so is the whole. Stratum by stratum, an item goes to
    the part that is farthest below its share so far. Whole groups go, in the stratum of their first
    item; the largest ones first, so that the small ones even out the shares.

    Args:
        strata: of each item, in a random order.
        shares: of the parts; they add up to 1.
        groups: number of the group of each item; None: each is its own group.

    Returns:
        The number of its part for each item.
    """
    members: Dict[int, List[int]] = {}
    for index in range(len(strata)):
        members.setdefault(index if groups is None else groups[index], []).append(index)
    parts = [0] * len(strata)
    counts = [0] * len(shares)
    for own in sorted(members.values(), key=lambda own: (strata[own[0]], -len(own))):
        place = sum(counts) + len(own)
        lacks = [share * place - count for share, count in zip(shares, counts)]
        part = lacks.index(max(lacks))
        counts[part] += len(own)
        for index in own:
            parts[index] = part
    return parts


def _named(line: str, by_stem: Dict[str, List[AnyListed]]) -> List[AnyListed]:
    """Return the images of a line; for a path, those that share most of its last folders."""
    for path in (line, line.split()[0]):
        parts = path.replace('\\', '/').split('/')
        stem, ending = os.path.splitext(parts[-1])
        items = by_stem.get(parts[-1])
        if items is None and (
            folder_files.is_image(parts[-1]) or ending.lower() in ('.txt', '.xml')
        ):
            items = by_stem.get(stem)
        if items:
            num_common = [_common_folders(item.path, parts[:-1]) for item in items]
            return [item for item, count in zip(items, num_common) if count == max(num_common)]
    return []


def _common_folders(path: str, folders: Sequence[str]) -> int:
    """Count the last folders of a path that are equal to the given ones."""
    own = path.split('/')[:-1]
    count = 0
    for one, other in zip(reversed(own), reversed(folders)):
        if one != other:
            break
        count += 1
    return count
