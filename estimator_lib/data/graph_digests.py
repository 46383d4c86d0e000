"""A digest of what a graph computes: the same in every process that builds it."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, Sequence

import tensorflow as tf

from estimator_lib import errors

# Ops that call Python: a graph has a number of the function, and not what it computes.
_PYTHON = ('EagerPyFunc', 'PyFunc', 'PyFuncStateless')
# Attributes that are names, other ones in each process, or say where in a program an op was made.
_NAMES = ('shared_name', 'container', '_gradient_op_type')


def digest(graph_def: tf.compat.v1.GraphDef) -> str:
    """32 hexadecimal digits that change with the operations, their attributes and their wiring.

    Names of nodes and functions do not count: TensorFlow numbers those of a process.

    Raises:
        errors.ConfigError: the graph calls Python, whose code it does not have.
    """
    found = hashlib.sha256(tf.version.VERSION.encode())
    functions = {function.signature.name: function for function in graph_def.library.function}
    _Walk(found, functions).body(graph_def.node, ())
    return found.hexdigest()[:32]


class _Walk:
    """Adds the nodes of graphs to a digest.

    Args:
        found: the digest.
        functions: by name.
    """

    def __init__(self, found: Any, functions: Dict[str, Any]):
        self._found = found
        self._functions = functions

    def body(self, nodes: Iterable[Any], arguments: Sequence[str]) -> Dict[str, str]:
        """Add the nodes of a graph, or of a function with these arguments.

        Returns:
            The number of each argument and node, by its name.
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
            self._add(node.op, *(_renumbered(name, numbers) for name in node.input))
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
        numbers = self.body(function.node_def, arguments)
        for output in function.signature.output_arg:
            self._add(_renumbered(function.ret[output.name], numbers))

    def _add(self, *words: Any) -> None:
        for word in words:
            self._found.update(word if isinstance(word, bytes) else word.encode())
            self._found.update(b'\0')


def _renumbered(name: str, numbers: Dict[str, str]) -> str:
    """An input of a node, `^name` or `name:output`, with the number of what it comes from."""
    control = '^' if name.startswith('^') else ''
    node, _, output = name.lstrip('^').partition(':')
    return f'{control}{numbers[node]}:{output}'
