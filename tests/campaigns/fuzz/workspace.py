"""Folder with the valid inputs of a campaign, and what is made of them once."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import shutil
from typing import Any, Dict, Mapping

import numpy as np
import tensorflow as tf
from PIL import Image

import model_fns
from estimator_lib import config as config_lib
from estimator_lib.checkpoints import checkpoint_files, evaluated, object_graphs
from estimator_lib.data import corrupt_records, inputs
from estimator_lib.data.record_sources import Source
from estimator_lib.export import artifacts, exporting, formats
from estimator_lib.export.devices import static_graph
from estimator_lib.task import Task
from model_fns.datasets import codecs
from model_fns.structures.label_map import LabelMap
from protos import pipeline_pb2
from tests import tiny_deployed
from tests.campaigns.fuzz import valid_inputs

tf1 = tf.compat.v1

CHECKPOINT = 'model.ckpt-5'  # in the folder `model`
VALUES: Mapping[str, Any] = {
    'conv/weights': np.arange(108, dtype=np.float32).reshape([3, 3, 3, 4]),
    'conv/biases': np.zeros([4], np.float32),
}
OBJECT_PATHS: Mapping[str, str] = {
    'model/conv/kernel': 'conv/weights',
    'model/conv/bias': 'conv/biases',
}


class Workspace:
    """Valid inputs in a folder, and folders for malformed ones.

    Args:
        folder: an empty one.

    Attributes:
        folder: of the valid inputs.
        images: folder of the images `a.png` and `b.png`.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.images = folder / 'images'
        self._testers: Dict[Any, corrupt_records.RecordTester] = {}
        LabelMap.from_names(['cat', 'dog']).write(str(folder / 'label_map.pbtxt'))
        for kind in valid_inputs.KINDS:
            with tf.io.TFRecordWriter(str(folder / f'{kind}.tfrecord')) as writer:
                for index in range(3):
                    writer.write(valid_inputs.example(kind, index))
        self.images.mkdir()
        for index, stem in enumerate('ab'):
            self.images.joinpath(f'{stem}.png').write_bytes(codecs.encode_png(_pixels(50 * index)))

    def empty(self, name: str) -> pathlib.Path:
        """Return a folder with nothing in it."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path

    def copy(self, source: pathlib.Path) -> pathlib.Path:
        """Return a new copy of a folder of valid inputs."""
        path = self.folder / f'malformed_{source.name}'
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path)
        return path

    def file(self, name: str, content: bytes) -> str:
        """Write a file; return its path."""
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    @functools.cached_property
    def configs(self) -> Dict[str, pipeline_pb2.TrainEvalPipelineConfig]:
        """The pipeline configs by kind of task."""
        return {
            kind: config_lib.parse_pipeline_config(
                valid_inputs.config_text(self.folder, kind), kind
            )
            for kind in valid_inputs.KINDS
        }

    @functools.cached_property
    def tasks(self) -> Dict[str, Task]:
        """The tasks of `configs`."""
        return {kind: model_fns.build_task(config) for kind, config in self.configs.items()}

    @functools.cached_property
    def deep_tasks(self) -> Dict[str, Task]:
        """Tasks as `tasks`, of images with further channels and of 16 bits."""
        tasks = {}
        for kind, config in self.configs.items():
            deep = pipeline_pb2.TrainEvalPipelineConfig()
            deep.CopyFrom(config)
            for name, value in valid_inputs.DEEP_FIELDS.items():
                setattr(deep.train_input_reader, name, value)
            if kind == 'classification':  # whose network takes gray images
                deep.model.classification.use_grayscale = False
                deep.model.classification.backbone.name = 'cifarnet'
            tasks[kind] = model_fns.build_task(deep)
        return tasks

    def tester(self, kind: str, mode: str) -> corrupt_records.RecordTester:
        """Return what decodes records of a kind of task, made once for each mode."""
        return self._tester(self.tasks[kind], kind, mode)

    def deep_tester(self, kind: str, mode: str) -> corrupt_records.RecordTester:
        """Return what decodes records of one of `deep_tasks`, made once for each mode."""
        return self._tester(self.deep_tasks[kind], kind, mode)

    def _tester(self, task: Task, kind: str, mode: str) -> corrupt_records.RecordTester:
        if (id(task), mode) not in self._testers:
            reader = self.configs[kind].train_input_reader
            source = Source(0, tuple(inputs.input_files(reader)))
            self._testers[id(task), mode] = corrupt_records.RecordTester(task, mode, source)
        return self._testers[id(task), mode]

    @functools.cached_property
    def pictures(self) -> Dict[str, bytes]:
        """Encoded images by name, one of each format, some with an EXIF orientation."""
        folder = self.empty('pictures')
        image = Image.fromarray(_pixels(80))
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(folder / 'a.jpg', exif=exif)
        image.save(folder / 'b.png', exif=exif)
        image.convert('L').save(folder / 'c.jpeg')
        image.convert('P').save(folder / 'd.png')
        image.convert('RGBA').save(folder / 'e.png')
        Image.fromarray(np.arange(64, dtype=np.uint16).reshape([8, 8])).save(folder / 'f.png')
        Image.fromarray(_pixels(80)[..., 0].astype(np.uint16) << 8).save(folder / 'i.tif')
        image.save(folder / 'g.gif')
        image.save(folder / 'h.bmp')
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    @functools.cached_property
    def model(self) -> pathlib.Path:
        """Folder of a run with `model.ckpt-3` and `model.ckpt-5`, of two variables and a step."""
        folder = self.empty('model')
        with tf.Graph().as_default(), tf1.Session() as session:
            for name, value in VALUES.items():
                tf1.get_variable(name, initializer=value)
            step = tf1.train.create_global_step()
            saver = tf1.train.Saver()
            session.run(tf1.global_variables_initializer())
            for number in (3, 5):
                session.run(step.assign(number))
                saver.save(session, str(folder / 'model.ckpt'), step)
        return folder

    @functools.cached_property
    def object_model(self) -> pathlib.Path:
        """Folder with `ckpt-0` of TensorFlow 2, of the same variables."""
        folder = self.empty('object_model')
        values = {path: VALUES[name] for path, name in OBJECT_PATHS.items()}
        step = {object_graphs.STEP: np.int64(5)}
        object_graphs.write({**values, **step}, str(folder))
        return folder

    @functools.cached_property
    def frozen_graph(self) -> tf1.GraphDef:
        """Graph of two layers, with an identity of each kernel and a loop."""
        with tf.Graph().as_default() as graph:
            values = tf.cast(tf1.placeholder(tf.uint8, [1, 8, 8, 3], 'image_tensor'), tf.float32)
            for scope, channels in (('MobilenetV1/Conv2d_0', 3), ('MobilenetV1/Conv2d_1', 4)):
                with tf1.name_scope(f'{scope}/'):
                    kernel = tf.identity(tf.ones([3, 3, channels, 4]), 'weights/read')
                    values = tf.nn.relu6(tf.nn.conv2d(values, kernel, 1, 'SAME', name='Conv2D'))
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        return graph.as_graph_def()

    @functools.cached_property
    def saved_model(self) -> pathlib.Path:
        """SavedModel of one convolution, as files for devices are made of."""
        return self._convolution('saved_model', tf.float32)

    @functools.cached_property
    def served_model(self) -> pathlib.Path:
        """SavedModel of one convolution, which takes images."""
        return self._convolution('served_model', tf.uint8)

    def _convolution(self, name: str, kind: tf.DType) -> pathlib.Path:
        folder = self.folder / name
        with tf.Graph().as_default(), tf1.Session() as session:
            image = tf1.placeholder(kind, [1, 8, 8, 3], static_graph.INPUT)
            kernel, values = tf.constant(VALUES['conv/weights']), tf.cast(image, tf.float32)
            outputs = {'logits': tf.reduce_mean(tf.nn.conv2d(values, kernel, 1, 'SAME'), [1, 2])}
            inputs_by_name = {static_graph.INPUT: image}
            tf1.saved_model.simple_save(session, str(folder), inputs_by_name, outputs)
        return folder

    @functools.cached_property
    def tflite(self) -> pathlib.Path:
        """Folder of `model.tflite`, of the same convolution, with its `export.json`."""
        converter = tf.lite.TFLiteConverter.from_saved_model(str(self.saved_model))
        return self._device_file('tflite', 'model.tflite', converter.convert())

    @functools.cached_property
    def onnx(self) -> pathlib.Path:
        """Folder of `model.onnx`, of a mean over pixels, with its `export.json`."""
        import onnx

        make = onnx.helper.make_tensor_value_info
        node = onnx.helper.make_node(
            'ReduceMean', [static_graph.INPUT], ['logits'], axes=[1, 2], keepdims=0
        )
        graph = onnx.helper.make_graph(
            [node],
            'mean',
            [make(static_graph.INPUT, onnx.TensorProto.FLOAT, [1, 8, 8, 3])],
            [make('logits', onnx.TensorProto.FLOAT, [1, 3])],
        )
        opset = onnx.helper.make_opsetid('', 15)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
        return self._device_file('onnx', 'model.onnx', model.SerializeToString())

    def _device_file(self, name: str, file: str, content: bytes) -> pathlib.Path:
        folder = self.empty(name)
        (folder / file).write_bytes(content)
        about = evaluated.to_json(artifacts.describe_file(str(folder / file)))
        (folder / artifacts.EXPORT_FILE).write_text(about)
        return folder

    @functools.cached_property
    def classifier(self) -> pathlib.Path:
        """Folder of a run of the classifier, with a checkpoint and its metrics."""
        folder = self.empty('classifier')
        tiny_deployed.save(self.tasks['classification'], folder / CHECKPOINT)
        evaluated.write(str(folder), 5, {'val': {'accuracy': 0.5}})
        config_lib.save_pipeline_config(self.configs['classification'], str(folder))
        checkpoint_files.clean_temporary(str(folder))  # lists the checkpoint
        return folder

    @functools.cached_property
    def export(self) -> pathlib.Path:
        """SavedModel of the classifier, as a run exports it."""
        return self._export('saved_model')

    @functools.cached_property
    def device_export(self) -> pathlib.Path:
        """Folder of `model.tflite` of the classifier, with the files that are exported with it."""
        return self._export('tflite')

    def _export(self, format_name: str) -> pathlib.Path:
        folder = self.folder / f'exported_{format_name}'
        path = exporting.export(
            self.tasks['classification'],
            self.configs['classification'],
            str(self.classifier / CHECKPOINT),
            str(self.empty('exports')),
            formats.create_writer(format_name),
        )
        shutil.move(path, folder)
        return folder


def has_onnx() -> bool:
    """Return whether the packages are installed that write and run ONNX files."""
    return all(importlib.util.find_spec(name) for name in ('onnx', 'onnxruntime'))


def _pixels(value: int) -> np.ndarray:
    return np.full([valid_inputs.SIZE, valid_inputs.SIZE, 3], value, np.uint8)
