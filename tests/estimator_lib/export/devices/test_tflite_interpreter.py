"""Files that the interpreter of TFLite cannot load, and its messages."""

import os

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.devices import tflite_interpreter


@pytest.mark.parametrize('content', [None, b'no model'])
def test_file_that_cannot_be_loaded_is_refused(tmp_path, content):
    path = tmp_path / 'model.tflite'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.UserError, match='model.tflite cannot be run by TFLite: '):
        tflite_interpreter.load(str(path))


def test_standard_error_is_empty_in_a_quiet_block(capfd):
    with tflite_interpreter.quiet():
        os.write(2, b'from C++')
    os.write(2, b'later')
    assert capfd.readouterr().err == 'later'


@pytest.mark.parametrize(
    ('op', 'reason'),
    [
        ('edgetpu-custom-op', 'compiled for the Edge TPU; expected the file from before'),
        ('Unheard', 'custom op Unheard, which this interpreter does not know'),
    ],
)
def test_ops_of_other_programs_are_named(tmp_path, op, reason):
    flatbuffers = pytest.importorskip('flatbuffers')
    from tensorflow.lite.python import schema_py_generated as schema

    double = tf.function(lambda image: 2.0 * image, [tf.TensorSpec([1, 2])], autograph=False)
    functions = [double.get_concrete_function()]
    content = tf.lite.TFLiteConverter.from_concrete_functions(functions, double).convert()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
    for code in model.operatorCodes:
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = op.encode()
    for each in model.subgraphs[0].operators:
        each.builtinOptionsType, each.builtinOptions = 0, None
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b'TFL3')
    path = tmp_path / 'model.tflite'
    path.write_bytes(bytes(builder.Output()))
    with pytest.raises(errors.UserError, match=reason):
        tflite_interpreter.load(str(path))
