"""Graphs without initial values, for tests that read names and shapes or set all values."""

import inspect
from unittest import mock

import tensorflow as tf
from tensorflow.python.client import session
from tensorflow.python.ops import resource_variable_ops, variable_scope

from model_fns.layers import forward_pass, weights

tf1 = tf.compat.v1

_FOR_USERS = {'_graph_variable': weights._graph_variable, 'companion': weights.companion}


class _Variable(resource_variable_ops.BaseResourceVariable):
    """Variable of a graph whose initial value is a placeholder, made where a test asks for it."""

    @property
    def initializer(self):
        if self._initializer_op is None:
            with (
                self.graph.as_default(),
                tf1.control_dependencies(None),
                tf1.name_scope(f'{self.op.name}/'),
            ):
                value = tf1.placeholder(self.dtype, self.shape, name='Initializer')
                self._initializer_op = tf.raw_ops.AssignVariableOp(
                    resource=self.handle, value=value, name='Assign'
                )
        return self._initializer_op

    def _as_graph_element(self):
        # Asked for by each operation that takes a variable, for its graph alone.
        return self.handle


# The value is read where a session is asked for it, too.
session.register_session_run_conversion_functions(
    _Variable, lambda variable: ([variable.value()], lambda values: values[0])
)


def _create(
    name,
    shape,
    trainable,
    collections,
    synchronization=tf.VariableSynchronization.AUTO,
    aggregation=tf.VariableAggregation.NONE,
):
    """Create a variable with the one operation that all tests use: its handle."""
    shape = tf.TensorShape(shape)
    with tf1.name_scope(name) as scope:
        name = scope[:-1]
        handle = resource_variable_ops._variable_handle_from_shape_and_dtype(
            shape, tf.float32, shared_name=name, name=scope, graph_mode=True
        )
    created = _Variable(
        trainable=trainable,
        shape=shape,
        dtype=tf.float32,
        handle=handle,
        synchronization=synchronization,
        aggregation=aggregation,
        name=name,
        unique_id=name,
        handle_name=name,
        in_graph_mode=True,
    )
    trained = [tf1.GraphKeys.TRAINABLE_VARIABLES] if trainable else []
    tf1.get_default_graph().add_to_collections([*collections, *trained], created)
    return created


def _create_next(next_creator, **options):
    del next_creator
    return _create(**{name: options[name] for name in inspect.signature(_create).parameters})


def _without_value(create):
    def create_variable(*args, **kwargs):
        with tf.variable_creator_scope(_create_next):
            return create(*args, **kwargs)

    return create_variable


_LIKE_USERS = {name: _without_value(create) for name, create in _FOR_USERS.items()}


def _graph_variable(name, seeded_name, shape, initializer, trainable):
    """Create a new variable without `get_variable`, which takes as long as all the rest."""
    scope, store = tf1.get_variable_scope(), variable_scope._get_default_variable_store()
    full_name = f'{scope.name}/{name}' if scope.name else name
    if full_name in store._vars or scope.reuse is True or scope.custom_getter:
        like_users = _LIKE_USERS['_graph_variable']
        return like_users(name, seeded_name, shape, initializer, trainable)
    collections = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
    replicas = {} if trainable else forward_pass.STATISTIC
    with tf1.name_scope(None):
        created = _create(full_name, shape, trainable, collections, **replicas)
    store._vars[full_name] = created
    return created


def left_out():
    """Create the variables of models inside without initial values: to initialize is an error.

    The operations of a variable take two thirds of the time in which a network is built, and all
    but the handle can be left out.
    """
    created = {**_LIKE_USERS, '_graph_variable': _graph_variable}
    return mock.patch.multiple(weights, **created)


def drawn():
    """Restore the initial values of users, inside of `left_out`."""
    return mock.patch.multiple(weights, **_FOR_USERS)
