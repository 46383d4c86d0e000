"""What `benchmarks.fuzz` gives spoilt inputs to: one function a kind of input.

A target raises `errors.UserError` where it refuses its input, and returns where it takes it; all
else is a fault.
"""

from __future__ import annotations

import contextlib
import io
import pathlib
import random
import shutil
from typing import Any, Callable, Dict, Mapping

import tensorflow as tf

import model_fns
from benchmarks import fuzz_data
from benchmarks.fuzz_mutations import spoil_bytes, spoil_json, spoil_message, spoil_text
from estimator_lib import config as config_lib
from estimator_lib import distribution, errors
from estimator_lib.checkpoints import checkpoint_files, initial_values, restoring
from estimator_lib.commands import check
from estimator_lib.data import corrupt_records, inputs
from estimator_lib.data.record_sources import Source
from model_fns.datasets import coco, conversion, sources, voc, yolo
from model_fns.label_map import LabelMap
from protos import train_pb2

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

_GRAPHS = 0.04  # of the configs that are taken, how many a training graph is built of


class Targets:
    """The targets, and the sound inputs that they start from.

    Args:
        folder: an empty one.
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
            'checkpoint': self.checkpoint,
        }

    def config(self, generator: random.Random) -> None:
        """A pipeline config, as text or with odd values."""
        kind = generator.choice(fuzz_data.KINDS)
        path = self._folder / 'spoilt.config'
        if generator.random() < 0.5:
            text = fuzz_data.config_text(self._folder, kind)
            path.write_bytes(spoil_text(generator, text))
            config = config_lib.load_pipeline_config(str(path))
        else:
            config = spoil_message(generator, self._configs[kind])
        self._use(config, generator.random() < _GRAPHS)

    def setting(self, generator: random.Random) -> None:
        """`--set` and `--config_override`."""
        settings = ['train_config.batch_size=8', 'eval_input_reader.0.name=x', 'model={ssd{}}']
        override = 'train_config { optimizer { sgd_optimizer { } } }'
        if generator.random() < 0.5:
            setting = spoil_text(generator, generator.choice(settings)).decode(errors='replace')
            arguments = ([], [setting])
        else:
            arguments = ([spoil_text(generator, override).decode(errors='replace')], [])
        text = fuzz_data.config_text(self._folder, 'classification')
        self._use(config_lib.parse_pipeline_config(text, 'text', *arguments), False)

    def _use(self, config: Any, with_graph: bool) -> None:
        model_fns.validate(config)
        model_fns.make_task(config)
        if with_graph:
            with contextlib.redirect_stdout(io.StringIO()):
                check.check(model_fns.make_task, config, validate=model_fns.validate)

    def tf_config(self, generator: random.Random) -> None:
        """`TF_CONFIG`, and the plan of a run in such a cluster."""
        text = spoil_json(generator, fuzz_data.CLUSTER).decode(errors='replace')
        cluster = distribution.read_tf_config({'TF_CONFIG': text})
        distribution.create_plan(self._configs['classification'], cluster)

    def record(self, generator: random.Random) -> None:
        """A record: decoded for training and evaluation, checked, and counted."""
        kind = generator.choice(fuzz_data.KINDS)
        content = fuzz_data.example(kind, generator.randrange(3))
        if generator.random() < 0.3:
            content = spoil_bytes(generator, content)
        else:
            content = _spoil_example(generator, content)
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
        """A TFRecord file, counted and inspected."""
        kind = generator.choice(fuzz_data.KINDS)
        path = self._folder / 'spoilt.tfrecord'
        content = (self._folder / f'{kind}.tfrecord').read_bytes()
        path.write_bytes(spoil_bytes(generator, content))
        config = config_lib.parse_pipeline_config('train_input_reader {}', 'text')
        config.train_input_reader.tf_record_input_reader.input_path.append(str(path))
        inputs.count_records(inputs.input_files(config.train_input_reader))
        if generator.random() < 0.1:
            found = inputs.inspect_records(self._tasks[kind], config.train_input_reader)
            if found:
                raise errors.DataError(str(found[0]))

    def label_map(self, generator: random.Random) -> None:
        """A label map: read, merged with another, used and written again."""
        sound = LabelMap.from_names(['cat', 'dog'])
        text = (self._folder / 'label_map.pbtxt').read_text()
        text = generator.choice((text, '0:cat\n1:dog\n'))
        path = self._folder / 'spoilt.pbtxt'
        path.write_bytes(spoil_text(generator, text))
        label_map = LabelMap.read(str(path), 20, first_id=generator.randrange(2))
        label_map.merged(sound).write(str(path))
        with tf.Graph().as_default():
            label_map.lookup(tf.constant(['cat']))

    def coco(self, generator: random.Random) -> None:
        """An instances JSON."""
        path = self._folder / 'spoilt.json'
        path.write_bytes(spoil_json(generator, fuzz_data.COCO))
        self._convert(generator, coco.Coco(str(self._folder / 'images'), str(path)))

    def voc(self, generator: random.Random) -> None:
        """An XML file."""
        folder = self._annotations('a.xml', spoil_text(generator, fuzz_data.VOC))
        self._convert(generator, voc.PascalVoc(str(self._folder / 'images'), folder))

    def yolo(self, generator: random.Random) -> None:
        """A text file of boxes."""
        folder = self._annotations('a.txt', spoil_text(generator, fuzz_data.YOLO))
        images = str(self._folder / 'images')
        self._convert(generator, yolo.Yolo(images, folder, ['cat', 'dog']))

    def _annotations(self, name: str, content: bytes) -> str:
        folder = self._folder / 'annotations'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / name).write_bytes(content)
        return str(folder)

    def _convert(self, generator: random.Random, source: sources.Source) -> None:
        folder = self._folder / 'converted'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        options = conversion.Options(1, skip_problems=generator.random() < 0.5)
        known = self._folder / 'label_map.pbtxt'
        label_map = known if generator.random() < 0.5 else folder / 'label_map.pbtxt'
        conversion.convert(source, str(label_map), str(folder / 'train'), options)

    def checkpoint(self, generator: random.Random) -> None:
        """A folder of checkpoints: resumed from, and fine-tuned from."""
        folder = self._folder / 'spoilt_model'
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._folder / 'model', folder)
        path = generator.choice([*sorted(folder.glob('model.ckpt-5.[di]*')), folder / 'checkpoint'])
        if generator.random() < 0.2:
            path.unlink()
        else:
            path.write_bytes(spoil_bytes(generator, path.read_bytes()))
        with tf.Graph().as_default(), tf1.Session() as session:
            variables = [
                tf1.get_variable('conv/weights', [3, 3, 3, 4]),
                tf1.get_variable('conv/biases', [4]),
            ]
            restoring.check_model_dir(str(folder), variables, complete=False)
            named = generator.choice((folder, folder / 'model.ckpt-5'))
            named = checkpoint_files.resolve_checkpoint(str(named))
            train_config = train_pb2.TrainConfig(fine_tune_checkpoint=named)
            by_name = {variable.op.name: variable for variable in variables}
            restoring.fine_tune_report(train_config, by_name)
            initial_values.load_values(session, named, by_name)


def _spoil_example(generator: random.Random, content: bytes) -> bytes:
    """A `tf.train.Example` with features of other kinds, odd values, or none."""
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
            spoilt = spoil_bytes(generator, feature.bytes_list.value[0])
            feature.bytes_list.value[0] = spoilt
        elif kind == 4:
            feature.bytes_list.value[:] = [generator.choice((b'', b'x', b'\xff\xfe', b'cat'))]
        else:
            other = features[generator.choice(sorted(features))]
            feature.CopyFrom(other)
    return example.SerializeToString()
