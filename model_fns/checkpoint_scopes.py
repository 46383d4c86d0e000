"""Scopes of a backbone's variables in the checkpoints of each task."""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name

# The scope of the backbone in a single-shot detector.
DETECTION = 'FeatureExtractor'

# Prefix of the names of a backbone's variables, by `fine_tune_checkpoint_type`.
PREFIXES: Mapping[str, str] = {
    'classification': '',
    'detection': f'{DETECTION}/',
    'segmentation': '',
}


def rename_scope(name: str, rename: Callable[[str], str]) -> str:
    """Return the name of a variable under another scope.

    Args:
        name: of the variable; averages of quantization ranges repeat their scope,
            `X/X/min/biased`.
        rename: old name -> new name, for names with the scope once, at the start.
    """
    stem, _, last = name.partition('/min/' if '/min/' in name else '/max/')
    half = len(stem) // 2
    if last and stem[:half] == stem[half + 1 :]:
        middle = name[len(stem) :]
        return f'{rename(stem[:half])}/{rename(stem[:half])}{middle}'
    return rename(name)


def add_scope(scope: str, variables: Sequence[tf.Variable]) -> Mapping[str, tf.Variable]:
    """Index variables by their names in a checkpoint with an outer scope.

    Args:
        scope: prefix of the names: empty, or with a slash at its end.
        variables: of a model.
    """
    return {
        rename_scope(variable_name(variable), lambda name: scope + name): variable
        for variable in variables
    }
