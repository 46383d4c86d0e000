import pytest

from model_fns.backbones.hub_weights import searched

DEPTHWISE = 'cell_3.comb_iter_1_left.separable_2.depthwise_conv2d'


@pytest.mark.parametrize(
    ('module', 'scope'),
    [
        ('conv0.bn', 'conv0_bn'),
        ('conv_0.conv', 'conv0'),
        ('cell_stem_1.conv_1x1.bn', 'cell_stem_1/beginning_bn'),
        ('reduction_cell_0.conv_prev_1x1.conv', 'reduction_cell_0/prev_1x1'),
        ('cell_0.path_2.conv', 'cell_0/path2_conv'),
        ('cell_0.conv_prev_1x1.path_1.conv', 'cell_0/path1_conv'),  # PNASNet
        ('cell_0.conv_prev_1x1.final_path_bn', 'cell_0/final_path_bn'),
        ('cell_3.comb_iter_4_right.conv', 'cell_3/comb_iter_4/right/1x1'),
        ('cell_3.comb_iter_4_right.bn', 'cell_3/comb_iter_4/right/bn_1'),
        (DEPTHWISE, 'cell_3/comb_iter_1/left/separable_7x7_2'),
        (
            'cell_3.comb_iter_1_left.separable_2.pointwise_conv2d',
            'cell_3/comb_iter_1/left/separable_7x7_2',
        ),
        ('cell_3.comb_iter_1_left.bn_sep_2', 'cell_3/comb_iter_1/left/bn_sep_7x7_2'),
        ('last_linear', 'final_layer/FC'),
    ],
)
def test_modules_by_hand(module, scope):
    modules = {module: (8, 8, 1, 1), DEPTHWISE: (8, 1, 7, 7)}
    for kind in (searched.NASNET, searched.PNASNET):
        assert kind.scopes(modules)[module] == scope


@pytest.mark.parametrize(
    'module',
    ['cell_0.other', 'cell_0.comb_iter_0_left.other', 'cell_0.comb_iter_0_left.bn_sep_1', 'x'],
)
def test_modules_that_are_not_of_a_cell(module):
    assert module not in searched.NASNET.scopes({module: (8,)})
