"""Fine-tuning: initial values from `train_config.fine_tune_checkpoint`."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors, graph_state
from estimator_lib.checkpoints import (
    checkpoint_maps,
    object_graphs,
    restore_report,
)
from estimator_lib.checkpoints.checkpoint_files import (
    checkpoint_shapes,
    latest_checkpoint,
    resolve_start,
)
from estimator_lib.checkpoints.class_match import ClassMatch
from estimator_lib.checkpoints.initial_values import init_feed_dict, load_values
from estimator_lib.checkpoints.restore_report import RestoreReport
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task_interfaces import weight_files
from protos import train_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

_LENIENT = 'ignore_missing_variables'

FindClasses = Callable[[str], Optional[ClassMatch]]


def fine_tune_report(
    train_config: train_pb2.TrainConfig,
    restore_map: Mapping[str, tf.Variable],
    last_layer_scopes: Sequence[str] = (),
    channels: int = 3,
    find_classes: FindClasses = lambda prefix: None,
) -> RestoreReport:
    """Compare the wanted variables with those of `train_config.fine_tune_checkpoint`.

    A variable with another shape in the checkpoint keeps its initial value, and the report lists it
    with both shapes. That is an error only if `ignore_missing_variables` is off. Even then it is
    allowed in the last layers, whose shapes depend on the classes. An object-based checkpoint must
    hold all wanted variables, also those of the last layers, unless `ignore_missing_variables` is
    set: this is the rule of the programs that write such checkpoints. A file of weights must have
    the shapes of the model but for the last layers, unless that field is set: its names do not
    tell networks of one family apart.

    Images with more than three channels: kernels of a network of three are restored too, and those
    of further channels start at zero. So the network computes what it did for the colors alone.

    Columns of classes are restored by the name of the class, whatever its index; those of a new
    class keep their initial value.

    Args:
        train_config: the checkpoint, and the variables that are excluded from it.
        restore_map: the wanted variables by their names in the checkpoint.
        last_layer_scopes: name parts of the task's last layers.
        channels: of the images of the model.
        find_classes: returns the classes in a checkpoint; None: they are those of the model.

    Raises:
        errors.CheckpointError: the checkpoint does not exist; no variable fits; or some variable
            does not fit, and `ignore_missing_variables` is off.
    """
    field = checkpoint_maps.FIELD
    prefix = resolve_start(train_config.fine_tune_checkpoint, field)
    weights = weight_files.open_weights(prefix)
    shapes = checkpoint_shapes(prefix)
    restore_map = _renamed(restore_map, train_config.checkpoint_names)
    # Every name starts with the empty text. `startswith` takes a tuple, as in TF-Slim's
    # `checkpoint_exclude_scopes`, whose scopes need not end at a slash.
    included = tuple(train_config.checkpoint_include_scopes) or ('',)
    scopes = tuple(train_config.checkpoint_exclude_scopes)
    parts = () if train_config.initialize_last_layer else tuple(last_layer_scopes)
    _require_used_scopes(included, restore_map)

    def excluded(name: str) -> bool:
        is_out = not name.startswith(included) or name.startswith(scopes)
        return is_out or any(part in name for part in parts)

    kinds = graph_state.companions_by_kind(tf1.get_default_graph())
    classes = find_classes(prefix)
    columns = classes.columns(shapes, restore_map) if classes else {}
    report = restore_report.match(
        shapes,
        restore_map,
        prefix,
        excluded,
        companions=kinds,
        channels=channels,
        columns=columns,
    )
    notes = [weights.description()] if weights is not None else []
    notes += [classes.note] if classes and report.columns else []
    report = dataclasses.replace(report, note='\n'.join(notes))
    _warn_of_idle_scopes(scopes, [entry.name for entry in report.excluded], restore_map)
    if not report.loaded:
        raise errors.CheckpointError(f'{field}: {_nothing_matched(report, shapes)}')
    least = train_config.min_restored_fraction
    if report.restored_fraction < least:
        raise errors.CheckpointError(
            f'{field}: {report.restored_fraction:.1%} of the wanted parameters are in {prefix} in '
            f'their shape; expected at least {least:.1%} (train_config.min_restored_fraction).'
            f'{restore_report.averages_hint(report, shapes)}\n{report.table()}'
        )
    # `HasField`, as the default of the field is lenient: only a user who has set it means it here.
    if object_graphs.is_object_based(shapes) and not train_config.HasField(_LENIENT):
        _require_complete(report, field, (), 'it is an object-based checkpoint')
    elif not train_config.ignore_missing_variables:
        _require_complete(report, field, last_layer_scopes, f'train_config.{_LENIENT} is off')
    elif weights is not None and not train_config.HasField(_LENIENT):
        _require_shapes(report, field, last_layer_scopes)
    return report


def fine_tune_start(
    train_config: train_pb2.TrainConfig,
    restore_map: Mapping[str, tf.Variable],
    last_layer_scopes: Sequence[str] = (),
    model_dir: Optional[str] = None,
    channels: int = 3,
    find_classes: FindClasses = lambda prefix: None,
) -> Dict[str, Any]:
    """Return arguments of a `Scaffold` that start a run from `fine_tune_checkpoint`.

    Call it after the whole graph is built. Then moving averages also start from the restored
    values; otherwise they would start from random ones.

    Args:
        train_config: as in `fine_tune_report`.
        restore_map: as in `fine_tune_report`.
        last_layer_scopes: as in `fine_tune_report`.
        model_dir: the folder of the run. If it holds a checkpoint, the run resumes from that one.
        channels: as in `fine_tune_report`.
        find_classes: as in `fine_tune_report`.

    Returns:
        `init_fn` and, if possible, `init_feed_dict`. Empty if there is nothing to restore: the
        config names no checkpoint, the run resumes, or this is not the first of several replicas
        in one graph, whose `init_fn` sets the variables of all.

    Raises:
        errors.CheckpointError: see `fine_tune_report`.
    """
    if not train_config.fine_tune_checkpoint or graph_state.replica_index():
        return {}
    resumed = latest_checkpoint(model_dir) if model_dir else None
    if resumed is not None:
        log.info('resuming from %s; fine_tune_checkpoint is not read', resumed)
        return {}
    report = fine_tune_report(train_config, restore_map, last_layer_scopes, channels, find_classes)
    restore_map = _renamed(restore_map, train_config.checkpoint_names)
    log.log(logging.INFO if report.is_complete else logging.WARNING, '%s', report.table())
    for entry in report.loaded:
        if entry.shape != entry.checkpoint_shape and entry.checkpoint_name not in report.columns:
            text = '%s: the weights of channels beside the three of the checkpoint start at zero'
            log.info(text, entry.name)
    wanted = {entry.checkpoint_name: restore_map[entry.checkpoint_name] for entry in report.loaded}
    # Columns of new classes keep the values that the init op gives them, so it comes first.
    by_class = {name: wanted.pop(name) for name in report.columns}
    # A strategy's Scaffold takes no init_feed_dict.
    fed = {} if tf.distribute.has_strategy() else init_feed_dict(report.source, wanted)

    def init_fn(scaffold: tf1.train.Scaffold, session: tf1.Session) -> None:
        del scaffold
        if fed:
            # The values are set now. A second session before the first save reads the file.
            fed.clear()
        else:
            load_values(session, report.source, wanted, with_moving_averages=True)
        if by_class:
            load_values(
                session, report.source, by_class, with_moving_averages=True, columns=report.columns
            )

    start: Dict[str, Any] = {'init_fn': tf.autograph.experimental.do_not_convert(init_fn)}
    return {**start, 'init_feed_dict': fed} if fed else start


def _renamed(
    restore_map: Mapping[str, tf.Variable], names: Sequence[train_pb2.CheckpointName]
) -> Dict[str, tf.Variable]:
    """Replace names in the checkpoint by those of `checkpoint_names`.

    Raises:
        errors.ConfigError: an entry matches no variable, or two variables get one name.
    """
    field = 'train_config.checkpoint_names'
    used = set()

    def other_name(variable: tf.Variable, name: str) -> str:
        for index, item in enumerate(names):
            start, star, end = item.variable.partition('*')
            own = variable_name(variable)
            if own == item.variable:
                used.add(index)
                return item.name
            # The slice keeps start and end from sharing characters: `a*a` does not match `a`.
            if star and own.startswith(start) and own[len(start) :].endswith(end):
                used.add(index)
                return item.name.replace('*', own[len(start) : len(own) - len(end)])
        return name

    renamed: Dict[str, tf.Variable] = {}
    for name, variable in restore_map.items():
        new = other_name(variable, name)
        if new in renamed:
            both = variable_name(renamed[new]), variable_name(variable)
            raise errors.ConfigError(f'{field}: {both[0]} and {both[1]} are both called {new!r}.')
        renamed[new] = variable
    for index, item in enumerate(names):
        if index not in used:
            known = [variable_name(each) for each in restore_map.values()]
            raise errors.ConfigError(
                f'{field}[{index}]: nothing that would be restored is called {item.variable!r}'
                f'{errors.did_you_mean(item.variable, known)}'
            )
    return renamed


def _require_used_scopes(scopes: Sequence[str], restore_map: Mapping[str, tf.Variable]) -> None:
    names = [variable_name(variable) for variable in restore_map.values()]
    for scope in scopes:
        if not any(name.startswith(scope) for name in names):
            raise errors.ConfigError(
                'train_config.checkpoint_include_scopes: nothing that would be restored starts '
                f'with {scope!r}{errors.did_you_mean(scope, {n.rpartition("/")[0] for n in names})}'
            )


def _warn_of_idle_scopes(
    scopes: Sequence[str], excluded: Sequence[str], restore_map: Mapping[str, tf.Variable]
) -> None:
    names = map(variable_name, restore_map.values())
    known = {name.rpartition('/')[0] for name in names}
    for scope in scopes:
        if not any(name.startswith(scope) for name in excluded):
            log.warning(
                'train_config.checkpoint_exclude_scopes: nothing that would be restored starts '
                'with %r%s',
                scope,
                errors.did_you_mean(scope, known),
            )


def _require_complete(
    report: RestoreReport, field: str, last_layer_scopes: Sequence[str], reason: str
) -> None:
    refused = report.missing + _outside(last_layer_scopes, report.mismatched)
    if refused:
        raise errors.CheckpointError(
            f'{field}: {len(refused)} variables of the model are missing in {report.source} or of '
            f'another shape there, and {reason}; train_config.{_LENIENT}: true lets them keep '
            'their initial values.\n'
            f'{report.table()}'
        )


def _require_shapes(report: RestoreReport, field: str, last_layer_scopes: Sequence[str]) -> None:
    """Refuse weights of another size of the network, which have the same names."""
    refused = _outside(last_layer_scopes, report.mismatched)
    if refused:
        first = refused[0]
        raise errors.CheckpointError(
            f'{field}: {report.source} is of another network: {len(refused)} variables have '
            f'other shapes than in the model, as {first.name}, {list(first.checkpoint_shape)} '
            f'there and {list(first.shape)} in the model; train_config.{_LENIENT}: true lets such '
            'variables keep their initial values.'
        )


def _outside(
    scopes: Sequence[str], entries: Sequence[restore_report.Entry]
) -> Tuple[restore_report.Entry, ...]:
    """Return the entries whose names have none of these parts."""
    return tuple(entry for entry in entries if not any(part in entry.name for part in scopes))


def _nothing_matched(report: RestoreReport, shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the error message for a checkpoint without any variable that fits."""
    wanted = [entry.checkpoint_name for entry in report.missing + report.mismatched]
    if not wanted:
        return (
            f'nothing is left to restore from {report.source}: all {len(report.excluded)} '
            'variables are excluded (checkpoint_exclude_scopes, initialize_last_layer).'
        )
    held = [name for name in sorted(shapes) if not restore_report.is_of_the_run(name, shapes)]
    lines = [
        f'nothing in {report.source} fits the model.{object_graphs.hint(shapes)}'
        f'{restore_report.averages_hint(report, shapes)}',
        f'  looked for: {errors.shortened(wanted, 3)}',
        f'  it holds:   {errors.shortened(held or sorted(shapes), 3)}',
    ]
    if object_graphs.is_object_based(shapes):
        roots = sorted({name.partition('/')[0] for name in held})
        lines.append(
            f'  its objects begin with: {", ".join(roots)}; '
            'is train_config.fine_tune_checkpoint_type right?'
        )
    prefixes = restore_report.common_prefixes(wanted, held)
    if prefixes is not None:
        off, on, count = prefixes
        lines.append(
            f'  {count} of the {len(wanted)} names are there with {on!r} in place of {off!r} at '
            'their start: is train_config.fine_tune_checkpoint_type right?'
        )
    return '\n'.join(lines)
