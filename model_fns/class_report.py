"""Report of `--mode=check` on the classes of examples: histograms, warnings and class weights."""

from __future__ import annotations

import collections
import math
from typing import Callable, Counter, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from estimator_lib import errors, texts
from estimator_lib.task import DataReport
from model_fns.datasets.meaning.annotated import Annotated

# Number of objects, images or pixels of a record, by class id.
Counts = Mapping[int, int]

_MOST_SHOWN = 30  # classes of a histogram
_MOST_NAMED = 10  # classes of a warning
_TRAINING = 'train_input_reader'
_UNEVEN = 10  # ratio of the largest count to the smallest from which class weights are shown
_BETA = 0.999  # of the effective number of samples


class Record(NamedTuple):
    """What is kept of a record, for reports of the data.

    Attributes:
        counts: number of images or pixels by class id.
        annotated: what the record says, for checks of all records together.
    """

    counts: Counts
    annotated: Annotated


def class_report(
    readers: Mapping[str, Sequence[Counts]], names: Mapping[int, str], unit: str
) -> DataReport:
    """Report the histogram of the classes of each reader, and the classes without examples.

    Args:
        readers: the counts of each record, by reader.
        names: of the expected classes; training ignores other classes.
        unit: of the counts: `objects`, `pixels`; `images` where each record is one.
    """
    lines: List[str] = []
    seen: Dict[str, Counter[int]] = {}
    for reader, records in readers.items():
        if not records:
            continue
        totals: Counter[int] = collections.Counter()
        images: Counter[int] = collections.Counter()
        for counts in records:
            totals.update(counts)
            images.update(class_id for class_id, count in counts.items() if count)
        seen[reader] = images
        lines += [f'{reader}: classes', *_histogram(totals, images, len(records), names, unit)]
        if reader == _TRAINING and unit != 'pixels':
            lines += _weights([totals[class_id] for class_id in sorted(names)])
    empty = {
        reader: f'{reader}: there are no {unit} of any of the {len(names)} classes'
        for reader, images in seen.items()
        if names and not any(images[class_id] for class_id in names)
    }
    problems = [empty.pop(_TRAINING)] if _TRAINING in empty else []
    return DataReport(lines, [*empty.values(), *_missing(seen, names)], problems)


def labeled_report(
    readers: Mapping[str, Sequence[Tuple[Annotated, Counts]]],
    names: Mapping[int, str],
    id_of_name: Callable[[str], int],
) -> DataReport:
    """Report, for images of which not all classes were looked for, what is known of each class.

    Args:
        readers: each record with its counts, by reader.
        names: of the classes by id.
        id_of_name: returns the id of a class by one of its names.
    """
    lines: List[str] = []
    warnings: List[str] = []
    for reader, records in readers.items():
        groups: Dict[Tuple[str, ...], List[Counts]] = collections.defaultdict(list)
        for annotated, counts in records:
            groups[annotated.looked_for].append(counts)
        for looked_for, images in groups.items() if any(groups) else ():
            totals: Counter[int] = collections.Counter()
            for counts in images:
                totals.update(counts)
            known = {id_of_name(name) for name in looked_for} or set(names)
            said = ', '.join(looked_for) or 'all classes'
            lines.append(f'{reader}: {texts.counted(len(images), "image")}, looked for: {said}')
            states = [
                (name, f'{totals[key]:,}' if totals[key] or key in known else 'not looked for')
                for key, name in names.items()
            ]
            lines += [f'  {name}: {state}' for name, state in states]
            extra = [names[key] for key in sorted(names.keys() - known) if totals[key]]
            if extra:
                warnings.append(
                    f'{reader}.labeled_classes names {said}, and the images have labels of '
                    f'{errors.shortened(extra, _MOST_NAMED)}, too'
                )
    return DataReport(lines, warnings)


def inverse_frequency(counts: Sequence[int]) -> List[float]:
    """Compute class weights: `N / (C n_c)`, with n_c of N examples in class c of C.

    Args:
        counts: n_c, at least 1.
    """
    return [sum(counts) / (len(counts) * count) for count in counts]


def effective_number(counts: Sequence[int], beta: float = _BETA) -> List[float]:
    """Compute class weights `(1 - beta) / (1 - beta ** n_c)`, scaled to a mean of 1.

    The denominator over (1 - beta) is the effective number of n_c samples (Cui et al. 2019,
    "Class-Balanced Loss Based on Effective Number of Samples", section 3.2).

    Args:
        counts: n_c, at least 1.
        beta: in [0, 1): 0: all classes have the same weight; towards 1: inverse frequencies.
    """
    weights = [(1.0 - beta) / (1.0 - beta**count) for count in counts]
    # A mean of 1 keeps the size of the loss, and with it the learning rate.
    return [weight * len(weights) / math.fsum(weights) for weight in weights]


def _weights(counts: Sequence[int]) -> List[str]:
    """Describe class weights in the order of the ids, where classes are uneven."""
    if not counts or len(counts) > _MOST_SHOWN or min(counts) == 0:
        return []
    if max(counts) < _UNEVEN * min(counts):
        return []
    kinds = {
        'inverse frequency': inverse_frequency(counts),
        f'effective number, beta {_BETA}': effective_number(counts),
    }
    return [
        f'  class_weights: [{", ".join(f"{weight:.3g}" for weight in weights)}]  ({kind})'
        for kind, weights in kinds.items()
    ]


def _histogram(
    totals: Counter[int], images: Counter[int], count: int, names: Mapping[int, str], unit: str
) -> List[str]:
    rows = sorted(images, key=lambda class_id: (-totals[class_id], class_id))
    width = max((len(_name(class_id, names)) for class_id in rows), default=0)
    whole = max(sum(totals.values()), 1)
    lines = []
    for class_id in rows:
        share = f'{totals[class_id]:>13,} {unit} {totals[class_id] / whole:>6.1%}'
        line = f'  {_name(class_id, names):<{width}}{share}'
        if unit != 'images':
            line += f'  in {images[class_id]:,} of {count:,} images'
        lines.append(line)
    hidden = len(lines) - _MOST_SHOWN
    if hidden > 0:
        half = _MOST_SHOWN // 2
        lines[half:-half] = [f'  ... {hidden} classes between these']
    return lines


def _missing(seen: Mapping[str, Counter[int]], names: Mapping[int, str]) -> List[str]:
    """List the classes without examples, or with examples in one split alone, in sentences."""
    trained = set(seen.get(_TRAINING, ()))
    evaluated = {class_id for reader in seen if reader != _TRAINING for class_id in seen[reader]}
    classes = list(names)
    checks: List[Tuple[str, List[int]]] = []
    if seen:
        absent = [index for index in classes if index not in trained | evaluated]
        checks.append(('there is no example of', absent))
    if _TRAINING in seen and len(seen) > 1:
        untrained = [index for index in classes if index in evaluated - trained]
        checks.append(('evaluation has examples of, and training has none of', untrained))
        untested = [index for index in classes if index in trained - evaluated]
        checks.append(('training has examples of, and evaluation has none of', untested))
    return [
        f'{text} {len(missing)} of {len(classes)} classes: '
        f'{errors.shortened([_name(index, names) for index in missing], _MOST_NAMED)}'
        for text, missing in checks
        if missing
    ]


def _name(class_id: int, names: Mapping[int, str]) -> str:
    return f'{class_id} {names.get(class_id, "(ignored)")}'
