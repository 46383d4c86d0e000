"""Variables as checkpoints know them: by name, and whole where a graph holds parts."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

MOVING_AVERAGE = 'ExponentialMovingAverage'

# The types of ops that store variables.
VARIABLE_OPS = ('Variable', 'VariableV2', 'VarHandleOp')


@dataclasses.dataclass(frozen=True)
class WholeVariable:
    """The parts of one variable; it has what is asked of a variable that is to be restored.

    Attributes:
        name: of the whole.
        shape: of the whole.
        parts: its variables.
    """

    name: str
    shape: tf.TensorShape
    parts: Tuple[tf.Variable, ...]

    @property
    def op(self) -> Any:
        """Has the name, as a variable's op does."""
        return types.SimpleNamespace(name=self.name)

    @property
    def dtype(self) -> tf.DType:
        """Of the numbers."""
        return self.parts[0].dtype


AnyVariable = Union[tf.Variable, WholeVariable]


def variable_name(variable: tf.Variable) -> str:
    """Return the name of a variable's op: what checkpoints know it by."""
    return variable.name.partition(':')[0]


def whole(variables: Iterable[tf.Variable]) -> List[AnyVariable]:
    """The variables, with one `WholeVariable` in place of the parts of each that is in parts."""
    parts: Dict[str, List[tf.Variable]] = collections.defaultdict(list)
    order: Dict[Any, AnyVariable] = {}
    for variable in variables:
        part = slice_info(variable)
        if part is None:
            order[variable.ref()] = variable
            continue
        own = parts[part.full_name]
        own.append(variable)
        order[part.full_name] = WholeVariable(
            part.full_name, tf.TensorShape(part.full_shape), tuple(own)
        )
    return list(order.values())


def whole_name(variable: tf.Variable) -> str:
    """Return the name of what a variable is a part of; its own, where it is no part."""
    part = slice_info(variable)
    return variable_name(variable) if part is None else part.full_name


def is_eager(variable: AnyVariable) -> bool:
    """Whether a variable lives outside of graphs: it is set by assignment, not by an initializer.

    The variables of a training loop without sessions do.
    """
    if isinstance(variable, WholeVariable):
        return False
    # An initializer is no sign of it: that of a strategy's variable is made when it is asked for.
    return not getattr(components(variable)[0], '_in_graph_mode', True)


def components(variable: tf.Variable) -> Sequence[tf.Variable]:
    """Return the variables that a strategy's variable consists of; itself for an ordinary one."""
    return getattr(variable, 'values', (variable,))


def part_of(value: np.ndarray, variable: tf.Variable) -> np.ndarray:
    """What a variable holds of the value of its whole; all, where it is no part."""
    part = slice_info(variable)
    if part is None:
        return value
    ends = zip(part.var_offset, part.var_shape)
    return value[tuple(slice(offset, offset + size) for offset, size in ends)]


def slice_info(variable: tf.Variable) -> Optional[tf.Variable.SaveSliceInfo]:
    """Which part of a partitioned variable it is; None where it is a whole."""
    if isinstance(variable, tf.distribute.DistributedValues):
        return None  # To ask one for an attribute can add to the graph.
    return getattr(variable, '_save_slice_info', None)
