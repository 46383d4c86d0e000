import pytest

from model_fns.backbones import registry
from model_fns.backbones.hub_weights import convnext, family
from tests.model_fns.backbones.hub_weights import drawn_weights, recorded_weights

# Logits of timm 1.0.31's `create_model('convnext_tiny', dims=(16, 24, 40, 80), num_classes=10)`,
# see `drawn_weights`. The sides are no multiples of a stride.
LOGITS = """
    0.35286 -0.24881 0.81838 0.01212 -0.11331 0.71528 0.36635 1.39451 -0.75940 -1.09966
    0.43271 0.37073 -0.15279 0.37142 0.79556 -0.76571 -0.87985 1.11198 -2.10521 -0.25585
"""
SIZE = (67, 97)
BLOCKS = (3, 3, 9, 3)
CHANNELS = (16, 24, 40, 80)


def shapes():
    """List the tensors of the small ConvNeXt."""

    def list_tensors():
        layer = drawn_weights.layer
        yield from layer('stem.0', (16, 3, 4, 4))
        yield from layer('stem.1', (16,))
        inputs = 16
        for stage, (blocks, channels) in enumerate(zip(BLOCKS, CHANNELS)):
            name = f'stages.{stage}'
            if stage > 0:
                yield from layer(f'{name}.downsample.0', (inputs,))
                yield from layer(f'{name}.downsample.1', (channels, inputs, 2, 2))
            for block in (f'{name}.blocks.{number}' for number in range(blocks)):
                yield f'{block}.gamma', (channels,)
                yield from layer(f'{block}.conv_dw', (channels, 1, 7, 7))
                yield from layer(f'{block}.norm', (channels,))
                yield from layer(f'{block}.mlp.fc1', (4 * channels, channels))
                yield from layer(f'{block}.mlp.fc2', (channels, 4 * channels))
            inputs = channels
        yield from layer('head.norm', (inputs,))
        yield from layer('head.fc', (10, inputs))

    return dict(list_tensors())


def test_logits_are_those_of_timm():
    tensors = drawn_weights.draw(shapes())
    options = registry.Options(depth_multiplier=0.1)
    recorded_weights.check_drawn('convnext_tiny', tensors, SIZE, LOGITS, options)


def test_names_and_shapes_by_hand():
    found = family.map_tensors(
        convnext.CONVNEXT,
        {
            'stem.1.weight': (8,),
            'stem.1.bias': (8,),
            'stages.1.downsample.0.bias': (8,),
            'stages.1.downsample.0.weight': (8,),
            'stages.1.downsample.1.weight': (16, 8, 2, 2),
            'stages.1.blocks.2.gamma': (16,),
            'stages.1.blocks.2.conv_dw.weight': (16, 1, 7, 7),
            'stages.1.blocks.2.conv_dw.bias': (16,),
            'stages.1.blocks.2.mlp.fc1.weight': (64, 16),
            'head.norm.weight': (16,),
            'head.fc.weight': (10, 16),
        },
    )
    block = 'ConvNeXt/stage_1/block_2'
    assert {name: tensor.shape for name, tensor in found.items()} == {
        'ConvNeXt/stem/LayerNorm/gamma': (8,),
        'ConvNeXt/stem/LayerNorm/beta': (8,),
        'ConvNeXt/stage_1/downsample/LayerNorm/gamma': (8,),
        'ConvNeXt/stage_1/downsample/LayerNorm/beta': (8,),
        'ConvNeXt/stage_1/downsample/weights': (2, 2, 8, 16),
        f'{block}/gamma': (16,),
        f'{block}/depthwise/depthwise_weights': (7, 7, 16, 1),
        f'{block}/depthwise/biases': (16,),
        f'{block}/expand/weights': (1, 1, 16, 64),
        'ConvNeXt/LayerNorm/gamma': (16,),
        'ConvNeXt/logits/weights': (1, 1, 16, 10),
    }


@pytest.mark.parametrize('name', ['stages.0.blocks.0.mlp.grn.weight', 'stages.0.blocks.0.gamma'])
def test_another_network(name):
    with pytest.raises(family.UnknownNameError):
        family.map_tensors(convnext.CONVNEXT, {name: (8,)})
