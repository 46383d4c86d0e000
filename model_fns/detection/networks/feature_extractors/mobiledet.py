"""Single-shot detectors on the MobileDets: for CPUs, DSPs, the EdgeTPU and GPUs."""

from __future__ import annotations

from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, stack_layout


@EXTRACTORS.register('ssd_mobiledet_cpu')
class SsdMobileDetCpu(StackedExtractor):
    """Feature extractor for CPUs: maps of strides 16 and 32, four stacked (Xiong et al. 2020)."""

    backbone = 'mobiledet_cpu'
    layout = stack_layout(['C4', 'C5'])
    unsupported = (
        *StackedExtractor.unsupported,
        ('padding', 'its backbone has no explicit padding'),
        ('override_base', 'its backbone always has its published style'),
    )


@EXTRACTORS.register('ssd_mobiledet_dsp')
class SsdMobileDetDsp(SsdMobileDetCpu):
    """Feature extractor for digital signal processors."""

    backbone = 'mobiledet_dsp'


@EXTRACTORS.register('ssd_mobiledet_edgetpu')
class SsdMobileDetEdgeTpu(SsdMobileDetCpu):
    """Feature extractor for the EdgeTPU."""

    backbone = 'mobiledet_edgetpu'


@EXTRACTORS.register('ssd_mobiledet_gpu')
class SsdMobileDetGpu(SsdMobileDetCpu):
    """Feature extractor for graphics processors."""

    backbone = 'mobiledet_gpu'
