"""The converter as a Beam pipeline: the records of `datasets.conversion`, in the same shards.

Which shard a record goes to, and where in it, depends on how many images before it can be used.
What cannot be used is little: it goes to all workers as a side input, and each then knows the rank
of each record that it has made.
"""

from __future__ import annotations

import bisect
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import apache_beam as beam

from model_fns.datasets import conversion, records
from model_fns.datasets.beam import runs
from model_fns.datasets.conversion import Options
from model_fns.datasets.sources import Item, Problem, Source
from model_fns.structures.label_map import LabelMap

_LEFT_OUT, _PROBLEMS = 'left_out', 'problems'

Place = Tuple[int, int]  # a part of the split, and a place in it


class _Planned(NamedTuple):
    """An item, and where it belongs.

    Attributes:
        position: among all items.
        place: part, and how many items of the part are before it.
        item: what is converted.
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
    """See `datasets.conversion.convert`, whose files these are, byte by byte.

    Files get their names when all are complete; a pipeline that is run again writes them anew.

    Args:
        source: the data set; its files, the label map and the shards are where all workers find
            them.
        label_map_path: see there.
        output_prefix: see there.
        options: see there; how many processes there are is the runner's to say.
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
        for path in shards.values():  # those that no record goes to stay so
            runs.write_records(path, [])
        with runs.pipeline(runner) as pipeline:
            _build(pipeline, planned, source, plan.classes, options, shards, report)
        said = sorted(runs.read_json(report))
        found = [Problem(*one) for _, _, of_item in said for one in of_item]
        problems = [*plan.problems, *found]
        counts = {prefix: plan.parts.count(part) for part, prefix in enumerate(plan.prefixes)}
        for _, part, _ in said:
            if part is not None:
                counts[plan.prefixes[part]] -= 1
        conversion.check_outcome(problems, counts, options)
        conversion.write_label_map(plan, label_map_path)
        files.publish()
    finally:
        for staged in (files, left):
            staged.clear()
    conversion.log_outcome(plan, problems)
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
    """The pipeline: items to records, to shards; and what is wrong, to one file."""
    made = (
        pipeline
        | 'Items' >> beam.Create(planned)
        | 'Spread' >> beam.Reshuffle()
        | 'Convert'
        >> beam.ParDo(_Convert(source, classes, options)).with_outputs(
            _LEFT_OUT, _PROBLEMS, main='records'
        )
    )
    left_out = beam.pvalue.AsSingleton(
        made[_LEFT_OUT] | 'All left out' >> beam.combiners.ToList() | beam.Map(_by_part)
    )
    _ = (
        made['records']
        | 'Rank' >> beam.Map(_ranked, left_out, options.num_shards)
        | 'Shards' >> beam.GroupByKey()
        | 'Write' >> beam.Map(_write, shards)
    )
    _ = (
        made[_PROBLEMS]
        | 'One file' >> beam.Map(lambda problem: (None, problem))
        | 'Gather' >> beam.GroupByKey()
        | 'Report' >> beam.Map(lambda pair: runs.write_json(report, list(pair[1])))
    )


class _Convert(beam.DoFn):
    """Items to records; those without one, and all problems, as outputs of their own."""

    def __init__(self, source: Source, classes: LabelMap, options: Options):
        self._arguments = source, classes, options
        self._converter: Optional[conversion.Converter] = None

    def setup(self) -> None:
        self._converter = conversion.Converter(*self._arguments)

    def process(self, planned: _Planned) -> Iterator[Any]:
        assert self._converter is not None
        outcome = self._converter.convert(planned.item)
        found = conversion.problems_of(outcome, planned.item)
        if outcome.record is None:
            yield beam.pvalue.TaggedOutput(_LEFT_OUT, planned.place)
        else:
            yield planned.place, outcome.record
        if found:
            part = planned.place[0] if outcome.record is None else None
            problem = (planned.position, part, found)
            yield beam.pvalue.TaggedOutput(_PROBLEMS, problem)


def _by_part(left_out: Sequence[Place]) -> Dict[int, List[int]]:
    """Places by their part, sorted."""
    places: Dict[int, List[int]] = {}
    for part, place in sorted(set(left_out)):
        places.setdefault(part, []).append(place)
    return places


def _ranked(
    made: Tuple[Place, bytes], left_out: Mapping[int, Sequence[int]], num_shards: int
) -> Tuple[Place, Tuple[int, bytes]]:
    """A record by its shard, with its rank: shards take the records of their part in turn."""
    (part, place), record = made
    rank = place - bisect.bisect_left(left_out.get(part, ()), place)
    return (part, rank % num_shards), (rank, record)


def _write(group: Tuple[Place, Sequence[Tuple[int, bytes]]], shards: Dict[Place, str]) -> None:
    """Stages a shard. Of a record that came twice, one stays."""
    shard, ranked = group
    contents = dict(ranked)
    runs.write_records(shards[shard], [contents[rank] for rank in sorted(contents)])
