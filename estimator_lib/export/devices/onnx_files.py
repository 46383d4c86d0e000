"""Files for ONNX: written by tf2onnx, run by onnxruntime; neither is needed by anything else.

The graph is the static one that all formats share, in operations of the standard alone; suppression
is one of them, `NonMaxSuppression`. A file takes pixels from 0 to 255, by default as float32 [1,
height, width, channels], and computes in float32; in float16, if that is asked for, with inputs and
outputs in float32. Of a network that was trained to be quantized it computes what the evaluation
computes: pairs of `QuantizeLinear` and `DequantizeLinear` round what is rounded.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import logging
import os
import sys
from typing import Any, ClassVar, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import environment, errors, logs
from estimator_lib.export.devices import onnx_ops, static_graph, whole_images
from estimator_lib.export.devices.device_files import (
    FLOAT16,
    NONE,
    DeviceModel,
    DeviceWriter,
    FileModel,
)
from estimator_lib.export.devices.static_graph import StaticGraph
from estimator_lib.export.metadata import model_facts
from estimator_lib.export.metadata.client_program import Runtime
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import INTERMEDIATE, Deployable, Ops

tf1 = tf.compat.v1

# Of 2021: what is in these networks is in it, and runtimes that are years old read it.
OPSET = 15

_MADE_WITH = ('opset', 'made_with')  # keys of the metadata

DYNAMIC = 'dynamic'  # of `--batch`

_INSTALL = "pip install 'vision-model-fns[onnx]'"
_WRITING = ('tf2onnx', 'onnx')
_RUNNING = 'onnxruntime'
# From its version 1.19 on onnx needs ml_dtypes 0.5, and TensorFlow up to 2.18 an older one.
_NEEDS_ML_DTYPES = (1, 19)
_ML_DTYPES = (0, 5)
_TYPES: Mapping[str, str] = {
    'tensor(float)': 'float32',
    'tensor(uint8)': 'uint8',
    'tensor(int32)': 'int32',
    'tensor(int64)': 'int64',
}


@dataclasses.dataclass(frozen=True)
class OnnxWriter(DeviceWriter):
    """Format of ONNX files.

    Attributes:
        batch: `DYNAMIC`: any number of images of one size; None: one image.
        input: `whole_images.IMAGE`: uint8 images of any size, which are resized inside; None:
            pixels of the size of the network.
    """

    batch: Optional[str] = None
    input: Optional[str] = None

    name: ClassVar[str] = 'onnx'
    file_name: ClassVar[str] = 'model.onnx'
    ops: ClassVar[Ops] = Ops.CORE
    quantizes: ClassVar[Tuple[str, ...]] = (NONE, FLOAT16)
    shows_intermediates: ClassVar[bool] = True
    runtime: ClassVar[Runtime] = Runtime(
        packages=('onnxruntime',),
        imports=('import onnxruntime',),
        load=(
            "session = onnxruntime.InferenceSession(os.path.join(folder, 'model.onnx'))",
            "dtype = about['inputs']['image']['dtype']",
            '',
            '',
            'def run(pixels):',
            "    found = session.run(None, {'image': pixels[np.newaxis].astype(dtype)})",
            '    return dict(zip([output.name for output in session.get_outputs()], found))',
            '',
        ),
    )

    @property
    def batch_size(self) -> Optional[int]:
        """Number of images that a file takes; None: any."""
        return 1 if self.batch is None else None

    def check(self) -> None:
        """Check that the packages of the extra [onnx] are installed.

        Raises:
            errors.UserError: one of them is missing, or does not go with TensorFlow's packages.
        """
        if sys.version_info < (3, 10) and not _is_installed('tf2onnx'):
            raise errors.UserError(
                '--format=onnx: tf2onnx has no release for Python 3.9 that goes with protobuf '
                f'{importlib.metadata.version("protobuf")}; expected Python 3.10 or later to write '
                'such a file (3.9 runs it).'
            )
        for package in (*_WRITING, _RUNNING):
            if not _is_installed(package):
                raise errors.UserError(
                    f'--format=onnx: the package {package} is not installed; {_INSTALL}'
                )
        version = importlib.metadata.version('onnx')
        present = importlib.metadata.version('ml_dtypes')
        is_new = environment.release(version) >= _NEEDS_ML_DTYPES
        if is_new and environment.release(present) < _ML_DTYPES:
            raise errors.UserError(
                f'--format=onnx: onnx {version} cannot be imported beside TensorFlow '
                f'{tf.__version__}, which goes with ml_dtypes {present}; expected onnx<1.19: '
                "pip install 'onnx<1.19'"
            )

    def convert(
        self,
        graph: StaticGraph,
        path: str,
        quantize: str,
        representative: Sequence[np.ndarray] = (),
    ) -> None:
        """Convert a network with tf2onnx, and to float16 with the converter of onnxruntime."""
        if quantize == FLOAT16 and graph.is_quantized:
            raise errors.UserError(
                f'--quantize={quantize}: the model was trained for int8 '
                f'(graph_rewriter.quantization), and opset {OPSET} rounds float32 only; leave it '
                'out.'
            )
        with tf.Graph().as_default() as built:
            image = graph.input()
            outputs = graph.add_evaluated(image, self.ops, with_intermediates=True)
        model = _converted(built.as_graph_def(), image, outputs)
        if quantize == FLOAT16:
            # Before values are hidden: they are float32, as outputs are.
            model = _round_to_float16(model)
        onnx_ops.hide_outputs(model, INTERMEDIATE)
        node = graph.deployable.plugin_node()
        if node is not None:
            onnx_ops.append_plugin(model, node)
        with tf.io.gfile.GFile(path, 'wb') as file:
            file.write(model.SerializeToString())

    def write(self, model: DeviceModel, source: Source, folder: str) -> None:
        """Convert the network, and add the facts of the model as metadata."""
        import onnx

        super().write(model, source, folder)
        path = os.path.join(folder, self.file_name)
        with tf.io.gfile.GFile(path, 'rb') as file:
            written = onnx.ModelProto.FromString(file.read())
        # `set_model_props` replaces all properties, those of `_converted` too.
        known = {one.key: one.value for one in written.metadata_props}
        onnx.helper.set_model_props(written, {**known, **model_facts.as_texts(model.facts)})
        with tf.io.gfile.GFile(path, 'wb') as file:
            file.write(written.SerializeToString())

    def load(self, path: str, num_threads: Optional[int] = None) -> FileModel:
        """Load a file in onnxruntime."""
        return OnnxModel(path, num_threads)

    def wrap_network(self, deployable: Deployable) -> Deployable:
        """Return a network that resizes images, if the option asks for it."""
        return deployable if self.input is None else whole_images.WholeImages(deployable)

    def load_checked(self, graph: StaticGraph, path: str) -> FileModel:
        """Load a file with its intermediate values as outputs too.

        The node of a plugin, which onnxruntime does not know, is left out.
        """
        node = graph.deployable.plugin_node()
        without = None if node is None else node.op
        return OnnxModel(path, without=without, shown=INTERMEDIATE)


class OnnxModel(FileModel):
    """File in onnxruntime, on the CPU.

    Args:
        path: of the file.
        num_threads: that a run may take; None: as many as the runtime likes.
        without: op of a node that ends the file and is not run; its inputs are returned, and
            `about` describes its outputs.
        shown: prefix of values that are returned too, and which `about` does not describe.

    Raises:
        errors.UserError: onnxruntime is not installed; the file cannot be read, or is not one of
            ours: an image in, named outputs.
    """

    def __init__(
        self,
        path: str,
        num_threads: Optional[int] = None,
        without: Optional[str] = None,
        shown: Optional[str] = None,
    ):
        if not _is_installed(_RUNNING):
            raise errors.UserError(
                f'{path}: the package {_RUNNING} is not installed; {_INSTALL}, or pip install '
                f'{_RUNNING}'
            )
        import onnxruntime

        self._path = path
        options = onnxruntime.SessionOptions()
        # Errors only.
        options.log_severity_level = 3
        options.intra_op_num_threads = num_threads or 0
        try:
            with tf.io.gfile.GFile(path, 'rb') as file:
                content = file.read()
            outputs = None
            if without is not None:
                content, outputs = onnx_ops.without_plugin(content, without)
            names: Sequence[str] = ()
            if shown is not None:
                content, names = onnx_ops.show_values(content, shown)
            # Builds with further providers refuse a session that does not list them (from 1.9 on).
            self._session = onnxruntime.InferenceSession(
                content, options, providers=['CPUExecutionProvider']
            )
        except Exception as error:  # the runtime's own have no base that is public
            reason = errors.first_line(error)
            raise errors.UserError(f'{path} cannot be run by onnxruntime: {reason}') from error
        inputs = self._session.get_inputs()
        input_names = [one.name for one in inputs]
        if input_names != [static_graph.INPUT]:
            raise errors.UserError(
                f'{path}: an ONNX file with the inputs {input_names}; expected one that '
                f'--mode=export --format=onnx has written, with the input {static_graph.INPUT!r}.'
            )
        metadata = self._session.get_modelmeta().custom_metadata_map
        self._names = [one.name for one in self._session.get_outputs()]
        self.about = {
            'inputs': {static_graph.INPUT: _described(inputs[0], 'pixels from 0 to 255')},
            'outputs': outputs
            or {
                one.name: _described(one)
                for one in self._session.get_outputs()
                if one.name not in names
            },
            **{key: metadata[key] for key in _MADE_WITH if key in metadata},
        }

    def run(self, image: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the outputs for images, `deployable.input_dtype` [batch, *input_shape].

        Raises:
            errors.UserError: onnxruntime cannot compute them.
        """
        try:
            found = self._session.run(self._names, {static_graph.INPUT: image})
        except Exception as error:  # see `__init__`
            reason = errors.first_line(error)
            raise errors.UserError(
                f'{self._path} fails on an image {list(image.shape)} in onnxruntime: {reason}'
            ) from error
        return dict(zip(self._names, found))


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _described(value: Any, meaning: str = '') -> Dict[str, Any]:
    """Describe an input or output for `export.json`."""
    return {
        'dtype': _TYPES.get(value.type, value.type),
        'shape': list(value.shape),
        **({'meaning': meaning} if meaning else {}),
    }


