"""Steps of several models in both precisions: what is made of the processes' figures."""

import pytest

from benchmarks import measuring, recipes, steps


def test_the_least_of_both_clocks_counts(monkeypatch):
    said = iter([[3.0, 5.0], [1.5, 4.0], [2.0, 6.0], [2.5, 3.0]])
    asked = []

    def run_apart(module, arguments):
        asked.append((module, *arguments))
        return next(said)

    monkeypatch.setattr(measuring, 'run_apart', run_apart)
    monkeypatch.setattr(recipes, 'write_config', lambda name, folder: f'{name}.config')
    found = steps.measure(['lenet'], turns=2)
    sides = [arguments[1] for arguments in asked]
    assert sides == ['--side=float32', '--side=bfloat16'] * 2
    assert {arguments[2] for arguments in asked} == {'--config=lenet.config'}
    assert found == {
        'lenet/float32': 2.0,
        'lenet/float32_cpu': 5.0,
        'lenet/bfloat16': 1.5,
        'lenet/bfloat16_cpu': 3.0,
        'lenet/ratio': pytest.approx(0.75),
    }


def test_what_is_measured_by_default_is_there():
    assert set(steps.DEFAULT_MODELS) <= set(recipes.RECIPES)
