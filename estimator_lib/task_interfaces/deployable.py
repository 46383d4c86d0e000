"""Interface of a task for small devices: a static graph, which TFLite and ONNX share.

A device has no decoder, no dynamic image sizes, no loops, and no good resizing. So a `Deployable`
splits the graph of a SavedModel into the part of the file and the parts of the host program:

    features -> `pixels` -> [ `network` -> `finish` ] -> `outputs`
    host        host          file         file          host

`pixels` and `outputs` are graph functions on batches that any host can run: `--mode=predict` and
`--mode=evaluate` do, around the file, so that what comes out means what it means for a checkpoint.
`network` has all variables and is frozen (see `static_graph`); `finish` has none, and is added to
the frozen network in ops that the format knows.

A writer of a format asks for nothing else: see `formats`.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from types import MappingProxyType
from typing import (
    Any,
    ClassVar,
    Collection,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.resizing import Resize
from estimator_lib.task_interfaces.tensors import Arrays, Features, Tensors

# Before the names of `Deployable.intermediates`, where they are beside outputs.
INTERMEDIATE = 'intermediate/'


class Ops(enum.Enum):
    """Ops that a format has.

    Attributes:
        CORE: ops of TensorFlow without control flow, which every converter knows.
        TFLITE: these, and the custom ops that TFLite's interpreter registers by itself.
        TFLITE_INT8: the same in a file whose values are rounded to 8 bits.
    """

    CORE = 'core'
    TFLITE = 'tflite'
    TFLITE_INT8 = 'tflite_int8'


@dataclasses.dataclass(frozen=True)
class DeploymentOptions:
    """Options of an export that change the network of a file; a task refuses those of others.

    Attributes:
        max_detections: largest number of detections of an image; None: that of the config.
        fast_nms: True: boxes of different classes suppress each other, too.
        suppression: `STANDARD`: the file drops boxes that overlap; else another form of the task.
        confidence_masks: True: the only output is a mask of probabilities for each class.
    """

    STANDARD: ClassVar[str] = 'standard'

    max_detections: Optional[int] = None
    fast_nms: bool = False
    suppression: str = STANDARD
    confidence_masks: bool = False

    def changed(self) -> List[str]:
        """Return the names of the options that have another value than their default."""
        fields = dataclasses.fields(self)
        return [field.name for field in fields if getattr(self, field.name) != field.default]

    def refuse_others(self, known: Collection[str], reason: str) -> None:
        """Refuse options that mean nothing to a task.

        Args:
            known: names of the options that the task has.
            reason: why it has no others.

        Raises:
            errors.UserError: another one is set.
        """
        for name in self.changed():
            if name not in known:
                raise errors.UserError(f'--{name}: {reason}; leave it out.')


NO_CHANGES = DeploymentOptions()


class Content(enum.Enum):
    """Content of an output, for programs that know nothing of this project.

    A value is the name by which MediaPipe Tasks look for the output; empty: by no name.

    Attributes:
        CLASS_SCORES: a score of each class, in the last axis.
        BOXES: rows of ymin, xmin, ymax, xmax, normalized to the input.
        CLASS_NUMBERS: the class of each box, from 0.
        BOX_SCORES: the score of each box.
        COUNT: the number of boxes.
    """

    CLASS_SCORES = ''
    BOXES = 'location'
    CLASS_NUMBERS = 'category'
    BOX_SCORES = 'score'
    COUNT = 'number of detections'


class PluginNode(NamedTuple):
    """Node of a runtime's plugin, after what `Deployable.finish` computes.

    Attributes:
        op: its name.
        domain: of the name.
        inputs: names of outputs of `Deployable.finish`.
        outputs: types and shapes, without the batch, of the outputs of the file by name.
        attributes: by name.
    """

    op: str
    domain: str
    inputs: Sequence[str]
    outputs: Mapping[str, Tuple[str, Tuple[int, ...]]]
    attributes: Mapping[str, Any]


class Deployable(abc.ABC):
    """Network of a task for one image.

    Attributes:
        input_shape: (height, width, channels) of the image; None for a side that may be any.
        meanings: what each output of the file is, by its name: for people who read `export.json`.
        contents: content of the outputs that other programs know, by name, in the order in which
            they expect them; further outputs follow these.
        kind: what the file does, as other programs call it: `detect`, `classify`; '': no such name.
        resize: the rule that brings an image to `input_shape`; None: it cannot be said in a line.
        report: lines of Python that make `results` of `outputs`, for the program beside a file; see
            `client_program`. Empty: there is no program.
        input_dtype: type of the input.
        takes_images: whether the input is whole images and not `pixels`.
        sizes: shapes of outputs without the batch, by name, as far as the config fixes them: a file
            with other ones belongs to another config. None: any side.
        scales_down_to: height and width of the largest image whose outputs for each pixel are of
            that pixel; larger images are scaled down. None: there are no such outputs.
        notes: sentences for who runs the file, which an export says.
        tflite_ops: custom ops that a TFLite file of this network must have.
    """

    input_shape: Tuple[Optional[int], Optional[int], int]
    meanings: Mapping[str, str]
    contents: Mapping[str, Content] = MappingProxyType({})
    kind: str = ''
    resize: Optional[Resize] = None
    report: Sequence[str] = ()
    input_dtype: tf.DType = tf.float32
    takes_images: bool = False
    sizes: Mapping[str, Sequence[Optional[int]]] = MappingProxyType({})
    scales_down_to: Optional[Tuple[int, int]] = None
    notes: Sequence[str] = ()
    tflite_ops: Collection[str] = ()

    @abc.abstractmethod
    def pixels(self, features: Features) -> tf.Tensor:
        """Return the input of the file for each image of a batch.

        Args:
            features: from `Task.prepare` in evaluation or from `Task.serving_features`.

        Returns:
            float32 [B, *input_shape] in [0, 255], not rounded; a bicubic resize may exceed that
            range a little. A program on a device brings images to that size in its own way, and
            feeds the pixels as they are.
        """

    def content_sizes(self, features: Features) -> Optional[tf.Tensor]:
        """Return the size of the part of each image of `pixels` that the file is given.

        Args:
            features: the features that `pixels` got.

        Returns:
            int32 [B, 2], height and width; None: the whole.
        """
        del features
        return None

    @abc.abstractmethod
    def network(self, pixels: tf.Tensor) -> Tensors:
        """Build the inference network without the selection of its outputs.

        Args:
            pixels: float32 [B, *input_shape] in [0, 255]; normalization is the network's. B is 1,
                or None for a format whose files take batches.

        Returns:
            Raw outputs by name, of static shape where that of the input is static.
        """

    def finish(self, raw: Tensors, ops: Ops) -> Tensors:
        """Build the outputs of the file: the raw ones, unless the task chooses among them.

        Args:
            raw: of `network`, maybe from another graph than it was built in; no variables may be
                made.
            ops: what may be used. All give the same outputs, by the same names.

        Returns:
            By the names of `meanings`, with the leading dimension of the input.
        """
        del ops
        return dict(raw)

    def intermediates(self, raw: Tensors) -> Tensors:
        """Return values by which a file is compared with TensorFlow, besides its outputs.

        Outputs that are chosen among many values say little where nothing is chosen.

        Args:
            raw: outputs of `network`, maybe from another graph than it was built in; no variables
                may be made.

        Returns:
            By names of their own, with the leading dimension of the input; none by default.
        """
        del raw
        return {}

    def plugin_node(self) -> Optional[PluginNode]:
        """Return the node that ends the file; None: the outputs are those of `finish`."""
        return None

    @abc.abstractmethod
    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """Build the outputs of `Task.postprocess`, for `Task.metrics` and `Task.export_outputs`.

        Args:
            found: outputs of files, [B, ..], by the names of `meanings`.
            features: what `pixels` was given.

        Returns:
            Outputs of the batch; raw ones that no file has may be missing.
        """

    def of_file(self, outputs: Collection[str]) -> Deployable:
        """Return the network whose file has these outputs.

        Args:
            outputs: names of the outputs of a file.

        Returns:
            This one, unless an option of the export has left out some of its outputs.
        """
        del outputs
        return self

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """Compare the outputs of a file with those of TensorFlow.

        Args:
            expected: outputs of `finish` in TensorFlow, of each image, and `intermediates` if the
                format shows them; their names begin with `INTERMEDIATE`.
            found: the same of the file for the same images.
            exact: whether the file computes in float32; else numbers may differ somewhat.

        Returns:
            The matching parts, in [0, 1], by name. Each must reach a bound.
        """
        return agreement.compare(expected, found, exact)

    def largest_differences(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """Return the largest differences of outputs: for `export.json`, without a bound.

        Args:
            expected: outputs of TensorFlow, of each image, by name.
            found: likewise.
        """
        return agreement.largest_differences(expected, found)


def content(pixels: np.ndarray, sizes: Optional[np.ndarray]) -> List[np.ndarray]:
    """Return what a file is given for each image of a batch: float32 [1, height, width, channels].

    Args:
        pixels: of `Deployable.pixels`.
        sizes: of `Deployable.content_sizes`.
    """
    if sizes is None:
        sizes = np.array([pixels.shape[1:3]] * len(pixels))
    return [
        pixels[index : index + 1, :height, :width] for index, (height, width) in enumerate(sizes)
    ]
