"""Interface of tasks for serving: signatures, files of exports, static graphs for devices."""

from __future__ import annotations

import abc
from typing import Dict, Optional, Sequence, Tuple, TypeVar

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task_interfaces import agreement
from estimator_lib.task_interfaces.deployable import NO_CHANGES, Deployable, DeploymentOptions, Ops
from estimator_lib.task_interfaces.image_format import COLOR, ImageFormat
from estimator_lib.task_interfaces.tensors import Arrays, Features, Tensors

DeploymentT = TypeVar('DeploymentT', bound='Deployment')


class Deployment(abc.ABC):
    """Methods of a task for SavedModels, frozen graphs, and files for small devices.

    Attributes:
        image_format: format of the images that a server receives.
        hub_tag: the `pipeline_tag` of the Hugging Face Hub for such models; empty: it has none.
    """

    image_format: ImageFormat = COLOR
    hub_tag: str = ''

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Return the name of the task in messages: `classification`."""

    @abc.abstractmethod
    def serving_features(self, images: tf.Tensor) -> Features:
        """Build features of the images that a server receives.

        Args:
            images: [batch, height, width, channels] of `image_format`, from 0 to 255; height and
                width are not static.
        """

    def serving_side_inputs(
        self, batch_size: tf.Tensor, examples: Optional[tf.Tensor]
    ) -> Tuple[Features, Tensors]:
        """Build inputs of a server beside the images; by default there are none.

        Args:
            batch_size: int32 scalar, the number of images.
            examples: string [batch], the serialized records, where a server receives these; the
                inputs are read from them.

        Returns:
            Features beside those of `serving_features`, and the placeholders that receive them, by
            their keys in the signature. Placeholders have defaults, so that a client may leave
            them out.
        """
        del batch_size, examples
        return {}, {}

    @abc.abstractmethod
    def export_outputs(self, outputs: Tensors) -> Tensors:
        """Return the outputs of the `serving_default` signature by name.

        Args:
            outputs: from `postprocess`.
        """

    def compare_served(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """Return the matching part of each output of a server's export, in [0, 1].

        Outputs whose rows are chosen by scores may have another order where scores are equal but
        for rounding.

        Args:
            expected: outputs of `export_outputs` for each image, by name.
            found: those of the export.
        """
        return agreement.compare(expected, found)

    def evaluated_outputs(self, served: Tensors, sizes: tf.Tensor, features: Features) -> Tensors:
        """Return outputs for `Task.metrics`, of those that a served model gives for whole images.

        Args:
            served: outputs of `export_outputs`, each [B, ..]. What depends on the size of an image
                is padded with zeros at the bottom and right.
            sizes: int32 [B, 2], height and width of the images that were served.
            features: of the same images, as evaluation prepares them.
        """
        del sizes, features
        return dict(served)

    def as_exported(self: DeploymentT) -> DeploymentT:
        """Return the task as exports have it, by default the task itself.

        A task that computes several passes in evaluations and predictions has one pass there.
        """
        return self

    def image_tensor_name(self) -> str:
        """Return the name of the input in frozen graphs, as programs for published ones feed it."""
        return 'image_tensor'

    def deployable(self, ops: Ops, options: DeploymentOptions = NO_CHANGES) -> Deployable:
        """Return the network in its form for small devices.

        Args:
            ops: the ops that the format can compute.
            options: changes of the network for the file.

        Raises:
            errors.UserError: the task does not have an option, or the format cannot express its
                config; nothing has been built.
        """
        del ops, options
        raise errors.UserError(
            f'{self.name} has no files for devices; expected --format=saved_model.'
        )
