"""Targets of `benchmarks.fuzz`: one function for each kind of input.

A target corrupts an input and reads it. It raises `errors.UserError` where it refuses the input,
and returns where it accepts it. Anything else is a fault.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import random
import shutil
from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np
import tensorflow as tf

import model_fns
from benchmarks import fuzz_data
from benchmarks.fuzz_mutations import corrupt_bytes, corrupt_json, corrupt_message, corrupt_text
from estimator_lib import config as config_lib
from estimator_lib import distribution, errors
from estimator_lib.checkpoints import (
    checkpoint_files,
    evaluated,
    fine_tuning,
    initial_values,
    model_dirs,
)
from estimator_lib.commands import check
from estimator_lib.data import corrupt_records, inputs
from estimator_lib.data.record_sources import Source
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.export import (
    artifacts,
    export_policies,
    exported_file,
    exported_model,
    formats,
)
from model_fns.datasets import (
    coco,
    codecs,
    conversion,
    dota,
    hrsc,
    image_sources,
    masks,
    sources,
    voc,
    yolo,
)
from model_fns.datasets.beam import runs
from model_fns.datasets.files import image_lists
from model_fns.structures.label_map import LabelMap
from protos import train_pb2

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

_TILING = Tiling(20, 4)
_FOREIGN = 0.1  # of the files for devices: each takes a process of its own
_GRAPHS = 0.04  # share of the accepted configs whose training graph is built


class Targets:
    """Targets, and the valid inputs that they corrupt.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        fuzz_data.write_all(folder)
        self._configs = {
            kind: config_lib.parse_pipeline_config(fuzz_data.config_text(folder, kind), kind)
            for kind in fuzz_data.KINDS
        }
        self._tasks = {kind: model_fns.build_task(one) for kind, one in self._configs.items()}
        self._testers: Dict[Any, corrupt_records.RecordTester] = {}
        self.all: Mapping[str, Callable[[random.Random], None]] = {
            'config': self.config,
            'setting': self.setting,
            'tf_config': self.tf_config,
            'record': self.record,
            'record_file': self.record_file,
            'label_map': self.label_map,
            'coco': self.coco,
            'voc': self.voc,
            'yolo': self.yolo,
            'yolo_data': self.yolo_data,
            'dota': self.dota,
            'hrsc': self.hrsc,
            'rotated_voc': self.rotated_voc,
            'rotated_coco': self.rotated_coco,
            'masks': self.masks,
            'list': self.list,
            'checkpoint': self.checkpoint,
            'tflite': self.tflite,
            'saved_model': self.saved_model,
            'state': self.state,
            'runner': self.runner,
        }

    def config(self, generator: random.Random) -> None:
        """Read a pipeline config: corrupt text, or odd values."""
        kind = generator.choice(fuzz_data.KINDS)
        path = self._folder / 'corrupt.config'
        if generator.random() < 0.5:
            text = fuzz_data.config_text(self._folder, kind)
            path.write_bytes(corrupt_text(generator, text))
            config = config_lib.load_pipeline_config(str(path))
        else:
            config = corrupt_message(generator, self._configs[kind])
        self._use(config, generator.random() < _GRAPHS)

    def setting(self, generator: random.Random) -> None:
        """Apply `--set` and `--config_override`."""
        settings = ['train_config.batch_size=8', 'eval_input_reader.0.name=x', 'model={ssd{}}']
        override = 'train_config { optimizer { sgd_optimizer { } } }'
        if generator.random() < 0.5:
            setting = corrupt_text(generator, generator.choice(settings)).decode(errors='replace')
            arguments = ([], [setting])
        else:
            arguments = ([corrupt_text(generator, override).decode(errors='replace')], [])
        text = fuzz_data.config_text(self._folder, 'classification')
        self._use(config_lib.parse_pipeline_config(text, 'text', *arguments), False)

    def _use(self, config: Any, with_graph: bool) -> None:
        model_fns.validate(config)
        model_fns.make_task(config)
        if with_graph:
            with contextlib.redirect_stdout(io.StringIO()):
                check.check(model_fns.make_task, config, validate=model_fns.validate)

    def tf_config(self, generator: random.Random) -> None:
        """Read `TF_CONFIG`, and plan a run in such a cluster."""
        text = corrupt_json(generator, fuzz_data.CLUSTER).decode(errors='replace')
        cluster = distribution.read_tf_config({'TF_CONFIG': text})
        distribution.create_plan(self._configs['classification'], cluster)

    def record(self, generator: random.Random) -> None:
        """Decode a record for training or evaluation, check it and count it."""
        kind = generator.choice(fuzz_data.KINDS)
        content = fuzz_data.example(kind, generator.randrange(3))
        if generator.random() < 0.3:
            content = corrupt_bytes(generator, content)
        else:
            content = _corrupt_example(generator, content)
        mode = generator.choice((ModeKeys.TRAIN, ModeKeys.EVAL))
        tester = self._tester(kind, mode)
        problem = tester.problem(0, content) or tester.problem(0, content, decode=False)
        if problem:
            raise errors.DataError(str(problem))
        task = self._tasks[kind]
        if kind != 'detection':  # whose report builds a network
            task.data_report({'train_input_reader': [task.examine(content)]})
        else:
            task.examine(content)

    def _tester(self, kind: str, mode: str) -> corrupt_records.RecordTester:
        if (kind, mode) not in self._testers:
            reader = self._configs[kind].train_input_reader
            source = Source(0, tuple(inputs.input_files(reader)))
            tester = corrupt_records.RecordTester(self._tasks[kind], mode, source)
            self._testers[kind, mode] = tester
        return self._testers[kind, mode]

    def record_file(self, generator: random.Random) -> None:
        """Count and inspect a TFRecord file."""
        kind = generator.choice(fuzz_data.KINDS)
        path = self._folder / 'corrupt.tfrecord'
        content = (self._folder / f'{kind}.tfrecord').read_bytes()
        path.write_bytes(corrupt_bytes(generator, content))
        config = config_lib.parse_pipeline_config('train_input_reader {}', 'text')
        config.train_input_reader.tf_record_input_reader.input_path.append(str(path))
        inputs.count_records(inputs.input_files(config.train_input_reader))
        if generator.random() < 0.1:
            found = inputs.inspect_records(self._tasks[kind], config.train_input_reader)
            if found:
                raise errors.DataError(str(found[0]))

    def label_map(self, generator: random.Random) -> None:
        """Read a label map, merge it with another, use it and write it."""
        valid = LabelMap.from_names(['cat', 'dog'])
        text = (self._folder / 'label_map.pbtxt').read_text()
        text = generator.choice((text, '0:cat\n1:dog\n'))
        path = self._folder / 'corrupt.pbtxt'
        path.write_bytes(corrupt_text(generator, text))
        label_map = LabelMap.read(str(path), 20, first_id=generator.randrange(2))
        label_map.merged(valid).write(str(path))
        with tf.Graph().as_default():
            label_map.lookup(tf.constant(['cat']))

    def coco(self, generator: random.Random) -> None:
        """Convert an instances JSON."""
        path = self._folder / 'corrupt.json'
        path.write_bytes(corrupt_json(generator, fuzz_data.COCO))
        self._convert(generator, coco.Coco(str(self._folder / 'images'), str(path)))

    def voc(self, generator: random.Random) -> None:
        """Convert an XML file."""
        folder = self._annotations('a.xml', corrupt_text(generator, fuzz_data.VOC))
        self._convert(generator, voc.PascalVoc(str(self._folder / 'images'), folder))

    def yolo(self, generator: random.Random) -> None:
        """Convert a text file of boxes."""
        folder = self._annotations('a.txt', corrupt_text(generator, fuzz_data.YOLO))
        images = str(self._folder / 'images')
        self._convert(generator, yolo.Yolo(images, folder, {0: 'cat', 1: 'dog'}))

    def yolo_data(self, generator: random.Random) -> None:
        """Convert a data file of YOLO, and labels with keypoints."""
        path = self._folder / 'data.yaml'
        path.write_bytes(corrupt_text(generator, fuzz_data.YOLO_DATA))
        names, shape = yolo.read_names(str(path)), yolo.read_keypoint_shape(str(path))
        folder = self._annotations('a.txt', corrupt_text(generator, fuzz_data.YOLO_POSE))
        self._convert(generator, yolo.Yolo(str(self._folder / 'images'), folder, names, shape))

    def dota(self, generator: random.Random) -> None:
        """Convert a text file of quadrilaterals."""
        folder = self._annotations('a.txt', corrupt_text(generator, fuzz_data.DOTA))
        self._convert(generator, dota.Dota(str(self._folder / 'images'), folder), tiling=_TILING)

    def hrsc(self, generator: random.Random) -> None:
        """Convert an XML file of ships."""
        folder = self._annotations('a.xml', corrupt_text(generator, fuzz_data.HRSC))
        self._convert(generator, hrsc.Hrsc(str(self._folder / 'images'), folder))

    def rotated_voc(self, generator: random.Random) -> None:
        """Convert an XML file of rotated boxes, in some encoding."""
        content = corrupt_text(generator, fuzz_data.ROTATED_VOC)
        encoding = generator.choice((b'', b'gb2312', b'utf-16', b'hex', b'idna', b'x'))
        if encoding:
            content = b'<?xml version="1.0" encoding="' + encoding + b'"?>' + content
        folder = self._annotations('a.xml', content)
        self._convert(generator, voc.PascalVoc(str(self._folder / 'images'), folder, True))

    def rotated_coco(self, generator: random.Random) -> None:
        """Convert an instances JSON to rotated boxes."""
        path = self._folder / 'malformed.json'
        path.write_bytes(corrupt_json(generator, fuzz_data.COCO))
        source = coco.Coco(str(self._folder / 'images'), str(path), False, True)
        self._convert(generator, source, tiling=_TILING)

    def masks(self, generator: random.Random) -> None:
        """Convert a PNG of class ids or of colors."""
        content = (self._folder / 'images' / 'a.png').read_bytes()
        if generator.random() < 0.5:
            content = codecs.encode_png(np.eye(fuzz_data.SIZE, dtype=np.uint8))
        folder = self._annotations('a.png', corrupt_bytes(generator, content))
        values, are_colors = generator.choice(((None, False), ({0: 'cat', 50: 'dog'}, True)))
        images = str(self._folder / 'images')
        self._convert(generator, masks.Masks(images, folder, 255, values, are_colors))

    def list(self, generator: random.Random) -> None:
        """Read a list of images, for the converter and for prediction."""
        path = self._folder / 'list.txt'
        path.write_bytes(corrupt_text(generator, fuzz_data.LIST))
        folder = self._folder / 'images'
        items = [sources.Item(stem, str(folder / f'{stem}.png'), stem) for stem in 'ab']
        with contextlib.suppress(errors.UserError):
            image_lists.select(items, image_lists.read(str(path)))
        found = image_sources.find_images(str(path))
        image_sources.unique_stems(found.paths)
        for image in found:
            image.read()

    def tflite(self, generator: random.Random) -> None:
        """Load a file for devices with its `export.json`, or without, as of other programs."""
        folder = self._folder / 'malformed_file'
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._folder / 'file', folder)
        if generator.random() < _FOREIGN:
            (folder / artifacts.EXPORT_FILE).unlink()
        name = generator.choice(sorted(path.name for path in folder.iterdir()))
        (folder / name).write_bytes(corrupt_bytes(generator, (folder / name).read_bytes()))
        path = str(folder / 'model.tflite')
        writer = formats.writer_of_file(path)
        exported_file.check_content(path, writer.ends_process)
        writer.load(path)

    def saved_model(self, generator: random.Random) -> None:
        """Load a SavedModel."""
        folder = self._folder / 'malformed_saved_model'
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._folder / 'saved_model', folder)
        path = folder / 'saved_model.pb'
        path.write_bytes(corrupt_bytes(generator, path.read_bytes()))
        exported_model.Predictor(str(folder))

    def state(self, generator: random.Random) -> None:
        """Read the state files of a run."""
        path = self._folder / 'state.json'
        path.write_bytes(corrupt_json(generator, fuzz_data.STATE))
        shutil.copy(path, self._folder / export_policies.BEST_FILE)
        export_policies.BestExporter(str(self._folder), str, 'accuracy', True).best_value()
        evaluated.first_set(checkpoint_files.read_json(str(path)) or {})

    def runner(self, generator: random.Random) -> None:
        """Read `--runner` and `--runner_options`."""
        name = generator.choice(('DirectRunner', 'os.system', 'FlinkRunner'))
        if generator.random() < 0.5:
            name = corrupt_text(generator, name).decode(errors='replace')
        options = corrupt_text(generator, '--direct_num_workers=2 --region="a b" --help')
        runs.runner_of(name, options.decode(errors='replace'))

    def _annotations(self, name: str, content: bytes) -> str:
        folder = self._folder / 'annotations'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / name).write_bytes(content)
        return str(folder)

    def _convert(
        self, generator: random.Random, source: sources.Source, tiling: Optional[Tiling] = None
    ) -> None:
        folder = self._folder / 'converted'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        skips, clips = generator.random() < 0.5, generator.random() < 0.5
        options = conversion.Options(1, skip_problems=skips, clips=clips, tiling=tiling)
        known = self._folder / 'label_map.pbtxt'
        label_map = known if generator.random() < 0.5 else folder / 'label_map.pbtxt'
        conversion.convert(source, str(label_map), str(folder / 'train'), options)

    def checkpoint(self, generator: random.Random) -> None:
        """Resume and fine-tune from a folder of checkpoints."""
        folder = self._folder / 'corrupt_model'
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._folder / 'model', folder)
        path = generator.choice([*sorted(folder.glob('model.ckpt-5.[di]*')), folder / 'checkpoint'])
        if generator.random() < 0.2:
            path.unlink()
        else:
            path.write_bytes(corrupt_bytes(generator, path.read_bytes()))
        with tf.Graph().as_default(), tf1.Session() as session:
            variables = [
                tf1.get_variable('conv/weights', [3, 3, 3, 4]),
                tf1.get_variable('conv/biases', [4]),
            ]
            model_dirs.check_model_dir(str(folder), variables, complete=False)
            named = generator.choice((folder, folder / 'model.ckpt-5'))
            named = checkpoint_files.resolve_checkpoint(str(named))
            train_config = train_pb2.TrainConfig(fine_tune_checkpoint=named)
            by_name = {variable.op.name: variable for variable in variables}
            fine_tuning.fine_tune_report(train_config, by_name)
            initial_values.load_values(session, named, by_name)


