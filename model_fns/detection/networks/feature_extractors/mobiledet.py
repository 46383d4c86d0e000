"""Single-shot detectors on the MobileDets: for CPUs, DSPs, the EdgeTPU and GPUs."""

from __future__ import annotations

import functools

from model_fns.detection.networks.feature_extractors.extractor import EXTRACTORS, Settings
from model_fns.detection.networks.feature_extractors.stacks import StackedExtractor, stack_layout


class SsdMobileDet(StackedExtractor):
    """Feature extractor with maps of strides 16 and 32, and four stacked (Xiong et al. 2020).

    Args:
        settings: settings from the config.
        network: name of the backbone.
    """

    layout = stack_layout(['C4', 'C5'])
    unsupported = (
        *StackedExtractor.unsupported,
        ('padding', 'its backbone has no explicit padding'),
        ('override_base', 'its backbone always has its published style'),
    )

    def __init__(self, settings: Settings, network: str):
        super().__init__(settings)
        self.backbone = network


for _name in ('mobiledet_cpu', 'mobiledet_dsp', 'mobiledet_edgetpu', 'mobiledet_gpu'):
    EXTRACTORS.add(f'ssd_{_name}', functools.partial(SsdMobileDet, network=_name))
