"""Tables of a tiny TFLite file, and of malformed ones."""

from contextlib import nullcontext

import numpy as np
import pytest

from estimator_lib import errors
from tests.vision_extras.recover.artifacts import tiny_tflite
from vision_extras.recover.artifacts import tflite_files
from vision_extras.recover.artifacts.tflite_files import File, Operation, Tensor


@pytest.fixture(scope='module')
def content():
    return tiny_tflite.convert()


def test_operations_and_constants_are_read(content, tmp_path):
    path = tmp_path / 'a.tflite'
    path.write_bytes(content)
    file = tflite_files.read(str(path))
    *_, last = file.operations
    assert last.kind == 'CONV_2D'
    assert (last.options['strideH'], last.options['fusedActivationFunction']) == (2, 3)
    kernel, bias = (file.tensors[index] for index in last.inputs[1:])
    assert kernel.shape == (2, 1, 1, 3) and kernel.dtype == np.float32
    np.testing.assert_array_equal(bias.value, tiny_tflite.BIAS)
    assert file.tensors[file.inputs[0]].shape == (1, 4, 4, 3)
    assert list(file.outputs.values()) in ([], [last.outputs[0]])


@pytest.mark.parametrize('length', [8, 300, -40])
def test_truncated_file_is_refused_before_the_interpreter_gets_it(
    content, tmp_path, monkeypatch, length
):
    monkeypatch.setattr(tflite_files.tflite_interpreter, 'load', lambda path: pytest.fail(path))
    path = tmp_path / 'a.tflite'
    path.write_bytes(content[:length])
    with pytest.raises(errors.UserError, match='a.tflite is a truncated or corrupt TFLite file'):
        tflite_files.read(str(path))


def test_tensors_that_do_not_exist_are_found():
    tensors = [Tensor('x', np.float32, (1,))]
    optional = Operation('FULLY_CONNECTED', (0, tflite_files.LEFT_OUT), (0,), {})
    tflite_files._check_indices(File(tensors, [optional], [0], {}))
    with pytest.raises(IndexError, match='there is no tensor 1'):
        tflite_files._check_indices(File(tensors, [optional._replace(outputs=(1,))], [0], {}))


@pytest.mark.parametrize(
    'kind, message',
    [
        ('MaxUnpooling2D', 'has custom operations of another program: MaxUnpooling2D; expected'),
        ('TFLite_Detection_PostProcess', ''),
        ('edgetpu-custom-op', ''),
    ],
)
def test_custom_operations_tell_what_a_file_is(kind, message):
    file = File([Tensor('x', np.float32, (1,))], [Operation(kind, (0,), (0,), {}, True)], [0], {})
    expected = pytest.raises(errors.UserError, match=message) if message else nullcontext()
    with expected:
        tflite_files._refuse_kind('a.tflite', file)
