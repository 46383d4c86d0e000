import pytest

from model_fns.backbones.hub_weights import family, mobile


def scopes(kind, *modules):
    return kind.scopes(dict.fromkeys(modules, (8, 4, 1, 1)))


def test_a_convolution_projects_only_without_expansion():
    found = scopes(
        mobile.EFFICIENTNET,
        'blocks.0.0.conv_pw',
        'blocks.0.0.bn2',
        'blocks.1.0.conv_pw',
        'blocks.1.0.bn2',
        'blocks.1.0.conv_pwl',
    )
    assert found['blocks.0.0.conv_pw'] == 'EfficientNet/stack_0/block_0/project'
    assert found['blocks.0.0.bn2'] == 'EfficientNet/stack_0/block_0/project/BatchNorm'
    assert found['blocks.1.0.conv_pw'] == 'EfficientNet/stack_1/block_0/expand'
    assert found['blocks.1.0.bn2'] == 'EfficientNet/stack_1/block_0/depthwise/BatchNorm'
    assert found['blocks.1.0.conv_pwl'] == 'EfficientNet/stack_1/block_0/project'
    assert found['bn2'] == 'EfficientNet/top/BatchNorm'


def test_blocks_are_counted_over_all_stages():
    found = scopes(
        mobile.MOBILENET_V3,
        'blocks.0.0.conv_dw',
        'blocks.1.0.conv_dw',
        'blocks.1.1.conv_dw',
        'blocks.10.0.conv_dw',
        'blocks.11.0.conv',
    )
    assert found['blocks.0.0.conv_dw'] == 'MobilenetV3/expanded_conv/depthwise'
    assert found['blocks.1.1.conv_dw'] == 'MobilenetV3/expanded_conv_2/depthwise'
    assert found['blocks.10.0.conv_dw'] == 'MobilenetV3/expanded_conv_3/depthwise'
    assert found['blocks.11.0.conv'] == 'MobilenetV3/Conv_1'
    assert found['classifier'] == 'MobilenetV3/Logits/Conv2d_1c_1x1'


@pytest.mark.parametrize('kind', [mobile.EFFICIENTNET, mobile.MOBILENET_V3])
def test_an_unknown_part(kind):
    with pytest.raises(family.UnknownNameError, match=r'^blocks\.0\.0\.attention\.weight$'):
        family.map_tensors(kind, {'blocks.0.0.attention.weight': (8, 4)})
