"""Comparison of loss curves, and the graphs that are trained for them."""

import numpy as np
import pytest

from benchmarks.accuracy import loss_curves
from model_fns import build_task


@pytest.mark.parametrize('name', loss_curves.ARCHITECTURES)
def test_each_architecture_can_be_trained(name):
    config = loss_curves.ARCHITECTURES[name]()
    task = build_task(config)
    assert type(task).__module__.startswith('model_fns.')
    assert config.train_input_reader.tf_record_input_reader.input_path


def test_curves_are_means_of_whole_windows():
    np.testing.assert_allclose(loss_curves.smoothed([1, 3, 2, 6, 100], 2), [2, 4])


def test_runs_are_compared_with_float32_of_the_same_seed(monkeypatch):
    # By type and seed: a step's loss at the beginning, and later on.
    levels = {(False, 5): (4, 2), (True, 5): (5, 2), (False, 6): (4, 3), (False, 7): (2, 1)}

    def losses(config, use_bfloat16, steps, seed):
        assert config == 'a config' and steps == 4
        return np.repeat(levels[use_bfloat16, seed], 2)

    monkeypatch.setattr(loss_curves, 'losses', losses)
    monkeypatch.setattr(loss_curves, 'ARCHITECTURES', {'net': lambda: 'a config'})
    found = loss_curves.compare('net', steps=4, window=2, seed=5)
    assert found['curves']['bfloat16'] == [5, 2]
    assert found['differences'] == {
        'bfloat16': {'largest': 0.25, 'mean': 0.125},
        'other_seed': {'largest': 0.5, 'mean': 0.25},
        'third_seed': {'largest': 0.5, 'mean': 0.5},
    }
    assert loss_curves.lines('net', found)[1:] == [
        '1-2           4.0000     5.0000     4.0000     2.0000',
        '3-4           2.0000     2.0000     3.0000     1.0000',
        'largest difference from float32: bfloat16 25.0 %, other_seed 50.0 %, third_seed 50.0 %',
        'mean difference from float32: bfloat16 12.5 %, other_seed 25.0 %, third_seed 50.0 %',
    ]