def _corrupt_example(generator: random.Random, content: bytes) -> bytes:
    """Return a `tf.train.Example` with features of other kinds, odd values, or none."""
    example = tf.train.Example.FromString(content)
    features = example.features.feature
    for _ in range(generator.randint(1, 3)):
        key = generator.choice(sorted(features) or ['image/encoded'])
        feature = features[key]
        kind = generator.randrange(6)
        if kind == 0:
            del features[key]
        elif kind == 1:
            feature.Clear()
        elif kind == 2:
            feature.int64_list.value[:] = [generator.choice((-1, 0, 1, 3, 2**40, -(2**63)))]
        elif kind == 3:
            values = (-1.0, 0.0, 0.3, 7.0, 1e30, float('nan'), float('inf'))
            count = generator.randrange(4)
            feature.float_list.value[:] = [generator.choice(values) for _ in range(count)]
        elif feature.bytes_list.value:
            corrupted = corrupt_bytes(generator, feature.bytes_list.value[0])
            feature.bytes_list.value[0] = corrupted
        elif kind == 4:
            feature.bytes_list.value[:] = [generator.choice((b'', b'x', b'\xff\xfe', b'cat'))]
        else:
            other = features[generator.choice(sorted(features))]
            feature.CopyFrom(other)
    return example.SerializeToString()
