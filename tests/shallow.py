"""MobileNets of few layers, for tests of what surrounds a network: most of a run builds layers."""

import contextlib
from unittest import mock

from model_fns.backbones import mobilenet_v1
from model_fns.segmentation.networks import backbones
from tests.model_fns.segmentation import tiny_networks

# The layers of MobileNet V1 that stride or have more channels: the others repeat them. Each name
# stays an end point.
_KEPT = ('Conv2d_0', 'Conv2d_2_', 'Conv2d_4_', 'Conv2d_6_', 'Conv2d_12_')
_NAMED_LAYERS = mobilenet_v1._named_layers
PUBLISHED_BACKBONE = backbones.get_backbone


def _named_layers(channels, steps):
    for name, layer in _NAMED_LAYERS(channels, steps):
        yield name, layer if name.startswith(_KEPT) else lambda images, **_: images


@contextlib.contextmanager
def networks():
    """Build MobileNet V1, and MobileNet V2 of segmentation, with at most nine layers inside."""
    get_backbone = backbones.get_backbone

    def get_tiny_backbone(name):
        found = get_backbone(name)
        return tiny_networks.backbone(found.honors) if name == 'mobilenet_v2' else found

    with (
        mock.patch.object(mobilenet_v1, '_named_layers', _named_layers),
        mock.patch.object(backbones, 'get_backbone', get_tiny_backbone),
    ):
        yield
