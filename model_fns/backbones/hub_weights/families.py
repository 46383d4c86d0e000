"""Table of the families, and of the models of timm whose weights fit our networks."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Tuple

from model_fns.backbones.hub_weights import convnext, inception, mobile, resnet, searched, xception
from model_fns.backbones.hub_weights.family import Family

# The first family whose signature fits a file is taken: MobileNets have the names of EfficientNets.
FAMILIES: Tuple[Family, ...] = (
    mobile.MOBILENET_V3,
    mobile.EFFICIENTNET,
    mobile.EFFICIENTNET_V2,
    inception.INCEPTION_V3,
    inception.INCEPTION_V4,
    inception.INCEPTION_RESNET_V2,
    searched.NASNET,
    searched.PNASNET,
    xception.XCEPTION,
    resnet.RESNET,
    convnext.CONVNEXT,
)

# Tags of models above that were trained with other paddings or another normalization of pixels.
FOREIGN_TAGS: Mapping[str, Tuple[str, ...]] = {
    'inception_v3': ('tv_in1k', 'gluon_in1k'),
    'xception65': ('ra3_in1k',),
    'tf_efficientnetv2_b3': ('in21k', 'in21k_ft_in1k'),
    'convnext_base': (
        'clip_laion2b_augreg_ft_in12k_in1k',
        'clip_laion2b_augreg_ft_in12k_in1k_384',
        'clip_laion2b_augreg_ft_in1k',
        'clip_laiona_augreg_ft_in1k_384',
    ),
    'resnet34': ('ra4_e3600_r224_in1k',),
    **dict.fromkeys(mobile.EFFICIENTNET.networks, ('ap_in1k',)),
}


def list_models(family: Optional[Family] = None) -> List[str]:
    """Return the names of all models, as `tf_efficientnet_b0.in1k`; of one family, or of all."""
    return [
        f'{model}.{tag}'
        for each in ((family,) if family else FAMILIES)
        for model, tags in each.tags.items()
        for tag in tags
    ]


def networks() -> Dict[str, str]:
    """Return our networks by the name of timm's model."""
    return {model: name for family in FAMILIES for model, name in family.networks.items()}
