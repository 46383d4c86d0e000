"""Metadata of a converted file, read back by the rules of flatbuffers and of ZIP.

Positions of fields are those of `schema.fbs` of TFLite and of `metadata_schema.fbs` of
tflite-support.
"""

import io
import json
import zipfile
from types import MappingProxyType

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.export.devices import static_graph, tflite
from estimator_lib.export.metadata import tflite_metadata
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import Content
from protos import pipeline_pb2
from tests import flatbuffer_reader
from tests.estimator_lib import tiny_task

NAMES = ['cat', 'dog', 'größer']
IMAGE, FEATURE, BOX = 2, 1, 3
AXIS_LABELS, VALUE_LABELS = 2, 3
NAME = 'TFLITE_METADATA'


class Boxes(tiny_task.TinyDeployable):
    """The scores of three classes, and what a detector has, in an order of its own."""

    contents = MappingProxyType(
        {
            'scores': Content.CLASS_SCORES,
            'places': Content.BOXES,
            'kinds': Content.CLASS_NUMBERS,
            'sure': Content.BOX_SCORES,
            'count': Content.COUNT,
        }
    )

    def __init__(self, task):
        super().__init__(task)
        self.meanings = {name: f'the {name}' for name in ('count', 'extra', *self.contents)}

    def finish(self, raw, ops):
        logits = raw['logits']
        row = tf.tile(logits[:, :1], [1, 2])
        return {
            'extra': logits * 2.0,
            'count': logits[:, 0] + 1.0,
            'sure': row + 2.0,
            'scores': tf.concat([logits, logits[:, :1] + 3.0], 1),
            'places': tf.tile(row[..., tf.newaxis], [1, 1, 4]) + 4.0,
            'kinds': row + 5.0,
        }


@pytest.fixture(scope='module')
def converted(tmp_path_factory):
    """The deployable, and the content of the file as the converter writes it."""
    folder = tmp_path_factory.mktemp('model')
    prefix = tiny_task.save(folder / 'model.ckpt', tiny_task.values())
    task = tiny_task.TinyTask()
    source = Source(task, pipeline_pb2.TrainEvalPipelineConfig(), prefix)
    deployable = Boxes(task)
    path = folder / 'model.tflite'
    tflite.TfliteWriter().convert(static_graph.build(deployable, source), str(path), 'none')
    return deployable, path.read_bytes()


@pytest.fixture(scope='module')
def described(converted):
    return tflite_metadata.add(converted[1], converted[0], 'tiny', NAMES, {})


def model(content):
    table, identifier = flatbuffer_reader.root(content)
    assert identifier == b'TFL3'
    return table


def metadata(content):
    (place,) = [one.number(1, '<I') for one in model(content).tables(6) if one.text(0) == NAME]
    table, identifier = flatbuffer_reader.root(model(content).tables(4)[place].bytes(0))
    assert identifier == b'M001'
    return table


def files(tensor):
    return [(one.text(0), one.number(2, '<b')) for one in tensor.tables(6)]


def test_model_and_input(described):
    table = metadata(described)
    assert table.text(0) == 'tiny' and table.text(7) == '1.0.0'
    (graph,) = table.tables(3)
    (image,) = graph.tables(2)
    assert image.text(0) == 'image'
    content = image.table(3)
    assert content.number(0, '<B') == IMAGE
    assert content.table(1).number(0, '<b') == 1  # red, green, blue
    size = content.table(1).table(1)
    assert (size.number(0, '<I'), size.number(1, '<I')) == (6, 6)
    (unit,) = image.tables(4)
    assert unit.number(0, '<B') == 1  # normalization
    assert unit.table(1).numbers(0, '<f') == [0.0] * 3
    assert unit.table(1).numbers(1, '<f') == [1.0] * 3
    assert image.table(5).numbers(0, '<f') == [255.0] * 3
    assert image.table(5).numbers(1, '<f') == [0.0] * 3


def test_outputs(described):
    outputs = metadata(described).tables(3)[0].tables(3)
    assert [one.text(0) for one in outputs] == [
        'scores', 'location', 'category', 'score', 'number of detections', 'extra'
    ]  # fmt: skip
    assert [one.text(1) for one in outputs][:2] == ['the scores', 'the places']
    kinds = [one.table(3).number(0, '<B') for one in outputs]
    assert kinds == [FEATURE, BOX, FEATURE, FEATURE, FEATURE, FEATURE]
    box = outputs[1].table(3).table(1)
    assert box.numbers(0, '<I') == [1, 0, 3, 2]  # left, top, right, bottom
    assert box.number(1, '<b') == 1 and box.number(2, '<b') == 0  # boundaries, in fractions
    labels = [files(one) for one in outputs]
    assert labels[0] == [('labels.txt', AXIS_LABELS)]
    assert labels[2] == [('labels.txt', VALUE_LABELS)]
    assert labels[1] == labels[3] == labels[4] == labels[5] == []


def test_labels_are_an_archive_behind_the_model(described):
    with zipfile.ZipFile(io.BytesIO(described)) as archive:
        assert archive.namelist() == ['labels.txt']
        assert archive.read('labels.txt').decode().splitlines() == NAMES
        (entry,) = archive.infolist()
        assert entry.compress_type == zipfile.ZIP_STORED  # readers map the file
        assert entry.date_time == (1980, 1, 1, 0, 0, 0)


