"""Variables that are saved with a model, and that a checkpoint of the same model may lack.

What a network keeps beside its weights, and can begin anew when it is trained: statistics of a way
of training. A run that starts from a checkpoint without them is told so in one line; an evaluation
needs them.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name

tf1 = tf.compat.v1

# Followed by what such variables are called in messages. Graphs hold the names of the variables:
# other things than texts would not be saved with a graph.
_COLLECTION = 'companions/'


def add(name: str, kind: str) -> None:
    """Makes a variable of the graph a companion of the model.

    Args:
        name: of the variable, without `:0`.
        kind: what it is called in messages, in the plural: `quantization ranges`.
    """
    if name not in tf1.get_collection(_COLLECTION + kind):
        tf1.add_to_collection(_COLLECTION + kind, name)


def names_by_kind(graph: tf.Graph) -> Dict[str, FrozenSet[str]]:
    """The names of a graph's companions, by what they are called."""
    kinds = [name for name in graph.get_all_collection_keys() if str(name).startswith(_COLLECTION)]
    return {kind[len(_COLLECTION) :]: frozenset(graph.get_collection(kind)) for kind in kinds}


def all_names(graph: tf.Graph) -> FrozenSet[str]:
    """Returns the names of a graph's companions, of all kinds."""
    return frozenset().union(*names_by_kind(graph).values())


def with_model(graph: tf.Graph) -> List[tf.Variable]:
    """The variables of the model in a graph, then its companions."""
    names = all_names(graph)
    known = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    return [
        *graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES),
        *(variable for variable in known if variable_name(variable) in names),
    ]
