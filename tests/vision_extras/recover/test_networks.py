"""Search for factors on channels, with networks by hand."""

import pytest

from vision_extras.recover import networks
from vision_extras.recover.facts import Refusal
from vision_extras.recover.kernels import NetworkKernels


def network(factor):
    shapes = {'a/weights': (3, 3, 3, int(40 * factor)), 'b/weights': (1, 1, int(40 * factor), 9)}
    return NetworkKernels(shapes, set(shapes))


def is_scaled(name):
    return name.startswith('a/')


def test_usual_factor_is_preferred_to_the_ratio():
    # int(40 * 0.35) is 14, and 14 / 40 is 0.35 too.
    match = networks.search(network(0.35).shapes, network, is_scaled)
    assert (match.factor, match.differences) == (0.35, [])


def test_unusual_factor_is_the_ratio():
    match = networks.search(network(0.9).shapes, network, is_scaled)
    assert (match.factor, match.differences) == (0.9, [])


def test_differences_of_the_nearest_are_told():
    found = {**network(1.0).shapes, 'c/weights': (1, 1)}
    match = networks.search(found, network, is_scaled)
    assert match.differences == ['c/weights [1, 1] is not in it']


def test_network_that_cannot_be_built_is_no_match():
    assert networks.search({}, lambda factor: None) is None


def test_widest_layer_may_keep_its_width():
    def build(factor):
        widths = {'a/weights': round(64 * factor), 'b/weights': 1280}
        shapes = {name: (1, 1, 8, width) for name, width in widths.items()}
        return NetworkKernels(shapes, set(shapes))

    match = networks.search(build(0.5).shapes, build)
    assert match == networks.Match(0.5, [])


def test_nearest_networks_are_told_where_none_is_equal():
    found = {**network(1.0).shapes, 'c/weights': (1, 1)}
    with pytest.raises(Refusal, match='none') as caught:
        networks.choose(found, [('x', lambda factor: None), ('y', network)], 'none')
    assert caught.value.differences == {'y': ['c/weights [1, 1] is not in it']}


def test_network_without_a_factor_is_preferred_where_others_are_tried():
    def half(factor):
        return network(factor / 2)

    candidates = [('whole', network), ('half', half)]
    found = network(0.5).shapes
    assert networks.choose(found, candidates, '')[0] == 0
    index, match = networks.choose(found, candidates, '', is_final=lambda match: False)
    assert (index, match.factor) == (1, 1.0)
