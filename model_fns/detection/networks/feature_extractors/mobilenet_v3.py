"""Single-shot detectors on MobileNet V3, large and small, and on MobileNet EdgeTPU."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from model_fns.backbones import registry
from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, stack_layout


@EXTRACTORS.register('ssd_mobilenet_v3_large')
class SsdMobileNetV3Large(StackedExtractor):
    """Feature extractor with two taps and four stacked maps (Howard et al. 2019)."""

    backbone = 'mobilenet_v3_large_det'
    # Howard et al. 2019, section 6.3: the expansion layer of the 13th bottleneck block (the 9th of
    # the small network), and the layer before pooling. layer_1 is the first convolution.
    layout = stack_layout(['layer_14/expansion_output', 'layer_17'])

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """Compute the backbone's feature maps up to the last tap.

        Returns:
            [B, height', width', channels'] each.
        """
        return super().end_points(images, final_endpoint=self.layout[1].tap, **options)


@EXTRACTORS.register('ssd_mobilenet_v3_small')
class SsdMobileNetV3Small(SsdMobileNetV3Large):
    """Feature extractor on the small network."""

    backbone = 'mobilenet_v3_small_det'
    layout = stack_layout(['layer_10/expansion_output', 'layer_13'])


@EXTRACTORS.register('ssd_mobilenet_edgetpu')
class SsdMobileNetEdgeTpu(SsdMobileNetV3Large):
    """Feature extractor on the network for the EdgeTPU, without its last convolution."""

    backbone = 'mobilenet_edgetpu'
    layout = stack_layout(['layer_18/expansion_output', 'layer_23'])
