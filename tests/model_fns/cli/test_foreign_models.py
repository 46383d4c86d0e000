"""Files of other programs: what their outputs mean, whose names they have, what they predict."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.export.foreign.foreign_file import ForeignFile, ImageInput
from model_fns import build_task
from model_fns.cli import chosen_models, foreign_models
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2
from tests import tiny_data
from tests.conftest import shared_folder

tf1 = tf.compat.v1

FOREIGN = shared_folder() / 'foreign'
IMAGE = np.random.RandomState(0).randint(0, 256, [120, 90, 3]).astype(np.uint8)

pytestmark = pytest.mark.usefixtures('forked_processes')


class Shaped(ForeignFile):
    """A file of outputs with shapes, which computes nothing."""

    path = 'a/model.tflite'
    image = ImageInput('image_tensor', tf.uint8, [1, 8, 8, 3])

    def __init__(self, shapes, labels=()):
        self._shapes = shapes
        self.labels = labels

    def output_shapes(self):
        return self._shapes

    def compute(self, images):
        raise NotImplementedError


def shapes(*sides):
    return {str(index): each for index, each in enumerate(sides)}


PUBLISHED = {
    'detection_boxes': [None, 100, 4],
    'detection_scores': [None, 100],
    'detection_classes': [None, 100],
    'num_detections': [None],
}


@pytest.mark.parametrize(
    'outputs, model, count',
    [
        (PUBLISHED, 'ssd', None),
        ({**PUBLISHED, 'raw_detection_scores': [None, 9, 4]}, 'ssd', 3),  # and the background
        (shapes([1, 10, 4], [1, 10], [1, 10], [1]), 'ssd', None),
        ({'SemanticPredictions': [1, None, None]}, 'segmentation', None),
        (shapes([1, 1001]), 'classification', 1001),
        (shapes([1, 257, 257, 21]), 'segmentation', 21),
        ({'logits': [None, 3], 'probabilities': [None, 3], 'classes': [None]}, 'classification', 3),
    ],
)
def test_forms_by_names_and_shapes(outputs, model, count):
    form = foreign_models.find_form(Shaped(outputs))
    assert (form.model, form.count(outputs)) == (model, count)


def test_outputs_of_no_form_are_listed():
    with pytest.raises(errors.UserError, match=r'not known: 0 \[1, 5, 5\], 1 \[3\]\. Expected'):
        foreign_models.find_form(Shaped(shapes([1, 5, 5], [3])))


def described(monkeypatch, tmp_path, file, label_map=None):
    monkeypatch.setattr(foreign_models.exported_file, 'open_foreign', lambda path: file)
    config = foreign_models.describe(file.path, label_map and str(label_map), str(tmp_path))
    return build_task(config, 'predict').presentation.class_names


DETECTOR = shapes([1, 10, 4], [1, 10], [1, 10], [1])
# Names of the classes from the first number on.
LINES = {
    'detector': (DETECTOR, ['person', 'bicycle'], ['person', 'bicycle', '3']),
    'with background': (DETECTOR, ['???', 'person', 'bicycle'], ['person', 'bicycle', '3']),
    'with gaps': (DETECTOR, ['person', '???', 'car'], ['person', '2', 'car']),
    'classifier': (shapes([1, 3]), ['tench', 'crane', 'crane'], ['tench', 'crane', 'crane (2)']),
    'pixels': (shapes([1, 9, 9, 2]), ['background', 'cat'], ['background', 'cat']),
}


@pytest.mark.parametrize('case', sorted(LINES))
@pytest.mark.parametrize('in_file', [True, False])
def test_names_of_lines(monkeypatch, tmp_path, case, in_file):
    outputs, lines, names = LINES[case]
    text = tmp_path / 'names.txt'
    text.write_text('\n'.join(lines))
    file = Shaped(outputs, lines if in_file else ['x', 'y'])
    found = described(monkeypatch, tmp_path, file, None if in_file else text)
    assert list(found[: len(names)]) == names


def test_names_of_a_label_map(monkeypatch, tmp_path):
    path = tmp_path / 'names.pbtxt'
    path.write_text("item { id: 1 name: 'cat' }\nitem { id: 3 name: 'dog' }")
    assert described(monkeypatch, tmp_path, Shaped(DETECTOR), path)[:3] == ['cat', '2', 'dog']
    # Three outputs, and ids up to 3: there is none of id 0.
    assert described(monkeypatch, tmp_path, Shaped(shapes([1, 3])), path) == ['cat', '2', 'dog']
    assert described(monkeypatch, tmp_path, Shaped(shapes([1, 4])), path)[1:2] == ['cat']
    with pytest.raises(errors.UserError, match=r'names.pbtxt: the id 3 \(dog\) is none of the 2'):
        described(monkeypatch, tmp_path, Shaped(shapes([1, 2])), path)


def test_names_are_written_beside_those_of_a_run(monkeypatch, tmp_path):
    of_run = tmp_path / 'label_map.pbtxt'
    of_run.write_text("item { id: 1 name: 'ship' }")
    found = described(monkeypatch, tmp_path, Shaped(DETECTOR, ['person']))
    assert found[0] == 'person'
    assert of_run.read_text() == "item { id: 1 name: 'ship' }"
    assert (tmp_path / 'model.tflite.label_map.pbtxt').exists()


def test_names_without_a_folder(monkeypatch, tmp_path):
    names = tmp_path / 'names.txt'
    names.write_text('cat')
    file = Shaped(DETECTOR, ['person'])
    monkeypatch.setattr(foreign_models.exported_file, 'open_foreign', lambda path: file)
    assert not foreign_models.describe(file.path, None, None).HasField('train_input_reader')
    with pytest.raises(errors.UserError, match=r'names.txt: .* expected --output_dir=DIR\.'):
        foreign_models.describe(file.path, str(names), None)


def test_lists_without_a_name(monkeypatch, tmp_path):
    text = tmp_path / 'names.txt'
    for content in ('', '???\n', '\n\n'):
        text.write_text(content)
        with pytest.raises(errors.UserError, match=r'--label_map: .*names.txt has no names; exp'):
            described(monkeypatch, tmp_path, Shaped(DETECTOR), text)
    assert described(monkeypatch, tmp_path, Shaped(DETECTOR, ['???']))[0] == 'class 1'


class Feeding(Shaped):
    """A file whose outputs are given."""

    def __init__(self, output):
        super().__init__(shapes([1, 3]))
        self._output = output

    def add(self):
        received = tf1.placeholder(tf.uint8, [None, None, None, 3], 'image_tensor')
        return received, {'0': tf.constant(self._output)}


@pytest.mark.parametrize(
    'scores, expected',
    [
        ([[0.75, 0.875, 0.125]], [[0.75, 0.875, 0.125]]),
        ([[0.0, 1.0, 0.5]], [[0, 1, 0.5]]),
        ([[0.0, np.log(3), -2000]], [[0.5, 0.75, 0]]),  # logits
    ],
)
def test_labels_that_occur_together_keep_their_probabilities(monkeypatch, scores, expected):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.model.classification.num_classes = 3
    config.model.classification.multi_label = True
    config.model.classification.backbone.name = 'mobilenet_v1'
    file = Feeding(np.array(scores, np.float32))
    monkeypatch.setattr(foreign_models.exported_file, 'open_foreign', lambda path: file)
    predictor = foreign_models.open_predictor('a', build_task(config, 'predict'))
    found = predictor.predict(IMAGE[np.newaxis])
    np.testing.assert_allclose(found['probabilities'], expected, atol=1e-6)
    assert np.isfinite(found['logits']).all()
    assert found['classes'].tolist() == (np.array(expected) >= 0.5).astype(int).tolist()


def test_detections_by_position_count_from_one():
    with tf.Graph().as_default(), tf1.Session() as session:
        form = foreign_models.find_form(Shaped(DETECTOR))
        values = [[[[-0.5, 0, 0.5, 2]]], [[2.0]], [[0.75]], [1.0]]
        named = session.run(form.convert(dict(enumerate(map(tf.constant, values))), None))
    assert named['detection_boxes'].tolist() == [[[0, 0, 0.5, 1]]]
    assert named['detection_classes'].tolist() == [[3]]
    assert named['detection_scores'].tolist() == [[0.75]]
    assert named['num_detections'].tolist() == [1]


def write_color_graph(path, name, dtype, shape, factor=1.0):
    """A classifier whose scores are the mean values of red, green and blue."""
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(dtype, shape, name)
        means = tf.reduce_mean(tf.cast(images, tf.float32), [1, 2])
        tf.nn.softmax(factor * means, name='MobilenetV1/Predictions/Softmax')
        path.write_bytes(graph.as_graph_def().SerializeToString())


CLASSES = """
model {{ classification {{ num_classes: 3 labels_offset: 1 backbone {{ name: 'mobilenet_v1' }} }} }}
"""
READER = """
eval_config {{ batch_size: 4 }}
eval_input_reader {{
  label_map_path: '{0}/label_map.pbtxt'
  tf_record_input_reader {{ input_path: '{0}/val.tfrecord' }}
}}
"""


@pytest.mark.parametrize('model', [CLASSES, ''])
def test_a_frozen_classifier_is_evaluated(tmp_path, model):
    # The fourth image is green, and its label red.
    tiny_data.write_records(tmp_path / 'val.tfrecord', 6, labels=[1, 2, 3, 2])
    tiny_data.write_label_map(tmp_path / 'label_map.pbtxt')
    graph, config = tmp_path / 'frozen.pb', tmp_path / 'eval.config'
    write_color_graph(graph, 'input', tf.float32, [None, 8, 8, 3])
    config.write_text((model + READER).format(tmp_path))
    names = None if model else str(tmp_path / 'label_map.pbtxt')
    options = RunOptions(
        mode='evaluate', pipeline_config_path=str(config), model_file=str(graph), label_map=names
    )
    config = chosen_models.load_file_config(options, str(graph), str(tmp_path))
    task = build_task(config, 'evaluate')
    predictor = chosen_models.open_file(str(graph), task)
    metrics = training.evaluate_file(task, config, str(graph), predictor=predictor)
    assert metrics['0']['accuracy'] == pytest.approx(5 / 6)


def open_file(name, folder, label_map=None):
    path = FOREIGN / name
    if not path.exists():
        pytest.skip(f'{path} is absent')
    config = foreign_models.describe(str(path), label_map, str(folder))
    task = build_task(config, 'predict')
    return task, chosen_models.open_file(str(path), task)


def run_graph(name, feeds, fetches):
    graph_def = tf1.GraphDef.FromString((FOREIGN / name).read_bytes())
    with tf.Graph().as_default(), tf1.Session() as session:
        feeds = {f'{key}:0': value for key, value in feeds.items()}
        found = tf1.import_graph_def(graph_def, return_elements=[f'{one}:0' for one in fetches])
        return session.run(found, {f'import/{key}': value for key, value in feeds.items()})


def bilinear(image, side):
    """Rows and columns at n * size / side, as TensorFlow 1 resizes."""
    for axis in (0, 1):
        places = np.arange(side, dtype=np.float64) * (image.shape[axis] / side)
        low = np.floor(places).astype(int)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        share = (places - low).reshape([-1, 1, 1] if axis == 0 else [1, -1, 1])
        image = np.take(image, low, axis) * (1 - share) + np.take(image, high, axis) * share
    return image


@pytest.mark.parametrize('name, side', [('voc20.pb', None), ('pcd.pb', 256)])
def test_frozen_detectors(tmp_path, name, side):
    task, predictor = open_file(name, tmp_path)
    found = predictor.predict(IMAGE[np.newaxis])
    image = IMAGE if side is None else np.rint(bilinear(IMAGE, side)).astype(np.uint8)
    names = ['detection_boxes', 'detection_scores', 'detection_classes', 'num_detections']
    expected = run_graph(name, {'image_tensor': image[np.newaxis]}, names)
    for key, value in zip(names, expected):
        np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-3)
    assert task.presentation.describe(
        {'image': IMAGE}, {key: found[key][0] for key in found}
    ).picture.any()


@pytest.mark.parametrize(
    'name, side, output',
    [
        ('mnv1_025_128_frozen.pb', 128, 'MobilenetV1/Predictions/Reshape_1'),
        ('poets_retrained.pb', 128, 'final_result'),
    ],
)
def test_frozen_classifiers(tmp_path, name, side, output):
    _, predictor = open_file(name, tmp_path)
    found = predictor.predict(IMAGE[np.newaxis])
    fed = bilinear(IMAGE, side)[np.newaxis] / 127.5 - 1
    (expected,) = run_graph(name, {'input': fed}, [output])
    np.testing.assert_allclose(found['probabilities'], expected, atol=1e-4)
    assert found['classes'].tolist() == expected.argmax(-1).tolist()


def test_a_classifier_whose_input_has_lost_its_size(tmp_path):
    _, predictor = open_file('poets_optimized.pb', tmp_path)
    _, same = open_file('poets_retrained.pb', tmp_path)
    found, expected = (each.predict(IMAGE[np.newaxis]) for each in (predictor, same))
    np.testing.assert_allclose(found['probabilities'], expected['probabilities'], atol=1e-4)


@pytest.mark.parametrize('name, side', [('mnv1_025_224_hub.tflite', 224)])
def test_tflite_classifiers(tmp_path, name, side):
    _, predictor = open_file(name, tmp_path)
    found = predictor.predict(IMAGE[np.newaxis])
    interpreter = tf.lite.Interpreter(str(FOREIGN / name))
    interpreter.allocate_tensors()
    fed = (bilinear(IMAGE, side)[np.newaxis] / 127.5 - 1).astype(np.float32)
    interpreter.set_tensor(interpreter.get_input_details()[0]['index'], fed)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]['index'])
    np.testing.assert_allclose(found['probabilities'], expected, atol=1e-4)


def test_a_tflite_segmentation_has_its_names(tmp_path):
    task, predictor = open_file('deeplabv3_257.tflite', tmp_path)
    assert list(task.presentation.class_names)[:3] == ['background', 'aeroplane', 'bicycle']
    found = predictor.predict(IMAGE[np.newaxis])
    assert found['SemanticPredictions'].shape == (1, 120, 90)
    np.testing.assert_allclose(found['SemanticProbabilities'].sum(-1), 1.0, atol=1e-4)


def test_poets_have_names_of_a_text_file(tmp_path):
    names = tmp_path / 'names.txt'
    names.write_text('glasses\nno glasses\n')
    task, predictor = open_file('poets_glasses.tflite', tmp_path, str(names))
    found = {key: value[0] for key, value in predictor.predict(IMAGE[np.newaxis]).items()}
    rows = task.presentation.describe({'image': IMAGE}, found).rows
    assert sorted(row['class'] for row in rows) == ['glasses', 'no glasses']


@pytest.mark.parametrize(
    'name, reason',
    [
        ('mnv1_025_edgetpu.tflite', 'compiled for the Edge TPU; expected the file from before'),
        ('person_detect.tflite', r'must be in range \[0, 1\). Was 3.$'),
    ],
)
def test_files_that_cannot_be_run(tmp_path, name, reason):
    with pytest.raises(errors.UserError, match=reason):
        open_file(name, tmp_path)


def test_a_config_of_another_model_is_refused(tmp_path):
    path = tmp_path / 'frozen.pb'
    write_color_graph(path, 'input', tf.float32, [None, 8, 8, 3])
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.model.segmentation.num_classes = 3
    config.model.segmentation.backbone.name = 'mobilenet_v2'
    with pytest.raises(errors.UserError, match="no output 'SemanticPredictions'"):
        chosen_models.open_file(str(path), build_task(config, 'predict'))
