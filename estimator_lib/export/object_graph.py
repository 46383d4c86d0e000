"""Object graph of a SavedModel: what `tf.saved_model.load` returns.

`loaded(images)` returns the outputs by name. `loaded.signatures['serving_default']` takes its input
as `inputs=`, the key of TensorFlow 1's detectors, and as `input_tensor=`, that of TensorFlow 2's.

`tf.saved_model.save` writes such graphs too, but in eager mode only, and with nodes of names of its
own: clients of TensorFlow 1 feed and fetch by name.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.core.protobuf import (
    saved_object_graph_pb2,
    struct_pb2,
    trackable_object_graph_pb2,
)

from estimator_lib.task_interfaces.tensors import Tensors

INPUT_TENSOR = 'input_tensor'  # the argument of the published detectors of TensorFlow 2

_CALL, _SIGNATURE = 'serving_call', 'serving_signature'  # functions
_VALUE = 'VARIABLE_VALUE'
_NO_ARGUMENTS: Mapping[str, Any] = {
    'args': [],
    'varargs': None,
    'varkw': None,
    'defaults': None,
    'kwonlyargs': [],
    'kwonlydefaults': None,
    'annotations': {},
}


Network = Callable[[Mapping[str, tf.Tensor]], Tensors]


class Function(NamedTuple):
    """Function of a SavedModel.

    Attributes:
        function_def: its nodes; the last arguments are variables.
        variables: names of these variables, in order.
        arguments: the others, as positional and keyword arguments.
        outputs: what it returns, by name.
    """

    function_def: function_pb2.FunctionDef
    variables: Sequence[str]
    arguments: Any
    outputs: Mapping[str, tf.TensorSpec]


def checkpoint_key(name: str) -> str:
    """Return the key of a variable's value in the checkpoint of a SavedModel."""
    # A slash in the name of an object is escaped.
    return f'{name.replace(".", "..").replace("/", ".S")}/.ATTRIBUTES/{_VALUE}'


def trace(
    network: Network,
    inputs: Mapping[str, tf.TensorSpec],
    input_key: str,
) -> Dict[str, Function]:
    """Trace the functions of a SavedModel, in the current graph.

    Args:
        network: function of tensors by the names of `inputs` that returns outputs by name. It reads
            the current graph's variables, and takes defaults for names that it is not given.
        inputs: the arguments.
        input_key: the one of images.

    Returns:
        The function of images alone, which makes the loaded object callable, and that of the
        signatures.
    """
    images = tf.TensorSpec(inputs[input_key].shape, inputs[input_key].dtype, INPUT_TENSOR)
    call = tf.function(lambda image: network({input_key: image}), autograph=False)
    concrete = call.get_concrete_function(images)
    serve = network if len(inputs) > 1 else (lambda tensors: concrete(tensors[input_key]))
    signature = tf.function(lambda **tensors: serve(tensors), autograph=False)
    of_signature = signature.get_concrete_function(**inputs)
    functions = {
        _CALL: _function(concrete, ((images,), {})),
        _SIGNATURE: _function(of_signature, ((), dict(inputs))),
    }
    names = {one.function_def.signature.name: name for name, one in functions.items()}
    for function in functions.values():
        _rename(function.function_def, names)
    return functions


def _function(concrete: Any, arguments: Any) -> Function:
    function_def = function_pb2.FunctionDef()
    function_def.CopyFrom(concrete.function_def)
    outputs = {
        name: tf.TensorSpec(tensor.shape, tensor.dtype, name)
        for name, tensor in concrete.structured_outputs.items()
    }
    variables = [tensor.op.name for tensor in concrete.captured_inputs]
    return Function(function_def, variables, arguments, outputs)


def _rename(function_def: function_pb2.FunctionDef, names: Mapping[str, str]) -> None:
    """Give functions names that do not depend on what the process has traced before."""
    function_def.signature.name = names[function_def.signature.name]
    for node in function_def.node_def:
        called = node.attr['f'].func.name if 'f' in node.attr else ''
        if called in names:
            node.attr['f'].func.name = names[called]
            # Names a gradient that only this process knows.
            node.attr.pop('_gradient_op_type', None)


