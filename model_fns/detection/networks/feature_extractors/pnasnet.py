"""Single-shot detectors on PNASNet-5 (Liu et al. 2018)."""

from __future__ import annotations

from typing import List

import tensorflow as tf

from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import (
    StackedExtractor,
    stack_layout,
    stacked_maps,
)

tf1 = tf.compat.v1


@EXTRACTORS.register('ssd_pnasnet')
class SsdPnasnet(StackedExtractor):
    """Feature extractor with two taps and four stacked maps, as published.

    The factor on channels and explicit padding only apply to the stacked maps. Their scope is not
    that of the backbone, whose scopes are those of a classifier without a prefix.
    """

    backbone = 'pnasnet_large'
    layout = stack_layout(['Cell_7', 'Cell_11'])
    averages_classifier = True

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the tapped and the stacked maps: [B, height', width', channels'] each."""
        end_points = self.end_points(images)
        with tf1.variable_scope('SSD_feature_maps'):
            return stacked_maps(end_points, self.layout, self.settings)
