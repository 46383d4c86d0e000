"""Repeat-factor sampling: images of rare classes come several times in an epoch.

A class that is in the fraction f of the images has the factor `max(1, sqrt(t / f))`, with a
threshold t. The factor of an image is the largest one of its classes (Gupta, Dollar and Girshick
2019, "LVIS: A Dataset for Large Vocabulary Instance Segmentation", appendix B). In each epoch an
image comes as often as the whole part of its factor says, and once more with the probability of the
rest. That draw is a function of the seed, the epoch and the record, so a resumed run repeats the
same images.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
from typing import Collection, Dict, Iterator, List, Sequence, Tuple

from estimator_lib import errors
from estimator_lib.data import record_streams
from estimator_lib.data.record_sources import Source
from estimator_lib.task import Task

log = logging.getLogger('estimator_lib')


def factors_of_images(
    images: Sequence[Collection[int]], threshold: float
) -> Tuple[List[float], Dict[int, float]]:
    """Compute repeat factors.

    Args:
        images: the class ids of each image.
        threshold: the fraction of the images below which a class is rare, more than 0.

    Returns:
        The factor of each image, at least 1, and of each class.
    """
    # A fraction of images, not of objects: several of one class in an image count once.
    counts = collections.Counter(label for labels in images for label in set(labels))
    classes = {
        label: max(1.0, math.sqrt(threshold * len(images) / count))
        for label, count in counts.items()
    }
    return [max((classes[label] for label in labels), default=1.0) for labels in images], classes


def add_factors(task: Task, sources: Sequence[Source], threshold: float) -> Tuple[Source, ...]:
    """Return the sources with the repeat factors of their records, which are all read for that.

    Args:
        task: lists the classes of a record.
        sources: the sources; classes are counted in all of them together.
        threshold: the fraction of the images below which a class is rare, more than 0.

    Raises:
        errors.ConfigError: the records are sequences, or have no classes.
    """
    field = 'train_config.repeat_factor_threshold'
    if any(source.sequences for source in sources):
        raise errors.ConfigError(
            f'{field} is {threshold:g}, but records are sequences; expected single images.'
        )
    found = [list(_list_classes(task, source)) for source in sources]
    images = [labels for each in found for _, labels in each]
    factors, classes = factors_of_images(images, threshold)
    if not classes:
        raise errors.ConfigError(
            f'{field} is {threshold:g}, but no training example has a class; expected 0.'
        )
    log.info(
        'repeat factors: %d of %d classes are in less than %.4g of the images; an epoch has %.4g '
        'times as many examples',
        sum(factor > 1 for factor in classes.values()),
        len(classes),
        threshold,
        sum(factors) / len(factors),
    )
    repeated, start = [], 0
    for source, each in zip(sources, found):
        values = factors[start : start + len(each)]
        start += len(each)
        pairs = [
            (record_id, factor) for (record_id, _), factor in zip(each, values) if factor > 1.0
        ]
        repeated.append(dataclasses.replace(source, repeats=tuple(sorted(pairs))))
    return tuple(repeated)


def _list_classes(task: Task, source: Source) -> Iterator[Tuple[int, Collection[int]]]:
    """Yield the id and the classes of each record; invalid ones have none."""
    for record_id, record in record_streams.list_records(source):
        is_valid = task.checks.check_example(record) is None
        yield record_id, task.checks.list_classes(record) if is_valid else ()
