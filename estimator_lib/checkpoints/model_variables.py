"""Variables of a model: all that a task's forward pass creates, in any collection."""

from __future__ import annotations

import contextlib
from typing import FrozenSet, Iterator, List

import tensorflow as tf
from tensorflow.core.framework import variable_pb2

from estimator_lib import graph_state
from estimator_lib.optimization.partitioned import variable_name

tf1 = tf.compat.v1


@contextlib.contextmanager
def collected() -> Iterator[None]:
    """Add the global variables created in this context to the graph's `MODEL_VARIABLES`.

    So a task does not have to add them. The global step and companions of the model are left out.
    """
    # Keras layers and `tf.Variable` add to GLOBAL_VARIABLES only, TF-Slim's layers to both.
    before = {variable.ref() for variable in tf1.global_variables()}
    yield
    graph = tf1.get_default_graph()
    known = {variable.ref() for variable in graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES)}
    apart = graph_state.companion_names(graph) | {tf1.GraphKeys.GLOBAL_STEP}
    for variable in tf1.global_variables():
        is_new = variable.ref() not in before | known
        if is_new and variable_name(variable) not in apart:
            tf1.add_to_collection(tf1.GraphKeys.MODEL_VARIABLES, variable)


def with_companions(graph: tf.Graph) -> List[tf.Variable]:
    """Return the variables of the model in a graph, followed by its companions."""
    names = graph_state.companion_names(graph)
    known = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    return [
        *graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES),
        *(variable for variable in known if variable_name(variable) in names),
    ]


def restorable(graph: tf.Graph) -> List[tf.Variable]:
    """Return the variables of an inference graph that a checkpoint must have.

    These are all global variables except the global step, which published checkpoints may lack.
    """
    return [
        variable
        for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
        if variable_name(variable) != tf1.GraphKeys.GLOBAL_STEP
    ]


def saved_names(prefix: str, default: FrozenSet[str]) -> FrozenSet[str]:
    """Return the names of the `MODEL_VARIABLES` of the graph that wrote a checkpoint.

    Args:
        prefix: the checkpoint.
        default: the result if there is no graph (`.meta`) beside it, or the graph has none.
    """
    # The Saver of a session writes the graph beside each checkpoint, with the model's variables of
    # then.
    path = f'{prefix}.meta'
    if not tf.io.gfile.exists(path):
        return default
    meta = tf1.MetaGraphDef()
    with tf.io.gfile.GFile(path, 'rb') as file:
        meta.ParseFromString(file.read())
    names = set()
    for text in meta.collection_def[tf1.GraphKeys.MODEL_VARIABLES].bytes_list.value:
        # The collection holds serialized `VariableDef`s, one for each part of a partitioned
        # variable.
        saved = variable_pb2.VariableDef.FromString(text)
        whole = saved.save_slice_info_def.full_name
        names.add(whole or saved.variable_name.partition(':')[0])
    return frozenset(names) or default
