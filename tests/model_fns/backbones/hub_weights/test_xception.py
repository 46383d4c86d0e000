import pytest

from model_fns.backbones.hub_weights import xception


def scopes(count):
    """Scopes of a network of that many blocks, by module."""
    modules = [f'blocks.{block}.stack.conv1.conv_dw' for block in range(count)]
    modules += [f'blocks.{block}.shortcut.bn' for block in range(count)]
    return xception.XCEPTION.scopes(dict.fromkeys(modules, (8, 1, 3, 3)))


@pytest.mark.parametrize(
    ('count', 'network', 'entry', 'middle'),
    [(13, 'xception_41', 3, 8), (21, 'xception_65', 3, 16), (23, 'xception_71', 5, 16)],
)
def test_the_flows(count, network, entry, middle):
    found = scopes(count)
    own = 'xception_module/separable_conv1_depthwise'
    units = {
        0: 'entry_flow/block1/unit_1',
        entry - 1: f'entry_flow/block{entry}/unit_1',
        entry: 'middle_flow/block1/unit_1',
        entry + middle - 1: f'middle_flow/block1/unit_{middle}',
        entry + middle: 'exit_flow/block1/unit_1',
        count - 1: 'exit_flow/block2/unit_1',
    }
    for block, unit in units.items():
        assert found[f'blocks.{block}.stack.conv1.conv_dw'] == f'{network}/{unit}/{own}'
    shortcut = f'{network}/{units[0]}/xception_module/shortcut/BatchNorm'
    assert found['blocks.0.shortcut.bn'] == shortcut
    assert found['head.fc'] == f'{network}/logits'


def test_another_number_of_blocks():
    assert scopes(20) == {}
