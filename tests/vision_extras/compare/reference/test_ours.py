"""Our side of a comparison."""

import numpy as np

from vision_extras.compare.reference import bridge


def read(compared, name):
    with np.load(bridge.result_path(str(compared[0] / 'reference'), name)) as values:
        return dict(values)


def test_both_sides_record_the_same_arrays(compared):
    here, there = read(compared, 'here'), read(compared, 'reference')
    assert set(here) == set(there)
    groups = {name.partition('/')[0] for name in here}
    assert groups == {'initial', 'raw', 'losses', 'gradients', 'variables', 'detections'}
    for name in ('regularization_loss', 'classification_loss', 'localization_loss', 'total_loss'):
        assert here[f'losses/{name}'].shape == (2,)


def test_steps_change_the_variables(compared):
    """Adam moves each weight by about its rate, 0.01, in each step."""
    here = read(compared, 'here')
    moved = {
        name: np.max(np.abs(here[f'variables/{name}'] - here[f'initial/{name}']))
        for name in (each[len('gradients/') :] for each in here if each.startswith('gradients/'))
    }
    assert moved and max(moved.values()) < 0.0201
    assert np.median(list(moved.values())) > 0.009
    averages = [name for name in here if name.endswith('BatchNorm/moving_mean')]
    first = 'FeatureExtractor/MobilenetV1/Conv2d_0/BatchNorm/moving_mean'
    assert averages and np.any(here[f'variables/{first}'] != here[f'initial/{first}'])
