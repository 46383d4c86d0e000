"""`predict.py` beside ONNX and TFLite files, in processes without TensorFlow."""

import importlib.util
import json
import logging
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image

from estimator_lib import errors
from estimator_lib.export import exported_file, exporting, formats
from estimator_lib.export.devices import whole_images
from estimator_lib.export.metadata import client_program
from model_fns import build_task
from protos import pipeline_pb2
from tests import tiny_deployed, tiny_detection

pytestmark = pytest.mark.usefixtures('shallow_networks')

DETECTOR = tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS)
PADDED = DETECTOR.replace(
    'fixed_shape_resizer { height: 64 width: 64 }',
    'keep_aspect_ratio_resizer { min_dimension: 40 max_dimension: 64 pad_to_max_dimension: true }',
)
CLASSIFIER = """
model { classification {
  num_classes: 12 image_height: 32 image_width: 32
  backbone { name: 'mobilenet_v1' depth_multiplier: 0.1 }
} }
"""
SEGMENTATION = """
model { segmentation {
  num_classes: 3 crop_height: 33 crop_width: 41
  backbone { name: "mobilenet_v2" depth_multiplier: 0.25 output_stride: 16 }
} }
"""
# Config, rule of the size, and name of the task in the metadata.
CASES = {
    'classifier': (CLASSIFIER, 'central_crop 0.875', 'classify'),
    'detector': (DETECTOR, 'stretch', 'detect'),
    'padded detector': (PADDED, 'keep_aspect 40 64 pad 127.5 127.5 127.5', 'detect'),
    'segmentation': (SEGMENTATION, 'shrink pad 127.5 127.5 127.5', 'semantic'),
}

FILES = [
    *((case, 'onnx', {}) for case in sorted(CASES)),
    *((case, 'onnx', {'input': 'image'}) for case in ('classifier', 'detector')),
    *((case, 'tflite', {}) for case in ('classifier', 'detector', 'segmentation')),
]
# TensorFlow's binary of the interpreter, under the name that `tflite_runtime` gives it.
WRAPPER = '_pywrap_tensorflow_interpreter_wrapper'
LOAD_WRAPPER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location(__name__, {path!r})
sys.modules[__name__] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[__name__])
"""
METRICS = """
class TFLiteMetrics:
    def increase_counter_interpreter_creation(self):
        pass
"""


def provide_runtime(format_name, folder, monkeypatch):
    """Skip without a runtime of a format; that of TFLite is also made of TensorFlow's files."""
    if format_name == 'onnx':
        for package in ('onnxruntime', 'tf2onnx'):
            pytest.importorskip(package, reason='the extra [onnx] is not installed')
    elif not any(map(importlib.util.find_spec, formats.WRITERS['tflite'].runtime.packages)):
        lite = pathlib.Path(tf.__file__).parent / 'lite' / 'python'
        binary = lite / 'interpreter_wrapper' / f'{WRAPPER}.so'
        if not binary.exists():
            pytest.skip('this TensorFlow has no interpreter that stands alone; ai-edge-litert has')
        package = folder / 'packages' / 'tflite_runtime'
        package.mkdir(parents=True)
        (package / '__init__.py').touch()
        (package / 'interpreter.py').symlink_to(lite / 'interpreter.py')
        (package / 'metrics_portable.py').write_text(METRICS)
        (package / f'{WRAPPER}.py').write_text(LOAD_WRAPPER.format(path=str(binary)))
        monkeypatch.syspath_prepend(str(package.parent))


def rows(task, predictor, image):
    outputs = {name: value[0] for name, value in predictor.predict(image[np.newaxis]).items()}
    return task.presentation.describe({'image': image}, outputs).rows


@pytest.mark.parametrize(('case', 'format_name', 'options'), FILES)
def test_a_program_answers_as_the_command(
    tmp_path, case, format_name, options, monkeypatch, caplog
):
    provide_runtime(format_name, tmp_path, monkeypatch)
    caplog.set_level(logging.INFO, 'estimator_lib')
    text, rule, kind = CASES[case]
    rule = 'inside' if options else rule
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(text + 'eval_config { min_score_threshold: 0.02 }', config)
    config.export_config.license = 'apache-2.0'
    task = build_task(config)
    checkpoint = tiny_deployed.save(task, tmp_path / 'model.ckpt')
    writer = formats.create_writer(format_name, options)
    folder = pathlib.Path(exporting.export(task, config, checkpoint, str(tmp_path), writer))
    assert 'predict.py ran without TensorFlow' in caplog.text
    about = json.loads((folder / 'export.json').read_text())
    assert (about['resize'], about['task']) == (rule, kind)
    assert 'python predict.py photo.jpg' in (folder / 'README.md').read_text()
    (image,) = tiny_deployed.images(1, 70, 50)
    found = client_program.run(str(folder / 'predict.py'), image)
    predictor = exported_file.FilePredictor(task, str(folder / f'model.{format_name}'))
    expected = rows(task, predictor, image)
    assert found and len(found) == len(expected)
    if kind == 'semantic':
        assert {row['class'] for row in found} == {row['class'] for row in expected}
        counts = {row['class']: row['pixels'] for row in expected}
        for row in found:
            assert row['pixels'] == pytest.approx(counts[row['class']], abs=0.02 * image.size / 3)
        return
    for row, other in zip(found, expected):
        assert row['score'] == pytest.approx(other['score'], abs=2e-3)
    names = [row['class'].removeprefix('class ') for row in found]
    assert sorted(names) == sorted(row['class'] for row in expected)
    if kind == 'detect':
        sides = ('ymin', 'xmin', 'ymax', 'xmax')
        boxes = np.array([[row[side] for side in sides] for row in expected])
        distances = np.abs(boxes[:, np.newaxis] - np.array([row['box'] for row in found]))
        assert distances.max(-1).min(0).max() < 0.5  # of pixels; equal scores change places


def test_a_picture_of_classes_lies_beside_the_image(tmp_path):
    """The program of a segmentation writes the classes at the size of the image."""
    config = text_format.Parse(SEGMENTATION, pipeline_pb2.TrainEvalPipelineConfig())
    task = build_task(config)
    deployable = task.deployable(formats.WRITERS['onnx'].ops)
    lines = '\n'.join(deployable.report)
    classes = np.arange(33 * 41).reshape([1, 33, 41]) % 3
    values = {
        'np': np,
        'Image': Image,
        'os': __import__('os'),
        'outputs': {'SemanticPredictions': classes},
        'content': (20, 41),
        'size': (40, 82),
        'names': {0: 'a', 1: 'b', 2: 'c'},
        'path': str(tmp_path / 'photo.jpg'),
    }
    exec(lines, values)
    picture = np.asarray(Image.open(tmp_path / 'photo_classes.png'))
    assert picture.shape == (40, 82)
    assert picture[0, 0] == classes[0, 0, 0] and picture[-1, -1] == classes[0, 19, 40]
    assert sum(row['pixels'] for row in values['results']) == 40 * 82


@pytest.mark.parametrize('case', ['padded detector', 'segmentation'])
def test_files_that_cannot_resize_are_refused(case):
    config = text_format.Parse(CASES[case][0], pipeline_pb2.TrainEvalPipelineConfig())
    deployable = build_task(config).deployable(formats.WRITERS['onnx'].ops)
    with pytest.raises(errors.UserError, match='--input=image: the file would resize images by'):
        whole_images.WholeImages(deployable)
