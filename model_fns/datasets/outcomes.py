"""Outcomes of items of a conversion, and their entries in its journal."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from estimator_lib.commands import prediction_files
from model_fns.datasets.sources import Item, Problem
from model_fns.datasets.summaries import ImageSummary, Tile


class Outcome(NamedTuple):
    """Result of the conversion of an item.

    Attributes:
        record: serialized; None where the item is not usable, or is an empty tile to drop.
        problems: those of the item, and of objects in it that are left out.
        summary: of the record or of a dropped tile; None without either.
    """

    record: Optional[bytes]
    problems: Sequence[Problem]
    summary: Optional[ImageSummary] = None


def journal_path(output_prefix: str) -> str:
    """Return the path of the journal of a conversion, beside its shards."""
    folder, name = os.path.split(output_prefix)
    return os.path.join(folder, f'.{name}.partial')


def to_entry(outcome: Outcome) -> Any:
    """Convert an outcome without its record to types of JSON."""
    has_record = outcome.record is not None
    return prediction_files.to_json([has_record, list(outcome.problems), outcome.summary])


def restore(
    entries: Sequence[Any],
    items: Iterable[Tuple[Item, int]],
    shards: Sequence[Iterator[bytes]],
    convert: Callable[[Item], Outcome],
) -> Iterator[Outcome]:
    """Yield the outcomes of the first items, which an earlier start has left.

    Args:
        entries: the results of `to_entry`.
        items: all items, each with the index of its part.
        shards: the records that are left of each part.
        convert: converts an item whose record is missing.
    """
    for entry, (item, part) in zip(entries, items):
        outcome = _from_entry(entry, shards[part])
        yield convert(item) if outcome is None else outcome


def _from_entry(entry: Any, kept: Iterator[bytes]) -> Optional[Outcome]:
    """Return the outcome of an entry; None where its record is missing.

    Args:
        entry: the result of `to_entry`.
        kept: the records that follow.
    """
    has_record, problems, summary = entry
    record = next(kept, None) if has_record else None
    if has_record and record is None:
        return None
    if summary is not None:
        summary = ImageSummary(*summary)
        tile: Any = summary.tile
        summary = summary._replace(tile=None if tile is None else Tile(*tile))
    return Outcome(record, [Problem(*problem) for problem in problems], summary)


def list_problems(outcome: Outcome, item: Item) -> List[Problem]:
    """List the problems of an item, with the path of its file."""
    return [
        problem._replace(place=f'{item.path}: {problem.place}' if problem.place else item.path)
        for problem in outcome.problems
    ]
