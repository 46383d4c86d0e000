"""The selection of trained variables by patterns and scopes of a config, and its log."""

from __future__ import annotations

import collections
import difflib
import logging
import re
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization.partitioned import whole_name

log = logging.getLogger('estimator_lib')


def select(
    variables: Sequence[tf.Variable],
    *,
    update_patterns: Sequence[str] = (),
    freeze_patterns: Sequence[str] = (),
    trainable_scopes: Sequence[str] = (),
) -> List[tf.Variable]:
    """Select the variables to train, and log the matches of each pattern and scope.

    Args:
        variables: the trainable variables.
        update_patterns: regular expressions that may match anywhere in a name; only variables that
            match one are trained; empty: all.
        freeze_patterns: regular expressions; variables that match one are not trained.
        trainable_scopes: beginnings of names; only variables that have one are trained; empty: all.

    Returns:
        The variables that pass all three, in their order.

    Raises:
        errors.ConfigError: a pattern or scope matches no variable, or is no regular expression.
    """
    sizes = _sizes(variables)
    names = list(sizes)
    scopes = [
        (f'trainable_scopes {scope!r}', _beginning(scope, names)) for scope in trainable_scopes
    ]
    updates = _match_all('update_trainable_variables', update_patterns, names)
    freezes = _match_all('freeze_variables', freeze_patterns, names)
    trained = set(names)
    for rows in (scopes, updates):
        if rows:
            trained &= {name for _, matched in rows for name in matched}
    trained -= {name for _, matched in freezes for name in matched}
    selected = [variable for variable in variables if whole_name(variable) in trained]
    if scopes or updates or freezes:
        chosen = [name for name in names if name in trained]
        _log_selection([*scopes, *updates, *freezes], sizes, chosen)
    else:
        parameters = f'{sum(sizes.values()):,}'
        log.info('parameters: %s in %d variables, all trained', parameters, len(sizes))
    return selected


def match_names(pattern: str, names: Iterable[str]) -> List[str]:
    """Return the names in which a regular expression matches anywhere.

    Raises:
        errors.ConfigError: the pattern is no regular expression.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise errors.ConfigError(
            f'the variable pattern {pattern!r} is no regular expression: {error}.'
        ) from None
    # `search`, not `match`: `filter_variables` of tf.contrib, by which the Object Detection API
    # freezes, searches anywhere in a name.
    return [name for name in names if compiled.search(name)]


def no_match_error(field: str, pattern: str, names: Iterable[str]) -> errors.ConfigError:
    """Return the error for a pattern that no variable's name matches.

    Args:
        field: the field of `train_config`.
        pattern: the regular expression, or the beginning of names.
        names: the names of the variables.
    """
    names = list(names)
    # A cutoff below the default of 0.6, because a pattern is a short part of a long name.
    near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3)
    near = near or sorted({name.split('/')[0] for name in names})[:8]
    hint = '; the nearest names are ' + ', '.join(repr(name) for name in near)
    return errors.ConfigError(
        f'train_config.{field}: {pattern!r} matches none of {len(names)} variables{hint}.'
    )


def _match_all(
    field: str, patterns: Sequence[str], names: Sequence[str]
) -> List[Tuple[str, List[str]]]:
    rows = []
    for pattern in patterns:
        matched = match_names(pattern, names)
        if not matched:
            raise no_match_error(field, pattern, names)
        rows.append((f'{field} {pattern!r}', matched))
    return rows


def _beginning(scope: str, names: Sequence[str]) -> List[str]:
    # TF-Slim's flag `trainable_scopes` lists scopes, not expressions.
    matched = [name for name in names if name.startswith(scope)]
    if not matched:
        raise no_match_error('trainable_scopes', re.escape(scope), names)
    return matched


def _sizes(variables: Sequence[tf.Variable]) -> Dict[str, int]:
    """Count the parameters of each variable, by the name of the whole."""
    sizes: Dict[str, int] = collections.Counter()
    for variable in variables:
        sizes[whole_name(variable)] += variable.shape.num_elements() or 0
    return sizes


def _log_selection(
    rows: Sequence[Tuple[str, Sequence[str]]], sizes: Mapping[str, int], trained: Sequence[str]
) -> None:
    """Log a table of the variables and parameters that each pattern matched, with totals."""
    totals = [('all', list(sizes)), ('trained', trained)]
    width = max(len(label) for label, _ in [*rows, *totals])
    lines = [f'{"Trained variables":{width}}  variables      parameters']
    for label, names in [*rows, *totals]:
        parameters = sum(sizes[name] for name in names)
        lines.append(f'{label:{width}}  {len(names):9,}  {parameters:14,}')
    log.info('%s', '\n'.join(lines))
    if not trained:
        log.warning('No variable is trained: only batch-norm statistics will change.')
