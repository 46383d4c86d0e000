"""Graphs without initial values, for tests that read names and shapes or set all values."""

from unittest import mock

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from model_fns.layers import weights

tf1 = tf.compat.v1

_FOR_USERS = {'_graph_variable': weights._graph_variable, 'companion': weights.companion}


class _Variable(resource_variable_ops.BaseResourceVariable):
    """Variable of a graph whose initial value is a placeholder."""

    def _as_graph_element(self):
        return self.value()


def _create(next_creator, *, name, **options):
    """Create a variable with the two operations that tests use: the handle and the initializer."""
    del next_creator
    with tf1.name_scope(name) as scope:
        name = scope[:-1]
        value = tf1.placeholder(tf.float32, options['shape'], name='Initializer')
        handle = resource_variable_ops.eager_safe_variable_handle(
            value, value.shape, shared_name=name, name=scope, graph_mode=True
        )
        initializer = tf.raw_ops.AssignVariableOp(resource=handle, value=value, name='Assign')
    created = _Variable(
        trainable=options['trainable'],
        shape=value.shape,
        dtype=value.dtype,
        handle=handle,
        synchronization=options['synchronization'],
        aggregation=options['aggregation'],
        name=name,
        unique_id=name,
        handle_name=name,
        initial_value=value,
        initializer_op=initializer,
        in_graph_mode=True,
    )
    trained = [tf1.GraphKeys.TRAINABLE_VARIABLES] if options['trainable'] else []
    tf1.get_default_graph().add_to_collections([*options['collections'], *trained], created)
    return created


def _without_value(create):
    def create_variable(*args, **kwargs):
        with tf.variable_creator_scope(_create):
            return create(*args, **kwargs)

    return create_variable


def left_out():
    """Create the variables of models inside without initial values: to initialize is an error.

    The operations of a variable take two thirds of the time in which a network is built, and all
    but two of them can be left out.
    """
    created = {name: _without_value(create) for name, create in _FOR_USERS.items()}
    return mock.patch.multiple(weights, **created)


def drawn():
    """Restore the initial values of users, inside of `left_out`."""
    return mock.patch.multiple(weights, **_FOR_USERS)
