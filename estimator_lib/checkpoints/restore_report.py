"""Comparison of a checkpoint with a model, as one readable table.

Nothing in this module opens a file or builds a graph: it compares names and shapes.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
import types
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import tensorflow as tf

from estimator_lib.checkpoints.checkpoint_files import READER_SCOPE
from estimator_lib.optimization import loss_scale, partitioned

Shape = Tuple[int, ...]

MAX_ROWS = 20
_COLORS = 3  # channels of the images that published networks are trained on

# Variables of a training run that are not variables of the model. TensorFlow names an optimizer
# slot after its variable, with the name of the optimizer as the last part.
_OF_THE_RUN = re.compile(
    # `beta1_power` and `beta2_power` belong to Adam as a whole, and not to a variable;
    # `save_counter` is of `tf.train.Checkpoint`.
    r'(^|.*/)(global_step|beta[12]_power|_CHECKPOINTABLE_OBJECT_GRAPH|save_counter'
    r'|input_reader/.*'
    r'|.*/(Adadelta|Adagrad|Adam|Ftrl|Momentum|RMSProp|ExponentialMovingAverage)(_\d+)?)$'
    # In object-based checkpoints.
    r'|.*/\.OPTIMIZER_SLOT/|(step|save_counter|optimizer/.*)/\.ATTRIBUTES/'
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """Variable of the model, of the checkpoint, or of both.

    Attributes:
        name: its name in the model, or in the checkpoint if only the checkpoint has it.
        shape: its shape there.
        checkpoint_name: its name in the checkpoint.
        checkpoint_shape: its shape in the checkpoint; None if the checkpoint does not have it.
    """

    name: str
    shape: Shape
    checkpoint_name: str = ''
    checkpoint_shape: Optional[Shape] = None

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """Report of a restore: its effect on each variable, and the rest of the checkpoint.

    Attributes:
        source: the checkpoint.
        loaded: restored from the checkpoint.
        missing: wanted, but not in the checkpoint.
        mismatched: wanted, but of another shape in the checkpoint.
        excluded: excluded by the user.
        unused: in the checkpoint, but not wanted.
        fresh: the number of companion variables, by their kind, that are not in the checkpoint and
            keep their initial values; see `graph_state.add_companion`.
        note: lines about the source; empty for none.
        columns: by the name in the checkpoint, `ClassAxis.sources` of loaded variables whose
            classes have other indices there.
    """

    source: str
    loaded: Tuple[Entry, ...] = ()
    missing: Tuple[Entry, ...] = ()
    mismatched: Tuple[Entry, ...] = ()
    excluded: Tuple[Entry, ...] = ()
    unused: Tuple[Entry, ...] = ()
    fresh: Mapping[str, int] = dataclasses.field(default_factory=dict)
    note: str = ''
    columns: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """True if every wanted variable was loaded."""
        return not self.missing and not self.mismatched

    def only(self, chosen: Callable[[str], bool]) -> RestoreReport:
        """Return a copy of the report, restricted to variables chosen by name."""
        groups: Dict[str, Any] = {
            name: tuple(entry for entry in getattr(self, name) if chosen(entry.name))
            for name in _TITLES
        }
        return dataclasses.replace(self, **groups)

    @property
    def restored_fraction(self) -> float:
        """Loaded part of the wanted parameters, in [0, 1]."""
        loaded = sum(entry.parameters for entry in self.loaded)
        lost = sum(entry.parameters for entry in self.missing + self.mismatched)
        return loaded / max(1, loaded + lost)

    def table(self, max_rows: int = MAX_ROWS) -> str:
        """Format the totals, then the names in each group that was not loaded, up to `max_rows`."""
        totals = [('', 'variables', 'parameters')]
        totals += [(title, *_totals(getattr(self, name))) for name, title in _TITLES.items()]
        heading = [f'Restore from {self.source}']
        heading += [f'  {note}' for note in self.note.splitlines()]
        lines = [*heading, *_aligned(totals, right=(1, 2))]
        lines += [f'{count} {kind} start fresh' for kind, count in self.fresh.items()]
        return '\n'.join([*lines, self.sections(max_rows)]).rstrip()

    def sections(self, max_rows: int = MAX_ROWS) -> str:
        """Format the names in each group that was not loaded, up to `max_rows` of each."""
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
    """Return True for a variable of a training run that is not a variable of the model.

    Args:
        name: the name of the variable, without `:0`.
        known: the names of all variables (a set or dict). A name below that of another variable is
            a slot of that variable, with any name of the optimizer.
    """
    of_step = bool(_OF_THE_RUN.match(name)) or loss_scale.is_of_loss_scale(name)
    # A slot is named `<variable>/<optimizer>`, whatever the program calls its optimizer.
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
    channels: int = _COLORS,
    columns: Mapping[str, Sequence[int]] = types.MappingProxyType({}),
) -> RestoreReport:
    """Compare wanted variables with a checkpoint, and group them by the result.

    Args:
        shapes: the shapes of all tensors of the checkpoint, by name.
        restore_map: the wanted variables by their names in the checkpoint.
        source: the name of the checkpoint in the report.
        excluded: returns whether a variable, by its name in the model, keeps its initial value.
        list_run: whether to list unused variables of the run that wrote the checkpoint: optimizer
            slots, moving averages, the global step.
        companions: names of variables that the checkpoint may lack, by their kind.
        channels: of the images; a checkpoint of three may be restored, see `is_widened`.
        columns: classes of the columns of each variable by name, as in `RestoreReport`; such
            variables may have another shape in the checkpoint.

    Returns:
        The report; each variable of `restore_map` is in exactly one of `loaded`, `missing`,
        `mismatched` and `excluded`, or counted in `fresh`.
    """
    kinds = {name: kind for kind, names in companions.items() for name in names}
    fresh: Dict[str, int] = collections.Counter()
    groups: Dict[str, List[Entry]] = collections.defaultdict(list)
    for checkpoint_name, variable in restore_map.items():
        shape = shapes.get(checkpoint_name)
        entry = Entry(
            partitioned.variable_name(variable),
            tuple(variable.shape.as_list()),
            checkpoint_name,
            None if shape is None else tuple(shape),
        )
        group = _choose_group(entry, excluded, channels, checkpoint_name in columns)
        if group == 'missing' and entry.name in kinds:
            fresh[kinds[entry.name]] += 1
        else:
            groups[group].append(entry)
    groups['unused'] = [
        Entry(name, tuple(shape), name, tuple(shape))
        for name, shape in sorted(shapes.items())
        if name not in restore_map and (list_run or not is_of_the_run(name, shapes))
    ]
    entries: Dict[str, Any] = {name: tuple(group) for name, group in groups.items()}
    taken = {entry.checkpoint_name for entry in entries.get('loaded', ())}
    moved = {name: sources for name, sources in columns.items() if name in taken}
    return RestoreReport(source, **entries, fresh=dict(fresh), columns=moved)


def differences(
    shapes: Mapping[str, Sequence[int]], variables: Mapping[str, tf.Variable]
) -> Tuple[RestoreReport, RestoreReport]:
    """Compare a checkpoint with a graph that resumes from it.

    Args:
        shapes: the shapes of all tensors of the checkpoint, by name.
        variables: the variables of the graph by their names in the checkpoint.

    Returns:
        The report on the model, and one on the rest: optimizer slots, moving averages, steps.
    """
    known = shapes.keys() | variables.keys()
    report = match(shapes, variables, list_run=True)
    return (
        report.only(lambda name: not is_of_the_run(name, known)),
        report.only(lambda name: is_of_the_run(name, known)),
    )


def common_prefixes(wanted: Iterable[str], held: Iterable[str]) -> Optional[Tuple[str, str, int]]:
    """Return the prefixes in which most wanted names differ from those of the checkpoint.

    For wanted `Net/conv/weights` and held `Extractor/Net/conv/weights`: `('', 'Extractor/', 1)`.

    Args:
        wanted: the wanted names.
        held: the names in the checkpoint.

    Returns:
        The prefix to remove from a wanted name, the prefix to add instead, and the number of wanted
        names that then match. None if no two names agree in their last two parts.
    """
    by_tail: Dict[str, List[str]] = collections.defaultdict(list)
    for name in held:
        by_tail[_tail(name)].append(name)
    votes: Dict[Tuple[str, str], int] = collections.Counter()
    for name in wanted:
        # A name without scopes has no prefix that could differ.
        if '/' in name:
            votes.update({_prefixes(name, other) for other in by_tail.get(_tail(name), ())})
    if not votes:
        return None
    # Of equal counts the shortest prefix to remove: the simpler explanation.
    (off, on), count = max(votes.items(), key=lambda vote: (vote[1], -len(vote[0][0])))
    return off, on, count


def averages_hint(report: RestoreReport, shapes: Mapping[str, Sequence[int]]) -> str:
    """Return advice for a checkpoint that has averages in place of the missing variables.

    Args:
        report: the report of the restore.
        shapes: the shapes of all tensors of the checkpoint, by name.

    Returns:
        A sentence; empty if the checkpoint has no such averages.
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