def test_without_names_there_are_no_labels(converted):
    deployable, content = converted
    described = tflite_metadata.add(content, deployable, 'tiny', [], {})
    assert not zipfile.is_zipfile(io.BytesIO(described))
    assert [files(one) for one in metadata(described).tables(3)[0].tables(3)] == [[]] * 6


def test_names_that_do_not_fit_label_no_axis(converted):
    deployable, content = converted
    described = tflite_metadata.add(content, deployable, 'tiny', NAMES[:2], {})
    labels = [files(one) for one in metadata(described).tables(3)[0].tables(3)]
    assert labels[0] == [] and labels[2] == [('labels.txt', VALUE_LABELS)]


def test_file_computes_the_same_with_sorted_outputs(converted, described, tmp_path):
    """Programs that read no metadata go by the places of the outputs."""
    image = np.random.RandomState(0).uniform(0, 255, [1, 6, 6, 3]).astype(np.float32)
    found = []
    for name, content in (('before', converted[1]), ('after', described)):
        path = tmp_path / name
        path.write_bytes(content)
        found.append(tflite.TfliteWriter().load(str(path)).run(image))
    assert sorted(found[0]) == sorted(found[1]) == sorted(converted[0].meanings)
    for name, expected in found[0].items():
        np.testing.assert_array_equal(found[1][name], expected)
    interpreter = tf.lite.Interpreter(model_content=described)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]['index'], image)
    interpreter.invoke()
    ordered = [interpreter.get_tensor(one['index']) for one in interpreter.get_output_details()]
    for name, value in zip(('scores', 'places', 'kinds', 'sure', 'count', 'extra'), ordered):
        np.testing.assert_array_equal(value, found[0][name])


def test_an_image_that_is_gray(converted):
    _, content = converted
    gray = type('Gray', (Boxes,), {'input_shape': (6, 4, 1)})(tiny_task.TinyTask())
    (image,) = metadata(tflite_metadata.add(content, gray, 'tiny', [], {})).tables(3)[0].tables(2)
    properties = image.table(3).table(1)
    assert properties.number(0, '<b') == 2
    size = properties.table(1)
    assert (size.number(0, '<I'), size.number(1, '<I')) == (4, 6)  # width, height
    assert image.tables(4)[0].table(1).numbers(1, '<f') == [1.0]


def test_an_image_with_more_channels_has_no_color_space(converted):
    _, content = converted
    more = type('More', (Boxes,), {'input_shape': (6, 4, 5)})(tiny_task.TinyTask())
    (image,) = metadata(tflite_metadata.add(content, more, 'tiny', [], {})).tables(3)[0].tables(2)
    assert image.table(3).table(1).number(0, '<b') == 0  # unknown
    assert image.tables(4)[0].table(1).numbers(1, '<f') == [1.0] * 5


def test_equal_models_are_equal_files(converted, described):
    assert tflite_metadata.add(converted[1], converted[0], 'tiny', NAMES, {}) == described


def test_an_exported_file_has_metadata(tmp_path):
    prefix = tiny_task.save(tmp_path / 'model.ckpt', tiny_task.values())
    task = tiny_task.TinyTask()
    source = Source(task, pipeline_pb2.TrainEvalPipelineConfig(), prefix)
    writer = tflite.TfliteWriter()
    writer.write(writer.build(source), source, str(tmp_path))
    outputs = metadata((tmp_path / 'model.tflite').read_bytes()).tables(3)[0].tables(3)
    assert [one.text(0) for one in outputs] == ['logits', 'classes']


def test_facts_of_the_model(converted, tmp_path):
    facts = {'task': 'detect', 'threshold': 0.25, 'version': '1.2', 'license': 'mit'}
    described = tflite_metadata.add(converted[1], converted[0], 'tiny', NAMES, facts)
    table = metadata(described)
    assert (table.text(2), table.text(5)) == ('1.2', 'mit')
    units = [one.tables(4) for one in table.tables(3)[0].tables(3)]
    assert [len(one) for one in units] == [0, 0, 0, 1, 0, 0]  # of the scores of boxes
    (unit,) = units[3]
    assert unit.number(0, '<B') == 3 and unit.table(1).number(0, '<f') == 0.25
    with zipfile.ZipFile(io.BytesIO(described)) as archive:
        # Ultralytics reads the first file.
        assert archive.namelist() == ['metadata.json', 'labels.txt']
        assert json.loads(archive.read('metadata.json')) == facts
    path = tmp_path / 'a.tflite'
    path.write_bytes(described)
    read = tflite_metadata.read(str(path))
    assert (read.mean, read.deviation, read.labels) == ([0.0] * 3, [1.0] * 3, NAMES)


def test_labels_of_too_many_bytes_are_left_out(converted):
    file = io.BytesIO(converted[1])
    with zipfile.ZipFile(file, 'a', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('large.txt', bytes(2**20 + 1))
    assert tflite_metadata.read_labels(file.getvalue()) == ()
    with zipfile.ZipFile(file, 'a') as archive:
        archive.writestr('labels.txt', 'cat\ndog\n')
    assert tflite_metadata.read_labels(file.getvalue()) == ['cat', 'dog']


def test_a_file_without_metadata(converted, tmp_path):
    path = tmp_path / 'a.tflite'
    path.write_bytes(converted[1])
    assert tflite_metadata.read(str(path)) == tflite_metadata.Metadata()
