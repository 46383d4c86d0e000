"""Frozen graphs of any program: a file with a `GraphDef` whose weights are constants."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from estimator_lib import errors
from estimator_lib.export import serving
from estimator_lib.export.foreign.foreign_file import ForeignFile, ImageInput, Shape, refuse
from estimator_lib.task import Tensors

tf1 = tf.compat.v1

ENDING = '.pb'

# Names of placeholders that take whole images as pixels, whatever their type.
_WHOLE_IMAGES = (serving.IMAGE_TENSOR, 'ImageTensor')
_TYPES = (tf.uint8, tf.float32, tf.string)
# Inputs of published classifiers, to find that of a graph whose placeholder has lost its shape.
# The usual one is tried first.
# EfficientNet B0 to B4 take 224, 240, 260, 300 and 380, Inception 299, large NASNets 331,
# MobileNets 96 to 224.
_SIDES = (224, 96, 128, 160, 192, 240, 256, 260, 299, 300, 320, 331, 380)
# Ends of a graph that compute nothing.
_NO_OUTPUTS = ('Assert', 'Const', 'NoOp', 'Placeholder', 'PlaceholderWithDefault')


class GraphFile(ForeignFile):
    """Frozen graph with one input, of images, encoded images or examples.

    Its outputs are the nodes that no other node reads.

    Args:
        path: of the file.

    Raises:
        errors.UserError: it is no frozen graph, or has not one such input.
    """

    def __init__(self, path: str):
        self.path = path
        self._graph_def = _read(path)
        self._placeholder = _find_input(self._graph_def, path)
        self._names = _find_ends(self._graph_def)
        if not self._names:
            raise refuse(path, 'the graph has no output')
        self.image = self._describe()

    def compute(self, images: tf.Tensor) -> Tensors:
        """Import the graph."""
        try:
            tensors = tf1.import_graph_def(
                self._graph_def,
                {f'{self._placeholder.name}:0': images},
                [f'{name}:0' for name in self._names],
                name='network',
            )
        except (ValueError, tf.errors.OpError) as error:
            raise refuse(self.path, errors.first_line(error).rstrip('.')) from error
        return dict(zip(self._names, tensors))

    def _describe(self) -> ImageInput:
        name, dtype = self._placeholder.name, _dtype(self._placeholder)
        shape = _static_shape(self._placeholder)
        if dtype == tf.string:
            is_example = 'example' in name
            kind = serving.TF_EXAMPLE if is_example else serving.ENCODED_IMAGE_STRING_TENSOR
            return ImageInput(kind, dtype, shape if shape else [None])
        if dtype == tf.uint8 or name in _WHOLE_IMAGES:
            return ImageInput(serving.IMAGE_TENSOR, dtype, shape or [None, None, None, 3])
        if shape is None or None in shape[1:]:
            side = self._find_side(dtype)
            shape = [1, side, side, 3]
        # Classifiers of TF-Slim and their descendants are fed values from -1 to 1.
        return ImageInput(serving.IMAGE_TENSOR, dtype, shape, (-1.0,), (1.0,))

    def _find_side(self, dtype: tf.DType) -> int:
        """Return the first side of images for which the graph has one row of scores.

        Raises:
            errors.UserError: there is none.
        """
        side = next((side for side in _SIDES if self._has_one_row(side, dtype)), None)
        if side is None:
            raise refuse(
                self.path,
                f'its input {self._placeholder.name!r} has no size, and the graph fits none of '
                f'{min(_SIDES)} to {max(_SIDES)}',
            )
        return side

    def _has_one_row(self, side: int, dtype: tf.DType) -> bool:
        with tf.Graph().as_default():
            try:
                outputs = self.compute(tf1.placeholder(dtype, [1, side, side, 3]))
            except errors.UserError:
                return False
            shapes = [output.shape for output in outputs.values()]
        # Behind a placeholder with a default, the number of rows is not known any more.
        return all(shape.rank == 2 and shape[0] in (1, None) for shape in shapes)


def _read(path: str) -> tf1.GraphDef:
    graph_def = tf1.GraphDef()
    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    try:
        graph_def.ParseFromString(content)
    except DecodeError as error:
        raise errors.UserError(
            f'{path} is no frozen graph, or is truncated or corrupt; expected a GraphDef as a '
            'protocol buffer.'
        ) from error
    if not graph_def.node:
        raise errors.UserError(
            f'{path} has no graph; expected a frozen graph (of a SavedModel, its folder: '
            '--saved_model_dir).'
        )
    variables = [node.name for node in graph_def.node if node.op in ('VariableV2', 'VarHandleOp')]
    if variables:
        raise refuse(
            path, f'it has variables ({variables[0]}), and a frozen graph has constants instead'
        )
    return graph_def


def _find_input(graph_def: tf1.GraphDef, path: str) -> Any:
    """Return the only placeholder of the graph."""
    nodes = [node for node in graph_def.node if node.op == 'Placeholder']
    if len(nodes) == 1 and _dtype(nodes[0]) in _TYPES:
        return nodes[0]
    listed = ', '.join(f'{node.name} ({_dtype(node).name})' for node in nodes) or 'none'
    raise refuse(path, f'its inputs are {listed}; expected one, of uint8, float32 or string')


def _dtype(node: Any) -> tf.DType:
    return tf.as_dtype(node.attr['dtype'].type)


def _static_shape(node: Any) -> Optional[Shape]:
    """Return the shape of a placeholder; None where it is not known.

    `optimize_for_inference` writes placeholders of images without a shape.
    """
    shape = node.attr['shape'].shape
    if shape.unknown_rank or not shape.dim:
        return None
    return [side.size if side.size > 0 else None for side in shape.dim]


def _find_ends(graph_def: tf1.GraphDef) -> List[str]:
    """Return the names of the nodes that no other node reads."""
    # Control inputs count too: what only orders other nodes is no output.
    read = {_name(each) for node in graph_def.node for each in node.input}
    return [
        node.name for node in graph_def.node if node.name not in read and node.op not in _NO_OUTPUTS
    ]


def _name(reference: str) -> str:
    return reference.lstrip('^').partition(':')[0]
