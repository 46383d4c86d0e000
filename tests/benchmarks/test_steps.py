"""Steps of several models in both precisions: what is made of the processes' figures."""

import pytest

from benchmarks import measuring, recipes, steps


def test_the_least_of_both_clocks_counts(monkeypatch):
    said = iter([[3.0, 5.0], [1.5, 4.0], [2.0, 6.0], [2.5, 3.0]])
    asked = []

    def run_apart(module, arguments, variables):
        asked.append((module, *arguments, variables))
        return next(said)

    monkeypatch.setattr(measuring, 'run_apart', run_apart)
    monkeypatch.setattr(recipes, 'write_config', lambda name, folder, size: f'{name}-{size}.config')
    found = steps.measure(['lenet'], ['float32', 'tensorflow_kernels'], turns=2, batch_size=3)
    assert [arguments[1] for arguments in asked] == [
        '--side=float32',
        '--side=tensorflow_kernels',
    ] * 2
    assert {arguments[2] for arguments in asked} == {'--config=lenet-3.config'}
    assert [arguments[3] for arguments in asked] == [{}, {'TF_ENABLE_ONEDNN_OPTS': '0'}] * 2
    assert found == {
        'lenet/float32': 2.0,
        'lenet/float32_cpu': 5.0,
        'lenet/tensorflow_kernels': 1.5,
        'lenet/tensorflow_kernels_cpu': 3.0,
        'lenet/ratio': pytest.approx(0.75),
    }


def test_what_is_measured_by_default_is_there():
    assert set(steps.DEFAULT_MODELS) <= set(recipes.RECIPES)
