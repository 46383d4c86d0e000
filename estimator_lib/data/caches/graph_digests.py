"""A digest of the computation of a graph: the same in every process that builds the graph."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, Sequence

import tensorflow as tf

from estimator_lib import errors

# Ops that call Python: the graph holds only a number for the function, not its code.
_PYTHON = ('EagerPyFunc', 'PyFunc', 'PyFuncStateless')
# Attributes that differ between processes without changing the computation.
# `_gradient_op_type` is a name with a counter of the process.
_NAMES = ('shared_name', 'container', '_gradient_op_type')


def digest(graph_def: tf.compat.v1.GraphDef) -> str:
    """Compute 32 hexadecimal digits from the operations of a graph, their attributes and wiring.

    Names of nodes and functions do not count: TensorFlow numbers them by process.

    Raises:
        errors.ConfigError: the graph calls Python, whose code it does not contain.
    """
    # Another release may have other kernels under the same names of ops.
    hasher = hashlib.sha256(tf.version.VERSION.encode())
    functions = {function.signature.name: function for function in graph_def.library.function}
    _Walk(hasher, functions).add_body(graph_def.node, ())
    return hasher.hexdigest()[:32]


class _Walk:
    """Walk through graphs that adds their nodes to a digest.

    Args:
        hasher: the digest, a `hashlib` object.
        functions: the functions of the graph by name.
    """

    def __init__(self, hasher: Any, functions: Dict[str, Any]):
        self._hasher = hasher
        self._functions = functions

    def add_body(self, nodes: Iterable[Any], arguments: Sequence[str]) -> Dict[str, str]:
        """Add the nodes of a graph, or of a function with these arguments.

        Returns:
            The numbers of the arguments and nodes, by their names.

        Raises:
            errors.ConfigError: a node calls a Python function, whose code has no digest.
        """
        nodes = list(nodes)
        names = [*arguments, *(node.name for node in nodes)]
        numbers = {name: str(number) for number, name in enumerate(names)}
        for node in nodes:
            if node.op in _PYTHON:
                raise errors.ConfigError(
                    f'{node.name} calls a Python function (tf.numpy_function, tf.py_function), '
                    'whose code may change without a trace in the graph'
                )
            self._add(node.op, *(_renumber(name, numbers) for name in node.input))
            for key in sorted(node.attr):
                if key not in _NAMES:
                    self._add(key)
                    self._attribute(node.attr[key])
        return numbers

    def _attribute(self, value: Any) -> None:
        called = [value.func] if value.HasField('func') else list(value.list.func)
        if not called:
            self._add(value.SerializeToString(deterministic=True))
        for function in called:
            self._function(self._functions.get(function.name), function.name)

    def _function(self, function: Any, name: str) -> None:
        if function is None:  # an empty slot, or an op of TensorFlow by its name
            self._add(name)
            return
        arguments = [argument.name for argument in function.signature.input_arg]
        numbers = self.add_body(function.node_def, arguments)
        for output in function.signature.output_arg:
            self._add(_renumber(function.ret[output.name], numbers))

    def _add(self, *words: Any) -> None:
        for word in words:
            self._hasher.update(word if isinstance(word, bytes) else word.encode())
            # Keeps ('ab', 'c') apart from ('a', 'bc').
            self._hasher.update(b'\0')


def _renumber(name: str, numbers: Dict[str, str]) -> str:
    """Replace the node's name in an input, `^name` or `name:output`, by its number."""
    control = '^' if name.startswith('^') else ''
    node, _, output = name.lstrip('^').partition(':')
    return f'{control}{numbers[node]}:{output}'
