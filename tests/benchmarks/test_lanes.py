"""Two TensorFlows beside each other: who runs what, and what is made of the figures."""

import sys

import pytest

from benchmarks import lanes, measuring, recipes
from benchmarks.serving import exports


def test_both_run_the_same_alternately_and_the_least_counts(monkeypatch):
    said = []

    def run_apart(module, arguments, timeout=None, python=sys.executable):
        said.append((module, python, *arguments))
        if module == 'benchmarks.steps':
            return [4.0, 8.0] if python == 'old' else [3.0, 9.0]
        milliseconds = 10.0 + len(said) if python == 'old' else 30.0 + len(said)
        return {
            'one_image_ms': milliseconds,
            'one_image_cpu_ms': milliseconds,
            'first_answer_seconds': 1.0,
        }

    def train_apart(config_path, flags, python):
        said.append(('front door', python, config_path, *flags))
        return {1: measuring.Reached(5.0 if python == 'old' else 6.0, 100.0)}

    monkeypatch.setattr(measuring, 'run_apart', run_apart)
    monkeypatch.setattr(measuring, 'train_apart', train_apart)
    monkeypatch.setattr(recipes, 'write_config', lambda name, folder, size: f'{name}.config')
    monkeypatch.setattr(exports, 'write_exports', lambda model, folder: {'folded': 'export/1'})
    pythons = {'TensorFlow 1': 'old', 'TensorFlow 2': 'new'}
    found = lanes.measure(pythons, ['lenet'], 'ssd', turns=2, runs=50)

    trainings = [one for one in said if one[0] != 'benchmarks.serving.exports']
    assert [one[1] for one in trainings] == (['old'] * 3 + ['new'] * 3) * 2
    assert {one[-1] for one in trainings} == {'--config=lenet.config', '--num_train_steps=2'}
    served = said[len(trainings) :]
    assert [one[1] for one in served] == ['old', 'new'] * 2
    assert {one[2:4] for one in served} == {('--export=export/1', '--loader=session')}
    assert found['lenet/float32/TensorFlow 2'] == 3.0
    assert found['lenet/float32/ratio'] == 0.75
    assert found['lenet/bfloat16_cpu/ratio'] == 9 / 8
    assert found['lenet/first_step/ratio'] == 1.2
    # The first turn's were the 13th and the 14th processes.
    assert found['export of ssd/one_image_ms/TensorFlow 1'] == 23.0
    assert found['export of ssd/one_image_ms/ratio'] == pytest.approx(44 / 23)


def test_the_same_tensorflow_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(lanes, 'tensorflow_version', lambda python: 'TensorFlow 2.15.1')
    with pytest.raises(SystemExit):
        lanes.main(['--other_python=python3'])
    assert 'it has TensorFlow 2.15.1 too' in capsys.readouterr().err
