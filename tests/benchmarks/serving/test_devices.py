"""Table of families, formats and runtimes: its cells, and the names of its parts."""

import numpy as np
import pytest

from benchmarks.serving import devices, runtimes
from estimator_lib import errors
from estimator_lib.export import formats
from model_fns.cli import builtin_configs


def test_families_and_formats_exist():
    assert set(devices.FAMILIES.values()) <= set(builtin_configs.builtin_configs())
    assert all(set(read) <= set(formats.WRITERS) for read in devices.OTHERS.values())
    assert set(runtimes.LOADERS) == set(devices.OTHERS)
    assert len(devices.HEAD) == 3 + len(devices.OTHERS)


@pytest.mark.parametrize(
    'parts, differences, cell',
    [
        ({'a': 1.0}, {'a': 3.2e-07, 'b': 1e-09}, 'agrees to 3e-07'),
        ({'a': 0.985, 'b': 1.0}, {'a': 0.5}, 'agrees to 5e-01, 98.50% of a'),
        ({'a': 1.0, 'b': 0.25}, {'a': 0.0}, 'differs: 25.00% of b agree'),
        ({'a': 1.0, 'b': 0.96999}, {'a': 0.0}, 'differs: 96.99% of b agree'),
        ({'a': 0.99999}, {'a': 0.0}, 'agrees to 0e+00, 99.99% of a'),
        ({'a': 1.0}, {}, 'agrees to 0e+00'),
    ],
)
def test_a_cell_has_the_largest_difference_or_the_worst_output(parts, differences, cell):
    assert devices.describe(parts, differences) == cell


@pytest.mark.parametrize('families', ['CenterNett', 'CenterNet,CenterNett'])
def test_an_unknown_family_is_refused_before_the_table(families, capsys):
    with pytest.raises(SystemExit) as ending:
        devices.main([f'--families={families}'])
    said = capsys.readouterr()
    assert ending.value.code == 2 and said.out == ''
    assert "--families: no family is named 'CenterNett'; did you mean 'CenterNet'?" in said.err


def test_a_refusal_has_no_path_of_a_folder_and_no_bar():
    error = errors.UserError('/tmp/x/a.onnx cannot\n be run: a | b')
    assert devices.refusal(error, '/tmp/x/') == 'refused: a.onnx cannot be run: a / b'


@pytest.mark.parametrize(
    'text, told',
    [
        (
            'Exception from a.cpp:1:\nCheck b failed at c:\nNo translator for D.\n\n',
            'No translator for D.',
        ),
        ("OpenCV(4) e.cpp: error in 'f'\n> Node [G] parse error: H\n> ", 'Node [G] parse error: H'),
        ('Check b failed at c:', 'Check b failed at c:'),
        ('', 'ValueError'),
        ('x' * 130, 'x' * 120 + ' ..'),
    ],
)
def test_the_line_of_an_error_that_says_most(text, told):
    assert runtimes.reason(ValueError(text)) == told


def test_a_runtime_writes_its_outputs_of_each_input(tmp_path, monkeypatch):
    def load(path, names):
        assert path == 'model.onnx'
        return lambda image: {names[0]: image + 1, names[1]: image * 2}

    monkeypatch.setattr(runtimes, 'LOADERS', {'cv2': load})
    inputs, outputs = str(tmp_path / 'inputs.npz'), str(tmp_path / 'outputs.npz')
    np.savez(inputs, np.array([1.0]), np.array([2.0]))
    runtimes.main(['cv2', 'model.onnx', inputs, outputs, 'a,b'])
    with np.load(outputs) as found:
        values = {name: found[name].tolist() for name in found.files}
    assert values == {
        'arr_0/a': [2.0],
        'arr_0/b': [2.0],
        'arr_1/a': [3.0],
        'arr_1/b': [4.0],
    }
