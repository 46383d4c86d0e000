import pytest

from estimator_lib import errors
from estimator_lib.export import formats
from estimator_lib.export.devices.device_files import DeviceWriter
from estimator_lib.export.devices.tflite import TfliteWriter
from estimator_lib.export.saved_model import SavedModelWriter
from estimator_lib.task_interfaces.deployable import DeploymentOptions


def test_writers_by_name_and_by_the_end_of_a_file():
    for name, kind in formats.WRITERS.items():
        writer = formats.create_writer(name)
        assert type(writer) is kind and writer.name == name
        if isinstance(writer, DeviceWriter):
            assert formats.writer_of_file(f'some/where/{writer.file_name}') == writer
    assert formats.create_writer('tflite').file_name == 'model.tflite'
    assert formats.endings() == ['.tflite', '.onnx']


def test_an_unknown_format():
    with pytest.raises(errors.UserError, match=r"tflit: unknown; did you mean 'tflite'"):
        formats.create_writer('tflit')
    with pytest.raises(
        errors.UserError, match=r'model\.pt: .* expected one that ends with .*\.tflite'
    ):
        formats.writer_of_file('model.pt')


def test_options_of_a_format():
    writer = formats.create_writer('saved_model', {'warmup_requests': 3, 'signature_name': 'x'})
    assert writer == SavedModelWriter(None, 'x', 3)
    five = DeploymentOptions(max_detections=5)
    writer = formats.create_writer('tflite', {'quantize': 'int8'}, five)
    assert writer == TfliteWriter('int8', 100, deployment=five)
    assert set(formats.option_names()) == {
        'input_type',
        'signature_name',
        'warmup_requests',
        'serving_weights',
        'quantize',
        'representative_examples',
        'keep_float',
        'max_loss',
        'batch',
        'input',
    }


DEVICES = 'is of --format=tflite or --format=onnx; leave it out.'


@pytest.mark.parametrize(
    ('name', 'options', 'expected'),
    [
        ('frozen_graph', {'warmup_requests': 3}, 'is of --format=saved_model; leave it out.'),
        ('onnx', {'signature_name': 'x'}, 'is of --format=saved_model; leave it out.'),
        (
            'tflite',
            {'input_type': 'image_tensor'},
            'is of --format=saved_model or --format=frozen_graph; leave it out.',
        ),
        ('tflite', {'batch': 'dynamic'}, 'is of --format=onnx; leave it out.'),
        ('saved_model', {'quantize': 'int8'}, DEVICES),
        ('frozen_graph', {'representative_examples': 3}, DEVICES),
    ],
)
def test_an_option_of_another_format_is_refused(name, options, expected):
    with pytest.raises(errors.UserError) as caught:
        formats.create_writer(name, options)
    (option,) = options
    assert str(caught.value) == f'--{option} {expected}'


@pytest.mark.parametrize('name', ['saved_model', 'frozen_graph'])
def test_an_option_of_a_task_is_of_files_for_devices(name):
    with pytest.raises(errors.UserError) as caught:
        formats.create_writer(name, {}, DeploymentOptions(fast_nms=True))
    assert str(caught.value) == f'--fast_nms {DEVICES}'
