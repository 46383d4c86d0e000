"""Comparing a checkpoint with a model: what fits, what does not, as one readable table.

Nothing here opens a file or builds a graph: names and shapes go in, a report comes out.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
import types
from typing import Callable, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.checkpoints.checkpoint_files import READER_SCOPE
from estimator_lib.optimization import loss_scale, partitioned

Shape = Tuple[int, ...]

MAX_ROWS = 20

# Variables that a training run keeps beside those of the model. TensorFlow names an optimizer's
# slot after the variable that it belongs to, with the optimizer's name as the last part.
_OF_THE_RUN = re.compile(
    r'(^|.*/)(global_step|beta[12]_power|_CHECKPOINTABLE_OBJECT_GRAPH|save_counter'
    r'|input_reader/.*'
    r'|.*/(Adadelta|Adagrad|Adam|Ftrl|Momentum|RMSProp|ExponentialMovingAverage)(_\d+)?)$'
    # In object-based checkpoints.
    r'|.*/\.OPTIMIZER_SLOT/|(step|save_counter|optimizer/.*)/\.ATTRIBUTES/'
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A variable of the model, of the checkpoint, or of both.

    Attributes:
        name: in the model; for what only the checkpoint has, there.
        shape: in the same place as `name`.
        checkpoint_name: what it is called in the checkpoint.
        checkpoint_shape: its shape there; None where it is not there.
    """

    name: str
    shape: Shape
    checkpoint_name: str = ''
    checkpoint_shape: Optional[Shape] = None

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """Report of a restore: its effect on each variable, and the rest of the checkpoint.

    Attributes:
        source: the checkpoint.
        loaded: set from the checkpoint.
        missing: wanted, and not in the checkpoint.
        mismatched: wanted, and of another shape there.
        excluded: not wanted by the user's choice.
        unused: in the checkpoint, wanted by no variable.
        fresh: the number of companion variables that are not in the checkpoint and keep their
            initial values, by their kind; see `graph_state.add_companion`.
    """

    source: str
    loaded: Tuple[Entry, ...] = ()
    missing: Tuple[Entry, ...] = ()
    mismatched: Tuple[Entry, ...] = ()
    excluded: Tuple[Entry, ...] = ()
    unused: Tuple[Entry, ...] = ()
    fresh: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Return True where every wanted variable was loaded."""
        return not self.missing and not self.mismatched

    def only(self, chosen: Callable[[str], bool]) -> RestoreReport:
        """Return the same of some variables alone, chosen by their names."""
        groups = {
            name: tuple(entry for entry in getattr(self, name) if chosen(entry.name))
            for name in _TITLES
        }
        return dataclasses.replace(self, **groups)

    @property
    def restored_fraction(self) -> float:
        """Return the part of the wanted parameters that was loaded, in [0, 1]."""
        loaded = sum(entry.parameters for entry in self.loaded)
        lost = sum(entry.parameters for entry in self.missing + self.mismatched)
        return loaded / max(1, loaded + lost)

    def table(self, max_rows: int = MAX_ROWS) -> str:
        """Totals, then the names in each group that was not loaded, at most `max_rows` of each."""
        totals = [('', 'variables', 'parameters')]
        totals += [(title, *_totals(getattr(self, name))) for name, title in _TITLES.items()]
        lines = [f'Restore from {self.source}', *_aligned(totals, right=(1, 2))]
        lines += [f'{count} {kind} start fresh' for kind, count in self.fresh.items()]
        return '\n'.join([*lines, self.sections(max_rows)]).rstrip()

    def sections(self, max_rows: int = MAX_ROWS) -> str:
        """Return the names in each group that was not loaded, at most `max_rows` of each."""
        lines: List[str] = []
        for name, title in list(_TITLES.items())[1:]:
            lines += _section(title, getattr(self, name), max_rows)
        return '\n'.join(lines)


_TITLES = {
    'loaded': 'loaded',
    'missing': 'missing in the checkpoint',
    'mismatched': 'of another shape',
    'excluded': 'excluded',
    'unused': 'unused in the checkpoint',
}


def is_of_the_run(name: str, known: Iterable[str] = ()) -> bool:
    """Return True for a variable of a training run that is not one of the model.

    Args:
        name: of the variable, without `:0`.
        known: all names beside it (a set or dict): what is named below another variable is a slot
            of it, whatever the optimizer is called.
    """
    of_step = bool(_OF_THE_RUN.match(name)) or loss_scale.is_of_loss_scale(name)
    return of_step or name.rpartition('/')[0] in known


def may_start_fresh(name: str) -> bool:
    """Return True for a reader's position and the loss scale, which a checkpoint may lack."""
    return name.startswith(f'{READER_SCOPE}/') or loss_scale.is_of_loss_scale(name)


