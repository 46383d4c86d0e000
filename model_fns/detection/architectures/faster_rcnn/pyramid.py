"""Feature pyramid of both stages (Lin et al. 2016): its levels have anchors and are cropped.

Level L has a stride of 2^L pixels. Boxes of different sizes are cropped from different levels, so
that receptive fields are proportional to boxes. Two fully connected layers replace the last block
of the backbone.
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

# Channels of the layers for features of boxes, as published; no config changes them.
# Lin et al. 2016, section 4.2: two hidden layers of 1,024.
BOX_DEPTH = 1024
# Scopes of these layers, in their order.
_BOX_LAYERS = ('fully_connected', 'BatchNorm', 'fully_connected_1')

# The side in pixels of a box of the second to last level, as published.
# Equation 1 of the paper: the side of ImageNet's crops.
_SIDE = 224.0


@dataclasses.dataclass(frozen=True)
class FeaturePyramid:
    """The layers around the backbone of a two-stage detector with a pyramid.

    Attributes:
        levels: levels of the pyramid.
        build_style: is_training -> style of its convolutions, and of batch norm between the layers
            of boxes.
        type_name: type of the feature extractor.
        where: path of the config, for error messages.
        pad_to_multiple: images are padded to a multiple of it, at the bottom and right.
    """

    levels: Pyramid = dataclasses.field(default_factory=Pyramid)
    build_style: Callable[[bool], layers.LayerStyle] = layers.LayerStyle
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
        """Compute the levels, from fine to coarse, [B, height / 2^L, width / 2^L, depth] each.

        Args:
            end_points: end points of the backbone.
            network: the backbone.
            is_training: True: batch norm uses the batch's statistics, if the next one is set too.
            trains_batch_norm: False: batch norm uses its moving statistics in training too.

        Raises:
            errors.ConfigError: the backbone does not have the finest level, or there are no levels.
        """
        levels = self.levels
        if levels.smooths_all:
            levels = dataclasses.replace(levels, max_level=levels.max_level - 1)
        settings = Settings(
            self._style(is_training, trains_batch_norm),
            min_depth=1,
            pyramid=levels,
            type_name=self.type_name,
            where=self.where,
        )
        maps = pyramids.tapped_pyramid(
            end_points, network, settings, 'bottom_up_block{}', first_coarse=5
        )
        # torchvision's last level is a max pool of one pixel: every second one.
        return [*maps, maps[-1][:, ::2, ::2]] if levels.smooths_all else maps

    def box_features(
        self, crops: tf.Tensor, is_training: bool, trains_batch_norm: bool
    ) -> tf.Tensor:
        """Compute the features of boxes, [n, 1, 1, channels].

        As published, the layers have the default initial values and no regularizer, and batch norm
        follows the activation of the first layer.

        Args:
            crops: [n, height, width, depth], crops of the levels.
            is_training: True: batch norm uses the batch's statistics, if the next one is set too.
            trains_batch_norm: False: batch norm uses its moving statistics in training too.
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
        """Build the rules of the paths of its variables, see `object_paths`.

        Args:
            variables: variables of the model.
            first: scope of the backbone.
            second: scope of the features of boxes.
            path: prefix of the paths of both.
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
        style = self.build_style(is_training)
        return style if trains_batch_norm else style.frozen()


def assign_levels(areas: tf.Tensor, count: int) -> tf.Tensor:
    """Assign a level of a pyramid to each box.

    The level is floor(log2(side / 224)) + count - 2, with the side of a square of the same area,
    clipped to the existing levels. The boxes of each level are twice as large as those of the
    previous one.

    Args:
        areas: float32 [n], areas of boxes in square pixels of the input.
        count: number of levels.

    Returns:
        int32 [n], in [0, count).
    """
    # Areas are compared with bounds, because a logarithm would round, and is undefined for a box
    # without an area.
    # The published code counts from the last level. With levels 2 to 6 a side of 224 is on level 5,
    # one coarser than in the paper. torchvision crops from four levels, and so from level 4.
    least = [(_SIDE * 2.0 ** (level - count + 2)) ** 2 for level in range(1, count)]
    reached = areas[:, tf.newaxis] >= tf.constant(least, areas.dtype)
    return tf.reduce_sum(tf.cast(reached, tf.int32), axis=1)


def crop_by_level(
    crop: Callable[[int, tf.Tensor, tf.Tensor], tf.Tensor],
    count: int,
    levels: tf.Tensor,
    boxes: tf.Tensor,
    images: tf.Tensor,
) -> tf.Tensor:
    """Crop boxes from their levels, in the order of the boxes.

    Args:
        crop: (level, boxes, images) -> crops.
        count: number of levels.
        levels: int32 [n], levels of the boxes.
        boxes: [n, K].
        images: int32 [n]: index in the batch of each box.
    """
    num_boxes = tf.shape(levels)[0]
    # Each level crops the first box too, for a row that is dropped: OpenVINO returns uninitialized
    # memory where a level has no box.
    dropped = tf.range(num_boxes)[:1] + num_boxes
    rows, crops = [], []
    for level in range(count):
        selected = tf.cast(tf.where(tf.equal(levels, level))[:, 0], tf.int32)
        own_boxes, own_images = (
            tf.concat([tf.gather(values, selected), values[:1]], 0) for values in (boxes, images)
        )
        rows.append(tf.concat([selected, dropped], 0))
        crops.append(crop(level, own_boxes, own_images))
    # The row `dropped` comes from each level. It is the last one, and is cut off.
    return tf.dynamic_stitch(rows, crops)[:num_boxes]
