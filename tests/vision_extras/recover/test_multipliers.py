"""Search for factors on channels, with networks by hand."""

from vision_extras.recover import multipliers
from vision_extras.recover.kernels import NetworkKernels


def network(factor):
    shapes = {'a/weights': (3, 3, 3, int(40 * factor)), 'b/weights': (1, 1, int(40 * factor), 9)}
    return NetworkKernels(shapes, set(shapes))


def is_scaled(name):
    return name.startswith('a/')


def test_usual_factor_is_preferred_to_the_ratio():
    # int(40 * 0.35) is 14, and 14 / 40 is 0.35 too.
    match = multipliers.search(network(0.35).shapes, network, is_scaled)
    assert (match.factor, match.differences) == (0.35, [])


def test_unusual_factor_is_the_ratio():
    match = multipliers.search(network(0.9).shapes, network, is_scaled)
    assert (match.factor, match.differences) == (0.9, [])


def test_differences_of_the_nearest_are_told():
    found = {**network(1.0).shapes, 'c/weights': (1, 1)}
    match = multipliers.search(found, network, is_scaled)
    assert match.differences == ['c/weights [1, 1] is not in it']


def test_network_that_cannot_be_built_is_no_match():
    assert multipliers.search({}, lambda factor: None) is None


def test_widest_layer_may_keep_its_width():
    def build(factor):
        widths = {'a/weights': round(64 * factor), 'b/weights': 1280}
        shapes = {name: (1, 1, 8, width) for name, width in widths.items()}
        return NetworkKernels(shapes, set(shapes))

    match = multipliers.search(build(0.5).shapes, build)
    assert match == multipliers.Match(0.5, [])
