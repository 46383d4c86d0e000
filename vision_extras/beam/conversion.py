"""The converter as a Beam pipeline: the records of `datasets.conversion`, in the same shards.

The shard of a record, and its position there, depend on how many of the images before it can be
used. Few images cannot be used: their places go to all workers as a side input, from which each
worker computes the rank of its records.
"""

from __future__ import annotations

import bisect
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import apache_beam as beam

from model_fns.datasets import conversion, records
from model_fns.datasets.conversion import Options
from model_fns.datasets.sources import Item, Problem, Source
from model_fns.structures.label_map import LabelMap
from vision_extras.beam import runs

_LEFT_OUT, _PROBLEMS = 'left_out', 'problems'

Place = Tuple[int, int]  # a part of the split, and a place in it


class _Planned(NamedTuple):
    """An item and its place in the output.

    Attributes:
        position: among all items.
        place: part, and how many items of the part are before it.
        item: the image to convert.
    """

    position: int
    place: Place
    item: Item


def convert(
    source: Source,
    label_map_path: str,
    output_prefix: str,
    options: Options,
    runner: runs.Runner,
) -> Dict[str, int]:
    """Write the same files as `datasets.conversion.convert`, in a Beam pipeline.

    Files get their names when all are complete. A second run of the pipeline writes them again.

    Args:
        source: the data set. All workers must reach its files, the label map and the shards.
        label_map_path: as in `datasets.conversion.convert`.
        output_prefix: as there.
        options: as there, without `num_workers`: the runner decides on the processes.
        runner: runs the pipeline.

    Raises:
        errors.DataError: something is wrong; the message lists it by file.
        errors.UserError: the pipeline cannot be run.
    """
    plan = conversion.make_plan(source, label_map_path, output_prefix, options)
    planned = list(_planned(plan))
    shards = {
        (part, shard): records.shard_path(prefix, shard, options.num_shards)
        for part, prefix in enumerate(plan.prefixes)
        for shard in range(options.num_shards)
    }
    for prefix in plan.prefixes:
        records.prepare_folder(prefix, options.num_shards)
    report = f'{plan.prefixes[0]}-problems.json'
    files = runs.Staged(list(shards.values()))
    left = runs.Staged([report])
    for staged in (files, left):
        staged.clear()
    try:
        for path in shards.values():  # a shard without records stays empty
            runs.write_records(path, [])
        with runs.pipeline(runner) as pipeline:
            _build(pipeline, planned, source, plan.classes, options, shards, report)
        reported = sorted(runs.read_json(report))
        item_problems = [Problem(*values) for _, _, entries in reported for values in entries]
        problems = [*plan.problems, *item_problems]
        counts = {prefix: plan.parts.count(part) for part, prefix in enumerate(plan.prefixes)}
        for _, part, _ in reported:
            if part is not None:
                counts[plan.prefixes[part]] -= 1
        conversion.check_outcome(problems, counts, options)
        if plan.is_new:
            conversion.write_label_map(plan.classes, label_map_path)
        files.publish()
    finally:
        for staged in (files, left):
            staged.clear()
    conversion.log_outcome(plan.notes, problems)
    return counts


def _planned(plan: conversion.Plan) -> Iterator[_Planned]:
    counts = [0] * len(plan.prefixes)
    for position, (item, part) in enumerate(zip(plan.items, plan.parts)):
        yield _Planned(position, (part, counts[part]), item)
        counts[part] += 1


def _build(
    pipeline: beam.Pipeline,
    planned: Sequence[_Planned],
    source: Source,
    classes: LabelMap,
    options: Options,
    shards: Dict[Place, str],
    report: str,
) -> None:
    """Add the steps from items to shards, and those that write all problems to one file."""
    outputs = (
        pipeline
        | 'Items' >> beam.Create(planned)
        | 'Spread' >> beam.Reshuffle()
        | 'Convert'
        >> beam.ParDo(_Convert(source, classes, options)).with_outputs(
            _LEFT_OUT, _PROBLEMS, main='records'
        )
    )
    left_out = beam.pvalue.AsSingleton(
        outputs[_LEFT_OUT] | 'All left out' >> beam.combiners.ToList() | beam.Map(_group_by_part)
    )
    _ = (
        outputs['records']
        | 'Rank' >> beam.Map(_rank, left_out, options.num_shards)
        | 'Shards' >> beam.GroupByKey()
        | 'Write' >> beam.Map(_write, shards)
    )
    _ = (
        outputs[_PROBLEMS]
        | 'One file' >> beam.Map(lambda problem: (None, problem))
        | 'Gather' >> beam.GroupByKey()
        | 'Report' >> beam.Map(lambda pair: runs.write_json(report, list(pair[1])))
    )


class _Convert(beam.DoFn):
    """Step from items to records; tagged outputs have items without a record, and problems."""

    def __init__(self, source: Source, classes: LabelMap, options: Options):
        self._arguments = source, classes, options
        self._converter: Optional[conversion.Converter] = None

    def setup(self) -> None:
        self._converter = conversion.Converter(*self._arguments)

    def process(self, planned: _Planned) -> Iterator[Any]:
        assert self._converter is not None
        outcome = self._converter.convert(planned.item)
        problems = conversion.list_problems(outcome, planned.item)
        if outcome.record is None:
            yield beam.pvalue.TaggedOutput(_LEFT_OUT, planned.place)
        else:
            yield planned.place, outcome.record
        if problems:
            part = planned.place[0] if outcome.record is None else None
            entry = (planned.position, part, problems)
            yield beam.pvalue.TaggedOutput(_PROBLEMS, entry)


def _group_by_part(left_out: Sequence[Place]) -> Dict[int, List[int]]:
    """Group places by their part, sorted."""
    places: Dict[int, List[int]] = {}
    for part, place in sorted(set(left_out)):
        places.setdefault(part, []).append(place)
    return places


def _rank(
    placed: Tuple[Place, bytes], left_out: Mapping[int, Sequence[int]], num_shards: int
) -> Tuple[Place, Tuple[int, bytes]]:
    """Return the shard of a record, and its rank; shards take the records of a part alternately."""
    (part, place), record = placed
    rank = place - bisect.bisect_left(left_out.get(part, ()), place)
    return (part, rank % num_shards), (rank, record)


def _write(group: Tuple[Place, Sequence[Tuple[int, bytes]]], shards: Dict[Place, str]) -> None:
    """Write a staged shard; a record that came twice is written once."""
    shard, ranked = group
    contents = dict(ranked)
    runs.write_records(shards[shard], [contents[rank] for rank in sorted(contents)])
