"""Single-shot detectors on MobileNet V3, large and small, and on MobileNet EdgeTPU."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from model_fns.backbones import registry
from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, layout_of


@EXTRACTORS.register('ssd_mobilenet_v3_large')
class SsdMobileNetV3Large(StackedExtractor):
    """Two taps, the first within a block, and four maps stacked on them (Howard et al. 2019)."""

    backbone = 'mobilenet_v3_large_det'
    layout = layout_of(['layer_14/expansion_output', 'layer_17'])

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """See `FeatureExtractor`; what follows the last tap is left out."""
        return super().end_points(images, final_endpoint=self.layout[1].tap, **options)


@EXTRACTORS.register('ssd_mobilenet_v3_small')
class SsdMobileNetV3Small(SsdMobileNetV3Large):
    """The same for the small network."""

    backbone = 'mobilenet_v3_small_det'
    layout = layout_of(['layer_10/expansion_output', 'layer_13'])


@EXTRACTORS.register('ssd_mobilenet_edgetpu')
class SsdMobileNetEdgeTpu(SsdMobileNetV3Large):
    """The same for the network that is made for that device; its last convolution is left out."""

    backbone = 'mobilenet_edgetpu'
    layout = layout_of(['layer_18/expansion_output', 'layer_23'])
