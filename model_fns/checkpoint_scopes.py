"""Where the variables of a backbone stand in the checkpoints of each task."""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name

# The scope that a single-shot detector puts around its backbone.
DETECTION = 'FeatureExtractor'

# What stands before the name of a backbone's variable, by `fine_tune_checkpoint_type`.
PREFIXES: Mapping[str, str] = {
    'classification': '',
    'detection': f'{DETECTION}/',
    'segmentation': '',
}


def renamed(name: str, rename: Callable[[str], str]) -> str:
    """The name that a variable has where a scope is called otherwise.

    Args:
        name: of the variable; averages of quantization ranges have their scope in it twice,
            `X/X/min/biased`.
        rename: the new name of a name that has the scope once, at its start.
    """
    stem, _, last = name.partition('/min/' if '/min/' in name else '/max/')
    half = len(stem) // 2
    if last and stem[:half] == stem[half + 1 :]:
        middle = name[len(stem) :]
        return f'{rename(stem[:half])}/{rename(stem[:half])}{middle}'
    return rename(name)


def names_in(scope: str, variables: Sequence[tf.Variable]) -> Mapping[str, tf.Variable]:
    """Variables by their names in a checkpoint that has them in an outer scope.

    Args:
        scope: what stands before the names: empty, or with a slash at its end.
        variables: of a model.
    """
    return {renamed(variable_name(one), lambda name: scope + name): one for one in variables}
