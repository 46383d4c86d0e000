"""Necks of EfficientDets by their kernels."""

import pytest

from vision_extras.recover.detection import necks

SCOPE = 'KerasFeatureExtractor'


def kernels(levels, iterations, width):
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
    neck = necks.recognize(kernels([3, 4, 5, 6], 2, 24))
    assert (neck.min_level, neck.max_level, neck.iterations, neck.depth) == (3, 6, 2, 24)
    assert necks.recognize({f'{SCOPE}/stack_0/block_0/project/weights': (1, 1, 8, 8)}) is None


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
    kinds = [f'ssd_efficientnet-b{number}_bifpn_keras' for number in (0, 1)]
    assert [necks.may_be(kind, shapes) for kind in kinds] == matches
