"""Single-shot detectors on the MobileDets: for CPUs, DSPs, the EdgeTPU and GPUs."""

from __future__ import annotations

from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, layout_of


@EXTRACTORS.register('ssd_mobiledet_cpu')
class SsdMobileDetCpu(StackedExtractor):
    """The last map of strides 16 and 32, and four maps stacked on them (Xiong et al. 2020)."""

    backbone = 'mobiledet_cpu'
    layout = layout_of(['C4', 'C5'])
    unsupported = (
        *StackedExtractor.unsupported,
        ('padding', 'its backbone has no explicit padding'),
        ('override_base', 'its backbone always has its published style'),
    )


@EXTRACTORS.register('ssd_mobiledet_dsp')
class SsdMobileDetDsp(SsdMobileDetCpu):
    """The same for digital signal processors."""

    backbone = 'mobiledet_dsp'


@EXTRACTORS.register('ssd_mobiledet_edgetpu')
class SsdMobileDetEdgeTpu(SsdMobileDetCpu):
    """The same for that device."""

    backbone = 'mobiledet_edgetpu'


@EXTRACTORS.register('ssd_mobiledet_gpu')
class SsdMobileDetGpu(SsdMobileDetCpu):
    """The same for graphics processors."""

    backbone = 'mobiledet_gpu'