def match(
    shapes: Mapping[str, Sequence[int]],
    restore_map: Mapping[str, tf.Variable],
    source: str = '',
    excluded: Callable[[str], bool] = lambda name: False,
    list_run: bool = False,
    companions: Mapping[str, Collection[str]] = types.MappingProxyType({}),
) -> RestoreReport:
    """Sort variables by whether a checkpoint can set them.

    Args:
        shapes: shape by name, of all that the checkpoint holds.
        restore_map: the wanted variables by their name in the checkpoint.
        source: what the checkpoint is called in the report.
        excluded: whether a variable, by its name in the model, keeps its initial value.
        list_run: list as unused also what belongs to the run that wrote the checkpoint: optimizer
            slots, moving averages, the global step.
        companions: names of variables that the checkpoint need not have, by what they are called.

    Returns:
        The report; each variable of `restore_map` is in exactly one of `loaded`, `missing`,
        `mismatched` and `excluded`, or counted in `fresh`.
    """
    kinds = {name: kind for kind, names in companions.items() for name in names}
    fresh: Dict[str, int] = collections.Counter()
    groups: Dict[str, List[Entry]] = collections.defaultdict(list)
    for checkpoint_name, variable in restore_map.items():
        found = shapes.get(checkpoint_name)
        entry = Entry(
            partitioned.variable_name(variable),
            tuple(variable.shape.as_list()),
            checkpoint_name,
            None if found is None else tuple(found),
        )
        group = _choose_group(entry, excluded)
        if group == 'missing' and entry.name in kinds:
            fresh[kinds[entry.name]] += 1
        else:
            groups[group].append(entry)
    groups['unused'] = [
        Entry(name, tuple(shape), name, tuple(shape))
        for name, shape in sorted(shapes.items())
        if name not in restore_map and (list_run or not is_of_the_run(name, shapes))
    ]
    entries = {name: tuple(found) for name, found in groups.items()}
    return RestoreReport(source, **entries, fresh=dict(fresh))


def differences(
    shapes: Mapping[str, Sequence[int]], variables: Mapping[str, tf.Variable]
) -> Tuple[RestoreReport, RestoreReport]:
    """Compare a checkpoint with a graph that is to resume from it.

    Args:
        shapes: shape by name, of all that the checkpoint holds.
        variables: the graph's, by their name in the checkpoint.

    Returns:
        The report on the model, and that on the rest: optimizer slots, moving averages, steps.
    """
    known = shapes.keys() | variables.keys()
    report = match(shapes, variables, list_run=True)
    return (
        report.only(lambda name: not is_of_the_run(name, known)),
        report.only(lambda name: is_of_the_run(name, known)),
    )


def common_prefixes(wanted: Iterable[str], found: Iterable[str]) -> Optional[Tuple[str, str, int]]:
    """Return the prefixes by which most wanted names differ from names that are there.

    For wanted `Net/conv/weights` and found `Extractor/Net/conv/weights`: `('', 'Extractor/', 1)`.

    Args:
        wanted: names that were looked for.
        found: names that are there.

    Returns:
        The prefix to take off a wanted name, the one to put before it instead, and how many wanted
        names are then found. None when no name agrees in its last two parts.
    """
    by_tail: Dict[str, List[str]] = collections.defaultdict(list)
    for name in found:
        by_tail[_tail(name)].append(name)
    votes: Dict[Tuple[str, str], int] = collections.Counter()
    for name in wanted:
        if '/' in name:
            votes.update({_prefixes(name, other) for other in by_tail.get(_tail(name), ())})
    if not votes:
        return None
    (off, on), count = max(votes.items(), key=lambda vote: (vote[1], -len(vote[0][0])))
    return off, on, count


def averages_hint(report: RestoreReport, shapes: Mapping[str, Sequence[int]]) -> str:
    """Return advice on a checkpoint that has averages in place of the missing variables.

    Args:
        report: of the restore.
        shapes: shape by name, of all that the checkpoint holds.

    Returns:
        A sentence; empty where the checkpoint has no such averages.
    """
    ending = f'/{partitioned.MOVING_AVERAGE}'
    count = sum(entry.checkpoint_name + ending in shapes for entry in report.missing)
    if not count:
        return ''
    return (
        f' It holds the moving averages ({ending}) of {count} of them without the variables: '
        'evaluate and export with eval_config.use_moving_averages: true; fine-tune with '
        f"train_config.checkpoint_names {{ variable: '*' name: '*{ending}' }}."
    )


def _choose_group(entry: Entry, excluded: Callable[[str], bool]) -> str:
    if excluded(entry.name):
        return 'excluded'
    if entry.checkpoint_shape is None:
        return 'missing'
    return 'loaded' if entry.checkpoint_shape == entry.shape else 'mismatched'


def _tail(name: str) -> str:
    return '/'.join(name.split('/')[-2:])


def _prefixes(wanted: str, found: str) -> Tuple[str, str]:
    """Return what remains of two names before the longest part that ends both."""
    ours, theirs = wanted.split('/'), found.split('/')
    while ours and theirs and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    return ''.join(part + '/' for part in ours), ''.join(part + '/' for part in theirs)


def _totals(entries: Sequence[Entry]) -> Tuple[str, str]:
    return f'{len(entries):,}', f'{sum(entry.parameters for entry in entries):,}'


def _section(title: str, entries: Sequence[Entry], max_rows: int) -> List[str]:
    """Return a heading and a row for each entry; nothing when there are none."""
    if not entries:
        return []
    variables, parameters = _totals(entries)
    rows = [_row(entry) for entry in entries[:max_rows]]
    lines = [f'{title} ({variables} variables, {parameters} parameters):', *_aligned(rows)]
    if len(entries) > max_rows:
        lines.append(f'  +{len(entries) - max_rows} more')
    return lines


def _row(entry: Entry) -> Tuple[str, ...]:
    renamed = entry.checkpoint_name not in ('', entry.name)
    name = f'{entry.name} (as {entry.checkpoint_name})' if renamed else entry.name
    if entry.checkpoint_shape not in (None, entry.shape):
        return name, f'model {list(entry.shape)}', f'checkpoint {list(entry.checkpoint_shape)}'
    return name, str(list(entry.shape)), ''


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> List[str]:
    """Return rows as lines with columns of one width, two spaces in."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        '  '
        + '  '.join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