def build(
    functions: Mapping[str, Function],
    variables: Mapping[str, np.ndarray],
    signatures: Sequence[str],
    input_key: str,
) -> saved_object_graph_pb2.SavedObjectGraph:
    """Build the object graph.

    Args:
        functions: of `trace`.
        variables: values by name.
        signatures: their names; all compute the same.
        input_key: the name of the images among the inputs.
    """
    graph = saved_object_graph_pb2.SavedObjectGraph()
    root = graph.nodes.add()
    # The identifiers by which TensorFlow's loader chooses a class for an object.
    root.user_object.identifier = '_generic_user_object'
    places = {}
    for name, value in variables.items():
        places[name] = len(graph.nodes)
        root.children.add(node_id=places[name], local_name=name)
        variable = graph.nodes.add().variable
        variable.name = name
        variable.dtype = tf.as_dtype(value.dtype).as_datatype_enum
        variable.shape.CopyFrom(tf.TensorShape(value.shape).as_proto())
    root.children.add(node_id=len(graph.nodes), local_name='__call__')
    call = graph.nodes.add().function
    call.concrete_functions.append(_CALL)
    call.function_spec.fullargspec.CopyFrom(_arguments(args=[INPUT_TENSOR]))
    call.function_spec.input_signature.none_value.SetInParent()
    root.children.add(node_id=len(graph.nodes), local_name='signatures')
    group = graph.nodes.add()
    group.user_object.identifier = 'signature_map'
    for name in signatures:
        group.children.add(node_id=len(graph.nodes), local_name=name)
        _set_signature(graph.nodes.add().bare_concrete_function, functions[_SIGNATURE], input_key)
    for node in (root, group):
        node.user_object.version.producer = node.user_object.version.min_consumer = 1
    for name, function in functions.items():
        concrete = graph.concrete_functions[name]
        concrete.bound_inputs.extend(places[variable] for variable in function.variables)
        concrete.canonicalized_input_signature.CopyFrom(_encoded(function.arguments))
        concrete.output_signature.CopyFrom(_encoded(dict(function.outputs)))
    return graph


def _set_signature(
    signature: saved_object_graph_pb2.SavedBareConcreteFunction, function: Function, input_key: str
) -> None:
    """Describe the function of a signature.

    A loaded function matches keywords with its arguments, and if that fails with a list of
    keywords. The list has the input's second name, so both are accepted.
    """
    keys = sorted(function.arguments[1])
    signature.concrete_function_name = _SIGNATURE
    signature.argument_keywords.extend(INPUT_TENSOR if key == input_key else key for key in keys)
    # The order of several is not known to a client.
    signature.allowed_positional_arguments = 1 if len(keys) == 1 else 0
    signature.function_spec.fullargspec.CopyFrom(_arguments(kwonlyargs=keys))
    signature.function_spec.input_signature.none_value.SetInParent()


def track_checkpoint(
    graph: saved_object_graph_pb2.SavedObjectGraph,
) -> trackable_object_graph_pb2.TrackableObjectGraph:
    """Return the object graph that the checkpoint of a SavedModel holds: keys of the values."""
    tracked = trackable_object_graph_pb2.TrackableObjectGraph()
    for node in graph.nodes:
        copy = tracked.nodes.add()
        for child in node.children:
            copy.children.add(node_id=child.node_id, local_name=child.local_name)
        is_variable = node.HasField('variable')
        if is_variable:
            name = node.variable.name
            copy.attributes.add(name=_VALUE, full_name=name, checkpoint_key=checkpoint_key(name))
        copy.has_checkpoint_values.value = is_variable
    tracked.nodes[0].has_checkpoint_values.value = True
    return tracked


def _arguments(**own: List[str]) -> struct_pb2.StructuredValue:
    """Return the signature of a Python function, as `inspect.getfullargspec` describes it."""
    value = struct_pb2.StructuredValue()
    value.named_tuple_value.name = 'FullArgSpec'
    for key, one in {**_NO_ARGUMENTS, **own}.items():
        value.named_tuple_value.values.add(key=key, value=_encoded(one))
    return value


def _encoded(value: Any) -> struct_pb2.StructuredValue:
    """Return a structure of tuples, lists, dicts, names and specifications as a message."""
    encoded = struct_pb2.StructuredValue()
    if value is None:
        encoded.none_value.SetInParent()
    elif isinstance(value, str):
        encoded.string_value = value
    elif isinstance(value, tf.TensorSpec):
        spec = encoded.tensor_spec_value
        spec.name, spec.dtype = value.name, value.dtype.as_datatype_enum
        spec.shape.CopyFrom(value.shape.as_proto())
    elif isinstance(value, dict):
        encoded.dict_value.SetInParent()
        for key, one in value.items():
            encoded.dict_value.fields[key].CopyFrom(_encoded(one))
    else:
        kind = encoded.tuple_value if isinstance(value, tuple) else encoded.list_value
        kind.SetInParent()
        kind.values.extend(map(_encoded, value))
    return encoded
