"""Backbones of segmentation, and DeepLab's rules for building and tapping them."""

from __future__ import annotations

import dataclasses
from typing import Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.backbones import registry

_WHERE = 'model.segmentation.backbone'


@dataclasses.dataclass(frozen=True)
class SegmentationBackbone:
    """A network as a backbone of segmentation.

    Attributes:
        network: its description, which has a `segmentation`.
    """

    network: registry.Network

    @property
    def name(self) -> str:
        """Its name in a pipeline config."""
        return self.network.name

    @property
    def scope(self) -> str:
        """The variable scope of everything in it."""
        return self.network.scope

    @property
    def honors(self) -> Tuple[str, ...]:
        """The `registry.Options` that a config may set."""
        return self.network.segmentation.honors

    @property
    def mean_pixel(self) -> registry.Color:
        """The color of padding."""
        return self.network.segmentation.mean_pixel

    @property
    def weight_decay(self) -> float:
        """The factor of the L2 regularizer of the whole model where the config sets none."""
        return self.network.segmentation.options.get('weight_decay', 4e-5)

    @property
    def output_stride(self) -> int:
        """Input size over that of the last features, where the config sets none."""
        return int(self.network.segmentation.options.output_stride)

    @property
    def last_end_point(self) -> str:
        """The name of the features that heads read."""
        return self.network.segmentation.last_end_point

    def build(
        self,
        images: tf.Tensor,
        is_training: bool,
        options: Optional[registry.Options] = None,
        bounded_activation: bool = False,
        fine_tune_batch_norm: bool = True,
    ) -> Tuple[tf.Tensor, registry.EndPoints]:
        """Build the features of images.

        Args:
            images: float32 [batch, height, width, 3], of `normalize`. Height and width may be
                unknown.
            is_training: whether the network is trained.
            options: changes of the config; None: no changes. An unset output stride is
                `output_stride`.
            bounded_activation: ReLU6 in place of ReLU (ResNet V1 and Xception; the other networks
                have activations of their own).
            fine_tune_batch_norm: whether batch norm uses the batch's statistics in training, and
                updates the moving ones.

        Returns:
            The last features, [batch, height', width', channels], and all end points by name,
            decoder taps among them; in the options' compute type.

        Raises:
            errors.ConfigError: an option that this backbone does not have, or an output stride or
                multi_grid that it does not support.
        """
        options = options or registry.Options()
        self.check_options(options)
        options = self._complete(options).but(bounded=bounded_activation)
        style = options.apply_arithmetic(self.network.style(is_training, options))
        # DeepLab's FAQ asks for more than 12 images a batch where batch norm is fine-tuned.
        style = style if fine_tune_batch_norm else style.frozen()
        features = self.network.segmentation.features or self.network.features
        end_points = features(images, style, options)
        return end_points[self.last_end_point], end_points

    def check_options(self, options: registry.Options) -> None:
        """Refuse options that this backbone does not have.

        Raises:
            errors.ConfigError: there is one; the message names it and the supported ones.
        """
        for name in options.changed():
            if name not in (*self.honors, 'compute_dtype', 'quantization'):
                raise errors.ConfigError(
                    f'{_WHERE}.{name}: {self.name} has no such setting; got '
                    f'{getattr(options, name)!r}, expected it unset. It listens to '
                    f'{", ".join(self.honors)}.'
                )

    def normalize(self, images: tf.Tensor) -> tf.Tensor:
        """Normalize images as in the training of this backbone.

        Args:
            images: float32 [..., height, width, 3] in [0, 255].

        Returns:
            The same shape; in [-1, 1], or with the channels' means subtracted.
        """
        return self.network.segmentation.normalization(images)

    def decoder_tap(self, output_stride: int, where: str = '') -> str:
        """Return the name of the end point for a decoder at that output stride.

        Args:
            output_stride: 2, 4, 8 or 16; below that of the features.
            where: the config field of the stride, for the error message.

        Raises:
            errors.ConfigError: there is none; the message lists the available strides.
        """
        taps = self.network.segmentation.decoder_taps
        if output_stride not in taps:
            place = f'{where}: ' if where else ''
            raise errors.ConfigError(
                f'{place}{self.name} has no features for a decoder at output stride '
                f'{output_stride}; expected {_listed(taps)}.'
            )
        return taps[output_stride]

    def _complete(self, options: registry.Options) -> registry.Options:
        """Fill unset options with the network's own values."""
        changed = {name: getattr(options, name) for name in options.changed()}
        options = self.network.segmentation.options.but(**changed)
        if 'channel_divisor' not in self.honors:
            return options
        # As in DeepLab's published models, channels are rounded down to any number, or to multiples
        # of 8 where the depth multiplier is 1. Classifiers always round to multiples of 8:
        # `channel_divisor` sets that.
        step = int(options.get('channel_divisor', 8 if options.depth_multiplier == 1.0 else 1))
        return options.but(channel_divisor=step, min_depth=int(options.get('min_depth', step)))


def get_backbone(name: str) -> SegmentationBackbone:
    """Return the backbone of that name.

    Args:
        name: as in `Backbone.name`.

    Raises:
        errors.ConfigError: there is none; the message names the nearest.
    """
    return SegmentationBackbone(registry.get_network(name, f'{_WHERE}.name', 'segmentation'))


def _listed(strides: Mapping[int, str]) -> str:
    return ', '.join(str(stride) for stride in sorted(strides))
