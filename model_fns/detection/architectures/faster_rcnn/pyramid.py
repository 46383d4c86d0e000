"""A feature pyramid below both stages (Lin et al. 2016): boxes are found and cropped on its levels.

Level L has a stride of 2^L pixels. Boxes of different sizes are read from different levels, so that
their features have seen parts of the image in proportion; two fully connected layers take the place
of a backbone's last block.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, List, Sequence

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name
from model_fns import layers
from model_fns.backbones import registry
from model_fns.detection.networks import object_paths
from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import Pyramid, Settings

# Channels of the layers that features of boxes go through, as published whatever the config says.
BOX_DEPTH = 1024
# Scopes of these layers, in their order.
_BOX_LAYERS = ('fully_connected', 'BatchNorm', 'fully_connected_1')

# The side in pixels of a box of the last level but one, as published.
_SIDE = 224.0


@dataclasses.dataclass(frozen=True)
class FeaturePyramid:
    """The layers around the backbone of a two-stage detector with a pyramid.

    Attributes:
        levels: of the pyramid.
        style_for: is_training -> style of its convolutions, and of batch norm between the layers of
            boxes.
        type_name: of the feature extractor.
        where: path of its config, for error messages.
        pad_to_multiple: images are padded to a multiple of it, at the bottom and right.
    """

    levels: Pyramid = dataclasses.field(default_factory=Pyramid)
    style_for: Callable[[bool], layers.LayerStyle] = layers.LayerStyle
    type_name: str = ''
    where: str = ''
    pad_to_multiple: int = 32

    def maps(
        self,
        end_points: registry.EndPoints,
        network: registry.Network,
        is_training: bool,
        trains_batch_norm: bool,
    ) -> List[tf.Tensor]:
        """Return the levels, from fine to coarse, [B, height / 2^L, width / 2^L, depth] each.

        Args:
            end_points: of the backbone.
            network: the backbone.
            is_training: whether batch norm uses the batch's statistics,
            trains_batch_norm: where this is set too.

        Raises:
            errors.ConfigError: the backbone does not have the finest level, or there are no levels.
        """
        settings = Settings(
            self._style(is_training, trains_batch_norm),
            min_depth=1,
            pyramid=self.levels,
            type_name=self.type_name,
            where=self.where,
        )
        return pyramids.tapped_pyramid(
            end_points, network, settings, 'bottom_up_block{}', first_coarse=5
        )

    def box_features(
        self, crops: tf.Tensor, is_training: bool, trains_batch_norm: bool
    ) -> tf.Tensor:
        """Return the features of boxes, [n, 1, 1, channels].

        As published, the layers have first values and no regularizer of their own, and batch norm
        is behind the first one's activation.

        Args:
            crops: [n, height, width, depth], of the levels.
            is_training: see `maps`.
            trains_batch_norm: see `maps`.
        """
        added = self._style(is_training, trains_batch_norm)
        style = layers.LayerStyle(is_training=is_training, compute_dtype=added.compute_dtype)
        first, norm, second = _BOX_LAYERS
        flat = tf.reshape(crops, [-1, crops.shape[1:].num_elements()])
        hidden = layers.fully_connected(flat, BOX_DEPTH, style, first)
        if added.batch_norm is not None:
            hidden = layers.batch_norm(hidden, added.batch_norm, is_training, norm)
        hidden = layers.fully_connected(hidden, BOX_DEPTH, style, second)
        return hidden[:, tf.newaxis, tf.newaxis]

    def object_rules(
        self, variables: Sequence[tf.Variable], first: str, second: str, path: str
    ) -> object_paths.Rules:
        """Return the paths of its variables, see `object_paths`.

        Args:
            variables: of the model.
            first: scope of the backbone.
            second: scope of the features of boxes.
            path: what paths of both begin with.
        """
        levels = f'{path}proposal_features/'
        starts = [(name, f'{second}/{name}/') for name in _BOX_LAYERS]
        numbered = [
            name
            for name, start in starts
            if any(variable_name(variable).startswith(start) for variable in variables)
        ]
        return [
            *object_paths.pyramid_rules(
                variables,
                f'{first}/fpn',
                f'{levels}fpn_features_generator/',
                f'{levels}coarse_feature_layers/',
                pads=False,
            ),
            *(
                (f'{second}/{name}', f'{path}box_classifier_features/layer_with_weights-{index}')
                for index, name in enumerate(numbered)
            ),
        ]

    def _style(self, is_training: bool, trains_batch_norm: bool) -> layers.LayerStyle:
        style = self.style_for(is_training)
        return style if trains_batch_norm else style.frozen()


def level_of(areas: tf.Tensor, count: int) -> tf.Tensor:
    """Which level of a pyramid the features of a box are read from.

    floor(log2(side / 224)) + count - 2, with the side of a square of the same area, and not beyond
    the levels that there are: each level has boxes twice as large as the one before.

    Args:
        areas: float32 [n], of boxes, in square pixels of the input.
        count: of levels.

    Returns:
        int32 [n], in [0, count).
    """
    # A box is of level k or above when its side is at least this, without a logarithm that would
    # round, and that a box without a side has none of.
    least = [(_SIDE * 2.0 ** (level - count + 2)) ** 2 for level in range(1, count)]
    reached = areas[:, tf.newaxis] >= tf.constant(least, areas.dtype)
    return tf.reduce_sum(tf.cast(reached, tf.int32), axis=1)


def by_level(
    crop: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor],
    maps: Sequence[tf.Tensor],
    levels: tf.Tensor,
    boxes: tf.Tensor,
    images: tf.Tensor,
) -> tf.Tensor:
    """Return crops of boxes, each of its own level, in the order of the boxes.

    Args:
        crop: (map, boxes, images) -> crops.
        maps: of the levels.
        levels: int32 [n], of the boxes.
        boxes: [n, K].
        images: int32 [n]: the place in the batch of each.
    """
    rows, crops = [], []
    for level, features in enumerate(maps):
        of_level = tf.cast(tf.where(tf.equal(levels, level))[:, 0], tf.int32)
        rows.append(of_level)
        crops.append(crop(features, tf.gather(boxes, of_level), tf.gather(images, of_level)))
    return tf.dynamic_stitch(rows, crops)
