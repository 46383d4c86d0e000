"""Object-based checkpoints of TensorFlow 2, which name variables by the objects that held them.

Such a file holds the graph of the saved objects. The key of a variable is one path of edge names
from the root to it, the shortest that the writer found. Other paths may lead to the same variable.
So this module finds a variable by following a path, never by its key.

Paths are written like keys without their ending: `model/backbone/layer-0/kernel`, with `.S` for a
slash and `..` for a dot in the name of an edge.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Iterable, List, Mapping, Optional, TypeVar

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import trackable_object_graph_pb2

from estimator_lib import errors
from estimator_lib.checkpoints.checkpoint_files import OBJECT_STEP, explained_read, open_checkpoint

GRAPH_KEY = '_CHECKPOINTABLE_OBJECT_GRAPH'
ENDING = '/.ATTRIBUTES/VARIABLE_VALUE'
STEP = OBJECT_STEP[: -len(ENDING)]
# The slot name of a variable's moving average in these checkpoints.
AVERAGE = 'average'

_VALUE = 'VARIABLE_VALUE'
# The format has the root as the first node.
_ROOT = 0

Held = TypeVar('Held')


class ObjectGraph:
    """Graph of the objects of a checkpoint, with the keys of their values.

    Args:
        graph: a `TrackableObjectGraph`.
        source: the name of the checkpoint in messages.

    Raises:
        errors.CheckpointError: an edge leads to a missing object.
    """

    def __init__(self, graph: Any, source: str):
        count = len(graph.nodes)
        self._edges: List[Dict[str, int]] = []
        self._keys: List[Optional[str]] = []
        self._slots: Dict[int, Dict[str, int]] = {}
        for node in graph.nodes:
            # Escaped, so that a path can be split at slashes: keys of saved dicts may have some.
            edges = {escaped(child.local_name): child.node_id for child in node.children}
            self._edges.append(edges)
            self._keys.append(
                next((item.checkpoint_key for item in node.attributes if item.name == _VALUE), None)
            )
            for slot in node.slot_variables:
                slots = self._slots.setdefault(slot.original_variable_node_id, {})
                slots[slot.slot_name] = slot.slot_variable_node_id
        slots_of = [slots.values() for slots in self._slots.values()]
        targets = [node for edges in (*map(dict.values, self._edges), *slots_of) for node in edges]
        # A Python list takes negative indices: a corrupt -1 would lead to the last node without an
        # error.
        if not count or any(not 0 <= node < count for node in (*targets, *self._slots)):
            raise errors.CheckpointError(
                f'{source} is corrupt: its graph of objects has edges to what is not in it.'
            )

    def roots(self) -> List[str]:
        """Return the names of the edges from the root, sorted."""
        return sorted(self._edges[_ROOT])

    def children(self, path: str) -> List[str]:
        """Return the names of the edges from the object at a path, sorted; none if it has none."""
        node: Optional[int] = _ROOT
        for name in path.split('/'):
            node = self._edges[node].get(name)
            if node is None:
                return []
        return sorted(self._edges[node])

    def find_key(self, path: str, slot: Optional[str] = None) -> Optional[str]:
        """Find the key of a variable's value; None if the path leads to no variable.

        Args:
            path: the path of the variable, as in the module docstring.
            slot: the name of an optimizer slot of the variable, whose key is returned instead.
        """
        node: Optional[int] = _ROOT
        for name in path.split('/'):
            node = self._edges[node].get(name)
            if node is None:
                return None
        if slot is not None:
            node = self._slots.get(node, {}).get(slot)
        return None if node is None else self._keys[node]

    def keyed(self, paths: Mapping[str, Held], slot: Optional[str] = None) -> Dict[str, Held]:
        """Replace paths by keys; a path that leads to nothing stays.

        Args:
            paths: variables or other values, by path.
            slot: name of an optimizer slot, whose keys are used; a variable without it gets its own
                key.
        """
        keys = {path: slot and self.find_key(path, slot) for path in paths}
        return {keys[path] or self.find_key(path) or path: held for path, held in paths.items()}


def is_object_based(names: Iterable[str]) -> bool:
    """Return True for the names of an object-based checkpoint."""
    return GRAPH_KEY in names


def hint(names: Iterable[str]) -> str:
    """Return a sentence about an object-based checkpoint for a message; empty for others.

    Args:
        names: the names of all tensors of the checkpoint.
    """
    if any(name.endswith(ENDING) for name in names):
        return (
            ' It is an object-based checkpoint of TensorFlow 2, which names variables by the '
            'Python objects that held them.'
        )
    return ''


def read(prefix: str) -> Optional[ObjectGraph]:
    """Read the object graph of a checkpoint; None for a name-based checkpoint.

    Raises:
        errors.CheckpointError: the checkpoint is corrupt.
    """
    reader = open_checkpoint(prefix)
    if not is_object_based(reader.get_variable_to_shape_map()):
        return None
    with explained_read(prefix):
        text = reader.get_tensor(GRAPH_KEY)
    try:
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(text)
    except (message.DecodeError, TypeError) as error:
        raise errors.CheckpointError(
            f'{prefix} is corrupt: {GRAPH_KEY} in it is no graph of objects '
            f'({errors.first_line(error)}).'
        ) from None
    return ObjectGraph(graph, prefix)


def write(values: Mapping[str, Any], folder: str, number: int = 0) -> str:
    """Write an object-based checkpoint `folder/ckpt-<number>`, and list it as the latest.

    This must run eagerly, outside of any graph.

    Args:
        values: arrays by path. Each part of a path becomes an object; paths with equal parts share
            objects.
        folder: created if it does not exist.
        number: the number of the checkpoint.

    Returns:
        The prefix of the checkpoint.
    """
    tree: Dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = map(unescaped, path.split('/'))
        holder = functools.reduce(lambda node, name: node.setdefault(name, {}), outer, tree)
        holder[last] = tf.Variable(value)
    # Dictionaries become objects whose edges have the names of their keys.
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(**tree), folder, max_to_keep=1)
    return manager.save(checkpoint_number=number)


def escaped(name: str) -> str:
    """Escape the name of an edge for a key."""
    # TensorFlow's own escape (`escape_local_name`). Dots come first: else the dot of `.S` is
    # doubled.
    return name.replace('.', '..').replace('/', '.S')


def unescaped(name: str) -> str:
    """Unescape the name of an edge from a key."""
    # Split at doubled dots first: in `a..Sb` the S is a letter of the name.
    return '.'.join(part.replace('.S', '/') for part in name.split('..'))
