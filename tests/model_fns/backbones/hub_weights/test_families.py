import pathlib

from model_fns.backbones import registry
from model_fns.backbones.hub_weights import families


def test_every_model_has_a_network_and_tags():
    for model, name in families.networks().items():
        assert registry.get_network(name).build is not None, model
    for family in families.FAMILIES:
        assert set(family.networks) == set(family.tags)
        for model, tags in families.FOREIGN_TAGS.items():
            assert not set(tags) & set(family.tags.get(model, ()))


def test_the_ports_of_a_model():
    listed = families.list_models()
    assert len(listed) == len(set(listed))
    assert [name for name in listed if name.startswith('inception_v3.')] == [
        'inception_v3.tf_in1k',
        'inception_v3.tf_adv_in1k',
    ]
    # timm 1.0.31 has AdvProp's tag too, whose weights expect pixels in [-1, 1].
    assert sum(name.startswith('tf_efficientnet_b5.') for name in listed) == 4


def test_the_page_has_every_model():
    page = (pathlib.Path(__file__).parents[4] / 'docs' / 'weights.md').read_text()
    rows = [line for line in page.splitlines() if line.startswith('| `')]
    for name in families.list_models():
        network = families.networks()[name.partition('.')[0]]
        assert any(f'`{name}`' in row and f'| `{network}`' in row for row in rows), name
