"""Configs of Triton, parsed with messages that are declared here.

Numbers and types of the fields are those of Triton's `model_config.proto`.
"""

import json
import pathlib
import shutil

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from estimator_lib import errors
from estimator_lib.export.metadata import triton

SCHEMA = """
name: "triton_of_test.proto" package: "triton_of_test" syntax: "proto3"
enum_type {
  name: "DataType"
  value { name: "TYPE_INVALID" number: 0 } value { name: "TYPE_BOOL" number: 1 }
  value { name: "TYPE_UINT8" number: 2 } value { name: "TYPE_INT32" number: 8 }
  value { name: "TYPE_INT64" number: 9 } value { name: "TYPE_FP16" number: 10 }
  value { name: "TYPE_FP32" number: 11 }
}
message_type {
  name: "Tensor"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field {
    name: "data_type" number: 2 type: TYPE_ENUM label: LABEL_OPTIONAL
    type_name: ".triton_of_test.DataType"
  }
}
message_type { name: "Batching" }
message_type {
  name: "Reshape"
  field { name: "shape" number: 1 type: TYPE_INT64 label: LABEL_REPEATED }
}
message_type {
  name: "ModelConfig"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "platform" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "max_batch_size" number: 4 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field {
    name: "input" number: 5 type: TYPE_MESSAGE label: LABEL_REPEATED
    type_name: ".triton_of_test.Input"
  }
  field {
    name: "output" number: 6 type: TYPE_MESSAGE label: LABEL_REPEATED
    type_name: ".triton_of_test.Output"
  }
  field {
    name: "dynamic_batching" number: 11 type: TYPE_MESSAGE label: LABEL_OPTIONAL
    type_name: ".triton_of_test.Batching"
  }
}
"""


def parse(text):
    """Parse a config; an unknown field or a value of the wrong type is an error."""
    file = text_format.Parse(SCHEMA, descriptor_pb2.FileDescriptorProto())
    tensor = file.message_type[0]
    # `dims` is field 4 of inputs and field 3 of outputs.
    for name, number in (('Input', 4), ('Output', 3)):
        message = file.message_type.add()
        message.CopyFrom(tensor)
        message.name = name
        message.field.add(name='dims', number=number, type=3, label=3)
        message.field.add(
            name='reshape', number=5, type=11, label=1, type_name='.triton_of_test.Reshape'
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = pool.FindMessageTypeByName('triton_of_test.ModelConfig')
    return text_format.Parse(text, message_factory.GetMessageClass(kind)())


def described(shape, *outputs, name='flowers'):
    def tensor(dtype, shape):
        return {'dtype': dtype, 'shape': shape}

    return parse(
        triton.describe(
            name,
            {'image': tensor('float32', shape)},
            {f'out{row}': tensor(*each) for row, each in enumerate(outputs)},
        )
    )


def test_one_image():
    config = described([1, 32, 48, 3], ('float32', [1, 5]), ('int64', [1, 32, 48]))
    assert (config.name, config.platform) == ('flowers', 'onnxruntime_onnx')
    assert config.max_batch_size == 0 and not config.HasField('dynamic_batching')
    (image,) = config.input
    assert (image.name, image.data_type, list(image.dims)) == ('image', 11, [1, 32, 48, 3])
    outputs = [(one.name, one.data_type, list(one.dims)) for one in config.output]
    assert outputs == [('out0', 11, [1, 5]), ('out1', 9, [1, 32, 48])]


@pytest.mark.parametrize('batch', ['batch', None])
def test_batches(batch):
    config = described([batch, 32, 48, 3], ('float32', [batch, 5]), ('float32', [batch]))
    assert config.max_batch_size == 8 and config.HasField('dynamic_batching')
    assert list(config.input[0].dims) == [32, 48, 3]
    # A number for each image: Triton has no empty `dims`, but a shape behind it.
    assert [list(one.dims) for one in config.output] == [[5], [1]]
    assert [one.HasField('reshape') for one in config.output] == [False, True]
    assert list(config.output[1].reshape.shape) == []


def test_an_unknown_side_alone_is_no_batch():
    config = described([1, 32, 48, 3], ('float32', ['rows', 4]))
    assert config.max_batch_size == 0
    assert list(config.output[0].dims) == [-1, 4]


def test_names_are_quoted():
    assert described([1], ('float32', [1]), name='a "b" é\\').name == 'a "b" é\\'


def test_folder_of_exports_becomes_the_model(tmp_path):
    export = tmp_path / 'models' / 'flowers' / '1700000000'
    export.mkdir(parents=True)
    tensor = {'image': {'dtype': 'float32', 'shape': [1, 4, 4, 3], 'meaning': 'pixels'}}
    (export / 'export.json').write_text(json.dumps({'inputs': tensor, 'outputs': tensor}))
    path = triton.write_config(str(export))
    assert path == str(export.parent / 'config.pbtxt')
    config = parse((export.parent / 'config.pbtxt').read_text())
    assert config.name == 'flowers' and config.input[0].name == 'image'


def test_what_people_have_added_to_a_config_stays(tmp_path, caplog):
    """`instance_group` and the like are added to the file by hand."""

    def export(side):
        folder = tmp_path / 'flowers' / str(side)
        folder.mkdir(parents=True)
        tensor = {'image': {'dtype': 'float32', 'shape': [1, side, side, 3]}}
        (folder / 'export.json').write_text(json.dumps({'inputs': tensor, 'outputs': tensor}))
        return pathlib.Path(triton.write_config(str(folder)))

    path = export(4)
    added = path.read_text() + '# größer\ninstance_group { count: 2 }\n'
    path.write_text(added, encoding='utf-8')
    shutil.rmtree(tmp_path / 'flowers' / '4')
    assert export(4).read_text(encoding='utf-8') == added
    assert not caplog.records
    # Another size: the config in the folder does not fit.
    assert list(parse(export(8).read_text()).input[0].dims) == [1, 8, 8, 3]
    assert path.with_name('config.pbtxt.old').read_text(encoding='utf-8') == added
    assert 'does not fit this export' in caplog.text
    path.write_bytes(added.encode('latin-1'))
    export(16)
    assert path.with_name('config.pbtxt.old').read_bytes() == added.encode('latin-1')


def test_other_formats_are_refused():
    triton.check('onnx')
    with pytest.raises(errors.UserError, match='is of --format=onnx, got --format=tflite'):
        triton.check('tflite')
