"""Files for devices, whose input is one image of a fixed size and whose outputs have names.

A new format needs a `DeviceWriter` in a module of its own, and a line in `formats`.
"""

from __future__ import annotations

import abc
import dataclasses
import logging
import os
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.export import artifacts, samples
from estimator_lib.export.devices import static_graph
from estimator_lib.export.devices.static_graph import StaticGraph
from estimator_lib.export.metadata import client_program, model_facts
from estimator_lib.export.writers import Source, Writer
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.deployable import NO_CHANGES, Deployable, DeploymentOptions, Ops
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

NONE, DYNAMIC, FLOAT16, INT8 = 'none', 'dynamic', 'float16', 'int8'

_EXAMPLES = 100
_CELL = 16  # side of the squares of the image that a program is run on
_IMAGES = 20  # that the file is run on
# The part of the outputs that must agree, by the arithmetic of the file. The bound for 8 bits finds
# failed conversions, not small losses of accuracy.
_LEAST_AGREEMENT: Mapping[str, float] = {NONE: 0.97, FLOAT16: 0.95, DYNAMIC: 0.8, INT8: 0.8}


class FileModel(abc.ABC):
    """Loaded file of a format.

    Attributes:
        about: content of `export.json` on its inputs and outputs, and on what it was made with.
    """

    about: Mapping[str, Any]

    @abc.abstractmethod
    def run(self, image: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the outputs for an image, by the names of `Deployable.meanings`.

        Args:
            image: `Deployable.input_dtype` [batch, *input_shape] in [0, 255]; a file of integers
                gets float32 rounded.
        """


class DeviceModel(NamedTuple):
    """Network that is converted.

    Attributes:
        graph: the network.
        quantize: `NONE`, `DYNAMIC`, `FLOAT16` or `INT8`.
        representative: for `INT8`, float32 [1, *input_shape] each.
        facts: of the model, for `export.json` and the metadata of files.
    """

    graph: StaticGraph
    quantize: str
    representative: Sequence[np.ndarray]
    facts: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class DeviceWriter(Writer[DeviceModel]):
    """Format of files for devices.

    Attributes:
        quantize: one of `quantizes`; None: `INT8` where the network was trained for it, else
            `NONE`.
        representative_examples: how many images the ranges of `INT8` are measured on.
        keep_float: names of tensors that `INT8` leaves in float.
        max_loss: of the main metric against the checkpoint, for files that round; None: outputs
            must agree with those of the network.
        deployment: changes of the network for the file.
        ops: what the format computes with.
        quantizes: the kinds of arithmetic that the format has.
        ends_process: whether loading a corrupt file may end the process by a signal.
        runtime: what programs run the file with; None: there is no program beside it.
        shows_intermediates: whether `load_checked` returns `Deployable.intermediates` too.
    """

    quantize: Optional[str] = None
    representative_examples: int = _EXAMPLES
    keep_float: Tuple[str, ...] = ()
    max_loss: Optional[float] = None
    deployment: DeploymentOptions = NO_CHANGES

    ops: ClassVar[Ops]
    runtime: ClassVar[Optional[client_program.Runtime]] = None
    quantizes: ClassVar[Tuple[str, ...]] = (NONE,)
    ends_process: ClassVar[bool] = False
    shows_intermediates: ClassVar[bool] = False

    def check(self) -> None:
        """Check for the packages that the format needs, before anything is built.

        Raises:
            errors.UserError: a package is missing; the message tells how to install it.
        """
        del self

    @abc.abstractmethod
    def convert(
        self,
        graph: StaticGraph,
        path: str,
        quantize: str,
        representative: Sequence[np.ndarray] = (),
    ) -> None:
        """Write a network as a file.

        Args:
            graph: the network.
            path: of the file.
            quantize: one of `quantizes`.
            representative: float32 [1, *input_shape] each, for the ranges of `INT8`; else empty.

        Raises:
            errors.UserError: the format cannot hold the network.
        """

    @abc.abstractmethod
    def load(self, path: str, num_threads: Optional[int] = None) -> FileModel:
        """Load a file.

        Args:
            path: of the file.
            num_threads: that a run may take; None: as many as the runtime likes.

        Raises:
            errors.UserError: it is not of the format, or cannot be run.
        """

    @property
    def batch_size(self) -> Optional[int]:
        """Number of images that a file takes; None: any."""
        return 1

    def wrap_network(self, deployable: Deployable) -> Deployable:
        """Return a network with what the options of the format add to it."""
        return deployable

    def load_checked(self, graph: StaticGraph, path: str) -> FileModel:
        """Load the part of a file that can be compared with its network."""
        del graph
        return self.load(path)

    def explain(self, model: DeviceModel) -> Sequence[str]:
        """Return lines on why a file computes something else than the network, if known."""
        del self, model
        return ()

    def build(self, source: Source) -> DeviceModel:
        """Build the network of constants, and the images for quantization."""
        task, config = source.task, source.config
        quantize = self._resolve_arithmetic(config)
        if self.max_loss is not None and source.measure is None:
            raise errors.UserError(
                f'max_loss={self.max_loss:g} needs an evaluation: pass measure to export().'
            )
        deployable = self.wrap_network(task.deployable(self.ops, self.deployment))
        self.check()
        representative: List[np.ndarray] = []
        if quantize == INT8:
            sample = samples.representative(task, config, self.representative_examples)
            log.info('ranges of activations are measured on %s', sample)
            representative = samples.pixels(task, deployable, sample.images)
        graph = static_graph.build(deployable, source, self.batch_size)
        facts = model_facts.describe(source, deployable, graph.batch)
        return DeviceModel(graph, quantize, representative, facts)

    def write(self, model: DeviceModel, source: Source, folder: str) -> None:
        """Convert the network."""
        path = os.path.join(folder, self.file_name)
        self.convert(model.graph, path, model.quantize, model.representative)

    def verify(self, model: DeviceModel, source: Source, folder: str) -> Dict[str, Any]:
        """Run the file on images of the evaluation, beside the network."""
        graph, path = model.graph, os.path.join(folder, self.file_name)
        deployable = graph.deployable
        sample = samples.evaluation_images(source.task, source.config, _IMAGES)
        images = samples.pixels(source.task, deployable, sample.images)
        file = self.load_checked(graph, path)
        if graph.batch is None:
            images = _in_batches(images)
        computed = [one for batch in images for one in _apart(file.run(batch))]
        in_tensorflow = graph.run(images, self.shows_intermediates)
        expected = [one for batch in in_tensorflow for one in _apart(batch)]
        # What is rounded differs by a step where numbers differ by rounding.
        arithmetic = INT8 if graph.is_quantized else model.quantize
        parts = deployable.agreement(expected, computed, exact=arithmetic == NONE)
        least = _LEAST_AGREEMENT[arithmetic] if self.max_loss is None else 0.0
        metric: Dict[str, Any] = {}
        try:
            # First, as a file of constants may agree in most numbers where little is detected.
            agreement.require_change(expected, computed, path)
            agreement.require(parts, least, path, str(sample))
            if self.max_loss is not None:
                assert source.measure is not None  # checked before the conversion
                pair = source.measure(path)
                agreement.require_metric(pair, self.max_loss, path)
                metric = {'metric': {**pair._asdict(), 'max_loss': self.max_loss}}
        except errors.UserError as error:
            raise errors.UserError('\n'.join([str(error), *self._list_worst(model)])) from error
        return {
            'quantize': model.quantize,
            'quantization_aware': graph.is_quantized,
            **model.facts,
            **_with_meanings(file.about, deployable.meanings),
            'agreement': {
                'images': str(sample),
                'outputs': parts,
                'largest_differences': deployable.largest_differences(expected, computed),
            },
            **metric,
            **artifacts.describe_file(path),
        }

    def _list_worst(self, model: DeviceModel) -> Sequence[str]:
        """Return `explain`, or nothing where that fails: the refusal counts, not its cause."""
        try:
            return self.explain(model)
        except errors.UserError as error:
            log.warning('the tensors of the file are not compared: %s', errors.first_line(error))
            return ()

    def finish(self, model: DeviceModel, source: Source, folder: str) -> None:
        """Write the program that predicts images with the file, and run it; say the notes."""
        for note in model.graph.deployable.notes:
            log.info('%s: %s', self.file_name, note)
        if self.runtime is None:
            return
        program = client_program.text(model.graph.deployable, self.runtime)
        image = samples.noise(0, _CELL, source.task.image_format.channels)
        client_program.write(folder, program, self.runtime, image)

    def _resolve_arithmetic(self, config: pipeline_pb2.TrainEvalPipelineConfig) -> str:
        """Return the kind of arithmetic.

        Raises:
            errors.UserError: the format has no such kind, the network was trained for another, or
                an option is given that its kind does not have.
        """
        is_aware = config.graph_rewriter.HasField('quantization') and INT8 in self.quantizes
        quantize = self.quantize or (INT8 if is_aware else NONE)
        if quantize not in self.quantizes:
            raise errors.UserError(
                f'--quantize={quantize}: --format={self.name} has '
                f'{" and ".join(self.quantizes)}; expected {self.quantizes[0]}, or --format=tflite.'
            )
        if is_aware and quantize != INT8:
            raise errors.UserError(
                f'--quantize={quantize}: the model was trained for int8 '
                '(graph_rewriter.quantization); expected int8, or leave it out.'
            )
        if quantize != INT8 and self.representative_examples != _EXAMPLES:
            raise errors.UserError(
                f'--representative_examples={self.representative_examples} is of --quantize=int8; '
                'leave it out.'
            )
        for name in self.keep_float[:1]:
            if quantize != INT8:
                raise errors.UserError(f'--keep_float={name} is of --quantize=int8; leave it out.')
            if is_aware:
                raise errors.UserError(
                    f'--keep_float={name}: the model was trained for int8 '
                    '(graph_rewriter.quantization), with a range for each tensor; leave it out.'
                )
        rounds = quantize != NONE or config.graph_rewriter.HasField('quantization')
        if not rounds and self.max_loss is not None:
            raise errors.UserError(
                f'--max_loss={self.max_loss:g} is of files that round (--quantize); leave it out.'
            )
        return quantize


def _in_batches(images: Sequence[np.ndarray]) -> List[np.ndarray]:
    """Put images [1, height, width, channels] of the same size together."""
    by_shape: Dict[Tuple[int, ...], List[np.ndarray]] = {}
    for image in images:
        # One batch has images of one size; files with images of any size take several batches.
        by_shape.setdefault(image.shape, []).append(image)
    return [np.concatenate(group) for group in by_shape.values()]


def _apart(outputs: Mapping[str, np.ndarray]) -> List[Dict[str, np.ndarray]]:
    """Return the outputs of each image of a batch, with a leading dimension of 1."""
    count = len(next(iter(outputs.values())))
    return [
        {name: value[index : index + 1] for name, value in outputs.items()}
        for index in range(count)
    ]


def _with_meanings(about: Mapping[str, Any], meanings: Mapping[str, str]) -> Dict[str, Any]:
    outputs = {
        name: {**details, 'meaning': meanings[name]} for name, details in about['outputs'].items()
    }
    return {**about, 'outputs': outputs}
