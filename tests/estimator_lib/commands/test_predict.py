"""An exported model over image files."""

import json

import numpy as np
import pytest
from google.protobuf import text_format
from PIL import Image

from estimator_lib import errors
from estimator_lib.commands import predict
from estimator_lib.export import exporting
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task


class Drawing(tiny_task.TinyTask):
    """Draws one pixel, writes a file, and describes an image by its sides."""

    def describe(self, features, outputs):
        height, width, _ = features['image'].shape
        return {'size': [height, width], 'class': outputs['classes']}, {'.txt': b'hello'}

    def draw(self, features, outputs, labels=None):
        return features['image'][:1, :1]


@pytest.fixture(scope='module')
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp('exported')
    checkpoint = tiny_task.save(folder / 'model.ckpt-7', tiny_task.values())
    config = text_format.Parse(
        "model { classification { num_classes: 2 backbone { name: 'mobilenet_v1' } } } "
        "train_input_reader { tf_record_input_reader { input_path: 'unused' } }",
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    return exporting.export_saved_model(
        tiny_task.TinyTask(), config, checkpoint, str(folder / 'export')
    )


@pytest.fixture
def images(tmp_path):
    """Two images of different sizes, as files."""
    random = np.random.RandomState(0)
    arrays = {
        'a': random.randint(0, 255, [5, 7, 3]).astype(np.uint8),
        'b': random.randint(0, 255, [9, 6, 3]).astype(np.uint8),
    }
    for name, array in arrays.items():
        Image.fromarray(array).save(tmp_path / f'{name}.png')
    return arrays


def test_each_image_is_described_and_drawn(export, images, tmp_path):
    out = tmp_path / 'out'
    said = predict.predict_images(
        export, f'{tmp_path}/*.png', str(out), build_task=lambda config: Drawing()
    )
    assert said == json.loads((out / predict.PREDICTIONS_FILE).read_text())
    for name, array in images.items():
        logits = tiny_task.expected_logits(array[np.newaxis], tiny_task.values())
        one = said[str(tmp_path / f'{name}.png')]
        assert one == {'size': list(array.shape[:2]), 'class': int(np.argmax(logits))}
        assert np.array_equal(np.asarray(Image.open(out / f'{name}.png')), array[:1, :1])
        assert (out / f'{name}.txt').read_bytes() == b'hello'


def test_without_a_description_all_outputs_are_listed(export, images, tmp_path):
    said = predict.predict_images(
        export, f'{tmp_path}/a.png', str(tmp_path / 'out'), lambda config: tiny_task.TinyTask()
    )
    (one,) = said.values()
    expected = tiny_task.expected_logits(images['a'][np.newaxis], tiny_task.values())[0]
    np.testing.assert_allclose(one['logits'], expected, rtol=1e-5)
    assert sorted(one) == ['classes', 'logits']


def test_what_is_no_image_is_named(export, images, tmp_path):
    (tmp_path / 'c.png').write_bytes(b'not an image')
    with pytest.raises(errors.DataError, match=r'c\.png'):
        predict.predict_images(
            export, f'{tmp_path}/*.png', str(tmp_path / 'out'), lambda config: Drawing()
        )


def test_a_pattern_without_files_is_named(export, tmp_path):
    with pytest.raises(errors.DataError, match=r'no file matches .*\.jpeg'):
        predict.predict_images(
            export, f'{tmp_path}/*.jpeg', str(tmp_path / 'out'), lambda config: Drawing()
        )
