import pytest

from model_fns.backbones.hub_weights import family, mobile


def scopes(kind, modules):
    found = kind.scopes(dict.fromkeys(modules, (8, 4, 1, 1)))
    return {module: found[module] for module in modules}


def test_a_convolution_projects_only_without_expansion():
    expected = {
        'blocks.0.0.conv_pw': 'EfficientNet/stack_0/block_0/project',
        'blocks.0.0.bn2': 'EfficientNet/stack_0/block_0/project/BatchNorm',
        'blocks.1.0.conv_pw': 'EfficientNet/stack_1/block_0/expand',
        'blocks.1.0.bn2': 'EfficientNet/stack_1/block_0/depthwise/BatchNorm',
        'blocks.1.0.conv_pwl': 'EfficientNet/stack_1/block_0/project',
        'bn2': 'EfficientNet/top/BatchNorm',
    }
    assert scopes(mobile.EFFICIENTNET, expected) == expected


def test_blocks_are_counted_over_all_stages():
    expected = {
        'blocks.0.0.conv_dw': 'MobilenetV3/expanded_conv/depthwise',
        'blocks.1.0.conv_dw': 'MobilenetV3/expanded_conv_1/depthwise',
        'blocks.1.1.conv_dw': 'MobilenetV3/expanded_conv_2/depthwise',
        'blocks.10.0.conv_dw': 'MobilenetV3/expanded_conv_3/depthwise',
        'blocks.11.0.conv': 'MobilenetV3/Conv_1',
        'classifier': 'MobilenetV3/Logits/Conv2d_1c_1x1',
    }
    assert scopes(mobile.MOBILENET_V3, expected) == expected


@pytest.mark.parametrize('kind', [mobile.EFFICIENTNET, mobile.MOBILENET_V3])
def test_an_unknown_part(kind):
    with pytest.raises(family.UnknownNameError, match=r'^blocks\.0\.0\.attention\.weight$'):
        family.map_tensors(kind, {'blocks.0.0.attention.weight': (8, 4)})
