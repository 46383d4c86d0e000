"""Single-shot detectors on the MobileDets: for CPUs, DSPs, the EdgeTPU and GPUs."""

from __future__ import annotations

from typing import Dict

import tensorflow as tf

from model_fns.backbones import mobiledet
from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, layout_of


@EXTRACTORS.register('ssd_mobiledet_cpu')
class SsdMobileDetCpu(StackedExtractor):
    """The last map of strides 16 and 32, and four maps stacked on them (Xiong et al. 2020).

    Attributes:
        architecture: the backbone.
    """

    architecture = mobiledet.CPU
    backbone_scope = architecture.scope
    layout = layout_of(['C4', 'C5'])
    unsupported = (
        *StackedExtractor.unsupported,
        ('padding', 'its backbone has no explicit padding'),
        ('override_base', 'its backbone always has its published style'),
    )

    def end_points(self, images: tf.Tensor) -> Dict[str, tf.Tensor]:
        """See `StackedExtractor`."""
        return mobiledet.mobiledet_features(
            images,
            self.settings.base_style(mobiledet.mobiledet_style),
            self.architecture,
            depth_multiplier=self.settings.depth_multiplier,
        )


@EXTRACTORS.register('ssd_mobiledet_dsp')
class SsdMobileDetDsp(SsdMobileDetCpu):
    """The same for digital signal processors."""

    architecture = mobiledet.DSP
    backbone_scope = architecture.scope


@EXTRACTORS.register('ssd_mobiledet_edgetpu')
class SsdMobileDetEdgeTpu(SsdMobileDetCpu):
    """The same for that device."""

    architecture = mobiledet.EDGETPU
    backbone_scope = architecture.scope


@EXTRACTORS.register('ssd_mobiledet_gpu')
class SsdMobileDetGpu(SsdMobileDetCpu):
    """The same for graphics processors."""

    architecture = mobiledet.GPU
    backbone_scope = architecture.scope