def is_widened(shape: Shape, checkpoint_shape: Shape, channels: int) -> bool:
    """Return True for kernels of the first layers of a network that takes more channels.

    Their number of inputs is that of the checkpoint times the number of channels over three.

    Args:
        shape: of the variable.
        checkpoint_shape: of the variable in the checkpoint.
        channels: of the images of the model.
    """
    if channels <= _COLORS or len(shape) != 4 or len(checkpoint_shape) != 4:
        return False
    same = shape[:2] == checkpoint_shape[:2] and shape[3] == checkpoint_shape[3]
    return same and shape[2] * _COLORS == checkpoint_shape[2] * channels


def _choose_group(
    entry: Entry, excluded: Callable[[str], bool], channels: int, by_class: bool
) -> str:
    if excluded(entry.name):
        return 'excluded'
    if entry.checkpoint_shape is None:
        return 'missing'
    fits = by_class or entry.checkpoint_shape == entry.shape
    if fits or is_widened(entry.shape, entry.checkpoint_shape, channels):
        return 'loaded'
    return 'mismatched'


def _tail(name: str) -> str:
    # The last part alone, `weights`, would match almost everything.
    return '/'.join(name.split('/')[-2:])


def _prefixes(wanted: str, held: str) -> Tuple[str, str]:
    """Return the prefixes of two names before their longest common ending."""
    ours, theirs = wanted.split('/'), held.split('/')
    while ours and theirs and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    return ''.join(part + '/' for part in ours), ''.join(part + '/' for part in theirs)


def _totals(entries: Sequence[Entry]) -> Tuple[str, str]:
    return f'{len(entries):,}', f'{sum(entry.parameters for entry in entries):,}'


def _section(title: str, entries: Sequence[Entry], max_rows: int) -> List[str]:
    """Format a heading and a row for each entry; nothing without entries."""
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
    """Format rows as indented lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        '  '
        + '  '.join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
