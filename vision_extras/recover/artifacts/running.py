"""Sessions that run artifacts on images."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import freezing
from estimator_lib.export.devices import tflite_interpreter
from model_fns.datasets import codecs, records
from vision_extras.recover.artifacts import reading, tflite_graphs
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.reading import Artifact

tf1 = tf.compat.v1

_UINT8 = tf.uint8.as_datatype_enum
_STRING = tf.string.as_datatype_enum
_FLOAT = tf.float32.as_datatype_enum
_PARSERS = ('ParseSingleExample', 'ParseExample', 'ParseExampleV2')
_OF_DEVICES = 'TFLite_'  # such operations are unknown to TensorFlow
# Operations by which a graph prepares pixels.
_PREPARING = ('Sub', 'Mul', 'Div', 'RealDiv', 'Add', 'AddV2', 'ResizeBilinear', 'ResizeBicubic')


class Engine(Protocol):
    """Program that computes tensors of an artifact."""

    def input_shape(self, name: str) -> Optional[List[Optional[int]]]:
        """Return the static shape of a placeholder; None: unknown."""

    def run(self, fetches: Mapping[str, str], name: str, value: Any) -> Mapping[str, Any]:
        """Compute tensors by key, for a value of the placeholder of that name."""


class Runner:
    """Runs the graph of an artifact.

    Args:
        engine: runs it.
        graph: its nodes.
        path: of the artifact, for messages.

    Attributes:
        input_name: the placeholder that takes images.
        takes_pixels: True: it takes pixels of any image; False: the network's input.
        input_shape: static shape of the placeholder; None: unknown.

    Raises:
        errors.UserError: the graph has no input of images.
    """

    def __init__(self, engine: Engine, graph: Graph, path: str):
        self._engine = engine
        self.input_name, self._dtype = _find_input(graph, path)
        self.takes_pixels = self._dtype != _FLOAT or prepares_pixels(graph, self.input_name)
        self._takes_examples = bool(graph.find_ops(*_PARSERS))
        self.input_shape = engine.input_shape(self.input_name)

    def accepted_size(self, size: Tuple[int, int]) -> Tuple[int, int]:
        """Return the size (height, width) of images that the graph fixes, else a given one."""
        shape = (self.input_shape or [])[-3:]
        if self._dtype == _STRING or len(shape) < 3 or not (shape[0] and shape[1]):
            return size
        return shape[0], shape[1]

    def test_image(self, size: Tuple[int, int]) -> np.ndarray:
        """Return an image of that size, or of the one that the graph fixes; see `test_images`."""
        return test_images([self.accepted_size(size)])[0]

    def run(self, fetches: Mapping[str, str], image: np.ndarray) -> Dict[str, np.ndarray]:
        """Compute tensors for one image.

        Args:
            fetches: names of tensors by key.
            image: uint8 [height, width, 3]; float32, where it takes the network's input. A batch
                of a fixed size has copies of it.

        Raises:
            tf.errors.OpError: the graph does not accept the image.
        """
        values = self._engine.run(fetches, self.input_name, self._feed(image))
        return {key: np.asarray(value) for key, value in values.items()}

    def _feed(self, image: np.ndarray) -> Any:
        if self._dtype != _STRING:
            shape = self.input_shape
            image = image if self._dtype == _UINT8 else image.astype(np.float32)
            if shape is not None and len(shape) == 3:
                return image
            count = shape[0] if shape else None
            return np.repeat(image[np.newaxis], count or 1, axis=0)
        content = codecs.encode_png(image)
        if self._takes_examples:
            content = records.serialize({'image/encoded': content, 'image/format': b'png'})
        return content if self.input_shape == [] else [content]


class _Session:
    """Session of TensorFlow as an engine."""

    def __init__(self, session: tf1.Session):
        self._session = session

    def input_shape(self, name: str) -> Optional[List[Optional[int]]]:
        shape = self._session.graph.get_tensor_by_name(f'{name}:0').shape
        return shape.as_list() if shape.rank is not None else None

    def run(self, fetches: Mapping[str, str], name: str, value: Any) -> Mapping[str, Any]:
        return self._session.run(dict(fetches), {f'{name}:0': value})


class _Interpreter:
    """Interpreter of TFLite as an engine, for a graph of `tflite_graphs`."""

    def __init__(self, path: str, graph: Graph):
        # Else it uses the memory of a tensor again, as soon as no operation needs it.
        loaded = tflite_interpreter.load(path, experimental_preserve_all_tensors=True)
        self._interpreter, self._graph, self._path = loaded.interpreter, graph, path

    def input_shape(self, name: str) -> Optional[List[Optional[int]]]:
        index = self._index(f'{name}:0')
        details = self._interpreter.get_input_details()
        return [int(side) for one in details if one['index'] == index for side in one['shape']]

    def run(self, fetches: Mapping[str, str], name: str, value: Any) -> Mapping[str, Any]:
        try:
            self._interpreter.set_tensor(self._index(f'{name}:0'), value)
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise errors.UserError(
                f'--from: {self._path} fails on an image in the interpreter of TFLite: '
                f'{errors.first_line(error)}'
            ) from error
        return {
            key: self._interpreter.get_tensor(self._index(tensor))
            for key, tensor in fetches.items()
        }

    def _index(self, tensor: str) -> int:
        """Return the index of a tensor in the file."""
        name, _, output = tensor.partition(':')
        return self._graph.nodes[name].attr[tflite_graphs.TENSORS].list.i[int(output)]


@contextlib.contextmanager
def open_runner(artifact: Artifact) -> Iterator[Runner]:
    """Open a session of an artifact's graph, or the interpreter of its file."""
    assert artifact.graph is not None
    if artifact.kind == reading.TFLITE_FILE:
        engine = _Interpreter(artifact.path, artifact.graph)
        yield Runner(engine, artifact.graph, artifact.path)
        return
    graph = tf.Graph()
    with graph.as_default():
        try:
            tf1.import_graph_def(_known_nodes(artifact.graph.graph_def), name='')
        except (ValueError, tf.errors.OpError) as error:
            raise errors.UserError(
                f'--from: {artifact.path} cannot be run by TensorFlow {tf.__version__}: '
                f'{errors.first_line(error)}'
            ) from error
    with tf1.Session(graph=graph) as session:
        yield Runner(_Session(session), artifact.graph, artifact.path)


