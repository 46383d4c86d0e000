"""Feature extractors by their kernels."""

import json
import pathlib

import pytest

from vision_extras.recover.detection import extractors
from vision_extras.recover.facts import Refusal

VARIABLES = pathlib.Path(__file__).resolve().parents[5] / 'shared' / 'spec' / 'variables'


def kernels(name):
    """Return the kernels of a published variable list."""
    variables = json.loads((VARIABLES / f'{name}.json').read_text())['variables']
    return {
        variable: tuple(shape)
        for variable, shape, _ in variables
        if variable.endswith('weights') and variable.startswith('FeatureExtractor/')
    }


def test_published_network_with_a_factor():
    shapes = kernels('ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync')
    config = extractors.recognize(shapes, 6)
    assert (config.type, config.depth_multiplier) == ('ssd_mobilenet_v1', 0.75)


def test_other_kernels_are_listed_as_differences():
    shapes = kernels('ssd_mobilenet_v1_coco')
    shapes['FeatureExtractor/MobilenetV1/Conv2d_0/weights'] = (5, 5, 3, 32)
    with pytest.raises(Refusal, match='the feature extractor is of no known network') as caught:
        extractors.recognize(shapes, 6)
    assert caught.value.differences['ssd_mobilenet_v1'] == [
        'FeatureExtractor/MobilenetV1/Conv2d_0/weights is [5, 5, 3, 32]; expected [3, 3, 3, 32]'
    ]


SCOPE = 'KerasFeatureExtractor'


def necks(levels, iterations, width):
    nodes = []
    for iteration in range(1, iterations + 1):
        nodes += [(iteration, 'dn', level) for level in levels[-2::-1]]
        nodes += [(iteration, 'up', level) for level in levels[1:]]
    return {
        f'{SCOPE}/bifpn/node_{number:02d}_{iteration}_{way}_lvl_{level}/post/pointwise_weights': (
            1, 1, width, width,
        )
        for number, (iteration, way, level) in enumerate(nodes)
    }  # fmt: skip


def test_levels_iterations_and_channels():
    nodes = necks([3, 4, 5, 6], 2, 24)
    neck = extractors._neck(nodes)
    assert (neck.min_level, neck.max_level, neck.num_iterations) == (3, 6, 2)
    assert extractors._width(nodes) == 24


# Blocks of the stacks of B0 and B1 (Tan and Le 2019, table 1): those of B1 are 1.1 times as many,
# rounded up.
B0, B1 = (1, 2, 2, 3, 3, 4, 1), (2, 3, 3, 4, 4, 5, 2)


@pytest.mark.parametrize(('blocks', 'matches'), [(B0, [True, False]), (B1, [False, True])])
def test_networks_by_their_numbers_of_blocks(blocks, matches):
    shapes = {
        f'{SCOPE}/EfficientNet/stack_{stack}/block_{block}/project/weights': (1, 1, 8, 8)
        for stack, count in enumerate(blocks)
        for block in range(count if stack < 6 else 1)
    }
    assert not extractors._may_be('ssd_efficientnet-b0_bifpn_keras', shapes)  # without a neck
    shapes.update(necks([3, 4], 1, 8))
    kinds = [f'ssd_efficientnet-b{number}_bifpn_keras' for number in (0, 1)]
    assert [extractors._may_be(kind, shapes) for kind in kinds] == matches
