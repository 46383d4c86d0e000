import pytest

from model_fns.backbones.hub_weights import inception


def scope(kind, layer):
    """The scope of the convolution of a layer."""
    modules = {f'{layer}.conv': (8, 4, 3, 3), f'{layer}.bn': (8,)}
    found = kind.scopes(modules)
    if found:
        assert found[f'{layer}.bn'] == found[f'{layer}.conv'] + '/BatchNorm'
    return found.get(f'{layer}.conv')


# Read off timm 1.0.31, with which all 598 variables have their shapes, and the logits agree to 1e-6
# of the largest.
@pytest.mark.parametrize(
    ('layer', 'expected'),
    [
        ('features.2', 'Conv2d_2b_3x3'),
        ('features.3.conv', 'Mixed_3a/Branch_1/Conv2d_0a_3x3'),
        ('features.4.branch1.3', 'Mixed_4a/Branch_1/Conv2d_1a_3x3'),
        ('features.5.conv', 'Mixed_5a/Branch_0/Conv2d_1a_3x3'),
        ('features.9.branch3.1', 'Mixed_5e/Branch_3/Conv2d_0b_1x1'),
        ('features.10.branch0', 'Mixed_6a/Branch_0/Conv2d_1a_3x3'),
        ('features.17.branch2.4', 'Mixed_6h/Branch_2/Conv2d_0e_1x7'),
        ('features.18.branch1.3', 'Mixed_7a/Branch_1/Conv2d_1a_3x3'),
        ('features.21.branch1_1b', 'Mixed_7d/Branch_1/Conv2d_0c_3x1'),
        ('features.21.branch2_3a', 'Mixed_7d/Branch_2/Conv2d_0d_1x3'),
    ],
)
def test_inception_v4(layer, expected):
    assert scope(inception.INCEPTION_V4, layer) == f'InceptionV4/{expected}'


@pytest.mark.parametrize(
    ('layer', 'expected'),
    [
        ('conv2d_4a', 'Conv2d_4a_3x3'),
        ('mixed_5b.branch0', 'Mixed_5b/Branch_0/Conv2d_1x1'),
        ('mixed_7a.branch2.2', 'Mixed_7a/Branch_2/Conv2d_1a_3x3'),
        ('repeat.9.branch1.1', 'Repeat/block35_10/Branch_1/Conv2d_0b_3x3'),
        ('repeat_1.0.branch1.2', 'Repeat_1/block17_1/Branch_1/Conv2d_0c_7x1'),
        ('repeat_2.8.branch1.1', 'Repeat_2/block8_9/Branch_1/Conv2d_0b_1x3'),
        ('block8.branch1.2', 'Block8/Branch_1/Conv2d_0c_3x1'),
    ],
)
def test_inception_resnet_v2(layer, expected):
    assert scope(inception.INCEPTION_RESNET_V2, layer) == f'InceptionResnetV2/{expected}'


def test_layers_without_batch_norm():
    found = inception.INCEPTION_RESNET_V2.scopes({'repeat.0.conv2d': (8, 4, 1, 1), 'classif': ()})
    assert found == {
        'repeat.0.conv2d': 'InceptionResnetV2/Repeat/block35_1/Conv2d_1x1',
        'classif': 'InceptionResnetV2/Logits/Logits',
    }
    assert inception.INCEPTION_V3.scopes({'fc': ()}) == {'fc': 'InceptionV3/Logits/Conv2d_1c_1x1'}
    assert inception.INCEPTION_V4.scopes({'last_linear': ()}) == {
        'last_linear': 'InceptionV4/Logits/Logits'
    }


@pytest.mark.parametrize(
    ('kind', 'layer'),
    [
        (inception.INCEPTION_V3, 'AuxLogits.conv0'),
        (inception.INCEPTION_V4, 'features.22.branch0'),
        (inception.INCEPTION_V4, 'features.0.branch0'),
        (inception.INCEPTION_RESNET_V2, 'repeat_3.0.branch0'),
    ],
)
def test_layers_of_other_networks(kind, layer):
    assert scope(kind, layer) is None