def _converted(graph_def: tf1.GraphDef, image: tf.Tensor, outputs: Mapping[str, tf.Tensor]) -> Any:
    """Return the `ModelProto`.

    Args:
        graph_def: without variables.
        image: the input.
        outputs: by the names that they get.

    Raises:
        errors.UserError: there is an op that the standard has not.
    """
    import onnx
    import tf2onnx.convert

    opset = max(OPSET, onnx_ops.least_opset(graph_def))
    _keep_loops(graph_def)
    names = {image.name: static_graph.INPUT, **{one.name: key for key, one in outputs.items()}}
    try:
        # The log of the converter is about itself, not about the model.
        with logs.silenced(('tensorflow', 'absl', 'tf2onnx'), logging.CRITICAL):
            model, _ = tf2onnx.convert.from_graph_def(
                graph_def,
                input_names=[image.name],
                output_names=[one.name for one in outputs.values()],
                opset=opset,
                custom_op_handlers=onnx_ops.handlers(),
                tensors_to_rename=names,
            )
    except Exception as error:  # the converter raises errors of any type
        reason = errors.first_line(error)
        raise errors.UserError(f'the network cannot be converted to ONNX: {reason}') from error
    onnx_ops.keep_empty_batches(model.graph)
    onnx_ops.separate_bodies(model.graph)
    onnx_ops.name_dimensions(model.graph)
    unknown = sorted(
        {node.op_type for node in onnx_ops.all_nodes(model.graph) if _is_unknown(node, opset)}
    )
    if unknown:
        raise errors.UserError(
            f'the network cannot be converted to ONNX: opset {opset} has no {", ".join(unknown)}.'
        )
    onnx.helper.set_model_props(
        model, {'opset': str(opset), 'made_with': f'tf2onnx {tf2onnx.__version__}'}
    )
    return model


def _round_to_float16(model: Any) -> Any:
    """Return a `ModelProto` that computes in float16, with the same inputs and outputs."""
    from onnxruntime.transformers import float16

    # It would give a `Resize` sizes and scales, which is invalid.
    blocked = [*float16.DEFAULT_OP_BLOCK_LIST, 'Resize']
    try:
        with logs.silenced(('onnxruntime.transformers.float16',), logging.CRITICAL):
            return float16.convert_float_to_float16(
                model, keep_io_types=True, op_block_list=blocked
            )
    except Exception as error:  # the converter raises errors of any type
        reason = errors.first_line(error)
        raise errors.UserError(f'the network cannot be converted to float16: {reason}') from error


def _keep_loops(graph_def: tf1.GraphDef) -> None:
    """Keep loops as one op, which becomes a `Loop`, where they would be lowered to branches."""
    bodies = [function.node_def for function in graph_def.library.function]
    for nodes in (graph_def.node, *bodies):
        for node in nodes:
            node.attr.pop('_lower_using_switch_merge', None)


def _is_unknown(node: Any, opset: int) -> bool:
    """Return True for an op that the converter has left with its name in TensorFlow."""
    import onnx

    return not onnx.defs.has(node.op_type, opset, node.domain)