def test_images(sizes: Sequence[Sequence[int]], seed: int = 0) -> Sequence[np.ndarray]:
    """Return images uint8 [height, width, 3] of patches on noise, functions of the seed."""
    random = np.random.RandomState(seed)
    images = []
    for height, width in sizes:
        image = random.randint(0, 90, [height, width, 3])
        for _ in range(4):
            top, left = random.randint(0, height // 2), random.randint(0, width // 2)
            image[top : top + height // 3, left : left + width // 3] += random.randint(0, 40, 3)
        images.append(image.astype(np.uint8))
    return images


def _known_nodes(graph_def: tf1.GraphDef) -> tf1.GraphDef:
    """Return a graph without the ops of TFLite's interpreter, and without what depends on them."""
    removed = {node.name for node in graph_def.node if node.op.startswith(_OF_DEVICES)}
    if not removed:
        return graph_def
    result = tf1.GraphDef()
    result.CopyFrom(graph_def)
    del result.node[:]
    for node in graph_def.node:  # in the order of dependence
        sources = set(map(freezing.node_name, node.input))
        if node.name in removed or sources & removed:
            removed.add(node.name)
        else:
            result.node.append(node)
    return result


def prepares_pixels(graph: Graph, input_name: str) -> bool:
    """Check whether a graph changes what it takes before its first layer."""
    tensor = first_layer_input(graph, input_name)
    if tensor is None:
        return False
    before = graph.ancestors([tensor.partition(':')[0]])
    return any(graph.nodes[name].op in _PREPARING for name in before)


def _find_input(graph: Graph, path: str) -> tuple[str, int]:
    """Return the name and the type of the placeholder that takes images."""
    placeholders = [name for name in graph.find_ops('Placeholder') if '/' not in name] or list(
        graph.find_ops('Placeholder')
    )
    types = {name: graph.nodes[name].attr['dtype'].type for name in placeholders}
    for wanted in (_UINT8, _STRING, _FLOAT):
        name: Optional[str] = next((name for name, kind in types.items() if kind == wanted), None)
        if name is not None:
            return name, wanted
    raise errors.UserError(
        f'--from: {path} is no vision model: it has no input of images; expected a placeholder of '
        'uint8, float32 or string.'
    )
