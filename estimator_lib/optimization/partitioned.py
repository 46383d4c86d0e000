"""Names of variables in checkpoints, and partitioned variables as wholes."""

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
    """The parts of one variable, with the attributes that restoring reads.

    Attributes:
        name: the name of the whole.
        shape: the shape of the whole.
        parts: the variables that are its parts.
    """

    name: str
    shape: tf.TensorShape
    parts: Tuple[tf.Variable, ...]

    @property
    def op(self) -> Any:
        """An object with the name, as a variable's op has it."""
        return types.SimpleNamespace(name=self.name)

    @property
    def dtype(self) -> tf.DType:
        """The type of the numbers."""
        return self.parts[0].dtype


AnyVariable = Union[tf.Variable, WholeVariable]


def variable_name(variable: tf.Variable) -> str:
    """Return the name of a variable's op, which is its name in checkpoints."""
    # Not `variable.op.name`: eager variables have no op.
    return variable.name.partition(':')[0]


def whole(variables: Iterable[tf.Variable]) -> List[AnyVariable]:
    """Return the variables, with one `WholeVariable` in place of the parts of each variable."""
    parts: Dict[str, List[tf.Variable]] = collections.defaultdict(list)
    order: Dict[Any, AnyVariable] = {}
    for variable in variables:
        part = slice_info(variable)
        if part is None:
            order[variable.ref()] = variable
            continue
        own = parts[part.full_name]
        own.append(variable)
        # The parts of a whole share a key, which keeps the place of the first one.
        order[part.full_name] = WholeVariable(
            part.full_name, tf.TensorShape(part.full_shape), tuple(own)
        )
    return list(order.values())


def whole_name(variable: tf.Variable) -> str:
    """Return the name of the variable that this one is a part of; its own if it is no part."""
    part = slice_info(variable)
    return variable_name(variable) if part is None else part.full_name


def is_eager(variable: AnyVariable) -> bool:
    """Return whether a variable lives outside graphs, and so is set by assignment.

    The variables of a training loop without sessions do.
    """
    if isinstance(variable, WholeVariable):
        return False
    # The initializer does not tell: a strategy's variable creates it on access.
    return not getattr(components(variable)[0], '_in_graph_mode', True)


def components(variable: tf.Variable) -> Sequence[tf.Variable]:
    """Return the variables that a strategy's variable consists of; for others, itself."""
    # The attribute is that of `tf.distribute.DistributedValues`; plain variables have none.
    return getattr(variable, 'values', (variable,))


def take_slice(value: np.ndarray, variable: tf.Variable) -> np.ndarray:
    """Return a variable's slice of the value of its whole; all of it if it is no part."""
    part = slice_info(variable)
    if part is None:
        return value
    ends = zip(part.var_offset, part.var_shape)
    return value[tuple(slice(offset, offset + size) for offset, size in ends)]


def slice_info(variable: tf.Variable) -> Optional[tf.Variable.SaveSliceInfo]:
    """Return the location of a part in its partitioned variable; None for a whole variable."""
    if isinstance(variable, tf.distribute.DistributedValues):
        return None  # reading an attribute of such a variable can add ops to the graph
    return getattr(variable, '_save_slice_info', None)
