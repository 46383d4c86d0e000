"""Single-shot detectors on MobileNet V3, large and small, and on MobileNet EdgeTPU."""

from __future__ import annotations

from typing import Dict

import tensorflow as tf

from model_fns.backbones import mobilenet_parts, mobilenet_v3, registry
from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, layout_of

# For detection the moving statistics are published with a slower decay.
_OPTIONS = registry.Options(batch_norm_decay=0.9997)


@EXTRACTORS.register('ssd_mobilenet_v3_large')
class SsdMobileNetV3Large(StackedExtractor):
    """Two taps, the first within a block, and four maps stacked on them (Howard et al. 2019).

    Attributes:
        architecture: the backbone.
    """

    architecture = mobilenet_v3.LARGE_DETECTION
    backbone_scope = architecture.scope
    layout = layout_of(['layer_14/expansion_output', 'layer_17'])

    def end_points(self, images: tf.Tensor) -> Dict[str, tf.Tensor]:
        """See `StackedExtractor`."""
        settings = self.settings
        return mobilenet_v3.mobilenet_v3_features(
            images,
            settings.base_style(mobilenet_parts.mobilenet_style, _OPTIONS),
            self.architecture,
            depth_multiplier=settings.depth_multiplier,
            min_depth=settings.min_depth,
            final_endpoint=self.layout[1].tap,
            padding=settings.padding,
        )


@EXTRACTORS.register('ssd_mobilenet_v3_small')
class SsdMobileNetV3Small(SsdMobileNetV3Large):
    """The same for the small network."""

    architecture = mobilenet_v3.SMALL_DETECTION
    backbone_scope = architecture.scope
    layout = layout_of(['layer_10/expansion_output', 'layer_13'])


@EXTRACTORS.register('ssd_mobilenet_edgetpu')
class SsdMobileNetEdgeTpu(SsdMobileNetV3Large):
    """The same for the network that is made for that device; its last convolution is left out."""

    architecture = mobilenet_v3.EDGETPU
    backbone_scope = architecture.scope
    layout = layout_of(['layer_18/expansion_output', 'layer_23'])
