"""Targets that read records, sequences, label maps and decoded examples."""

from __future__ import annotations

import contextlib
import functools
import gzip
import random
import zlib
from typing import Any, Callable, Dict

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data import corrupt_records, inputs
from estimator_lib.data.caches.cache_files import CacheFile
from estimator_lib.data.caches.packed_examples import Layout
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from model_fns.datasets import codecs
from model_fns.structures.label_map import LabelMap
from protos import input_reader_pb2
from tests.campaigns.fuzz import valid_inputs
from tests.campaigns.fuzz.mutations import mutate_bytes, mutate_text
from tests.campaigns.fuzz.workspace import Workspace

ModeKeys = tf_estimator.ModeKeys

# Of examples in a cache: hashes and lengths of their records. A change makes none of another.
_KEYS = ((0x3C6EF372FE94F82B, 100), (0x1B873593A953FD4E, 101), (0x5BE0CD19137E2179, 102))
_INSPECTED = 0.1  # share of the files that are inspected: a graph is built for each


def targets(workspace: Workspace) -> Dict[str, Callable[[random.Random], None]]:
    """Return the targets by name."""
    functions = (record, channels, record_file, sequence, label_map, cache)
    return {one.__name__: functools.partial(one, workspace) for one in functions}


def record(workspace: Workspace, generator: random.Random) -> None:
    """Decode a record for training or evaluation, check, count and repair it."""
    kind = generator.choice(valid_inputs.KINDS)
    content = valid_inputs.example(kind, generator.randrange(3))
    if generator.random() < 0.3:
        content = mutate_bytes(generator, content)
    else:
        example = tf.train.Example.FromString(content)
        _mutate_features(generator, example.features.feature)
        content = example.SerializeToString()
    mode = generator.choice((ModeKeys.TRAIN, ModeKeys.EVAL))
    task = workspace.tasks[kind]
    repaired = task.checks.repair_example(content)
    content = content if repaired is None else repaired[0]
    _decode(workspace, kind, mode, content)
    found = task.checks.examine(content)
    if kind != 'detection':  # whose report builds a network
        task.checks.data_report({'train_input_reader': [found]})


def channels(workspace: Workspace, generator: random.Random) -> None:
    """Decode a record of 16 bits a channel whose further channels are malformed, and check it."""
    kind = generator.choice(valid_inputs.KINDS)
    example = tf.train.Example.FromString(valid_inputs.deep_example(kind, generator.randrange(3)))
    feature = example.features.feature
    further = feature[ADDITIONAL_CHANNELS].bytes_list.value
    change = generator.randrange(7)
    place = generator.randrange(len(further))
    if change == 0:
        del further[place:]
    elif change == 1:
        further.append(further[0])
    elif change == 2:
        shape = [generator.choice((1, valid_inputs.SIZE, 40)), generator.choice((1, 31, 33))]
        kinds = np.uint8, np.uint16
        further[place] = codecs.encode_png(np.zeros(shape, generator.choice(kinds)))
    elif change == 3:
        further[place] = feature['image/encoded'].bytes_list.value[0]
    elif change == 4:
        further[place] = mutate_bytes(generator, further[place])
    elif change == 5:
        colors = feature['image/encoded'].bytes_list.value
        colors[0] = mutate_bytes(generator, colors[0])
    else:
        chosen = {ADDITIONAL_CHANNELS: feature[ADDITIONAL_CHANNELS]}
        _mutate_features(generator, chosen)
        if not chosen:
            del feature[ADDITIONAL_CHANNELS]
    content = example.SerializeToString()
    mode = generator.choice((ModeKeys.TRAIN, ModeKeys.EVAL))
    workspace.deep_tasks[kind].checks.check_example(content)
    _refuse(workspace.deep_tester(kind, mode), content)


def _decode(workspace: Workspace, kind: str, mode: str, content: bytes) -> None:
    _refuse(workspace.tester(kind, mode), content)


def _refuse(tester: corrupt_records.RecordTester, content: bytes) -> None:
    problem = tester.problem(0, content) or tester.problem(0, content, decode=False)
    if problem:
        raise errors.DataError(str(problem))


def record_file(workspace: Workspace, generator: random.Random) -> None:
    """Count and inspect the records of a file, compressed or not."""
    kind = generator.choice(valid_inputs.KINDS)
    content = (workspace.folder / f'{kind}.tfrecord').read_bytes()
    compress = generator.choice((bytes, bytes, gzip.compress, zlib.compress))
    if generator.random() < 0.5:
        content = mutate_bytes(generator, compress(content))
    else:
        content = compress(mutate_bytes(generator, content))
    _inspect(workspace, generator, kind, content)


def _inspect(
    workspace: Workspace, generator: random.Random, kind: str, content: bytes, **fields: Any
) -> None:
    path = workspace.file('malformed.tfrecord', content)
    reader = input_reader_pb2.InputReader(**fields)
    reader.tf_record_input_reader.input_path.append(path)
    inputs.count_records(inputs.input_files(reader))
    if generator.random() < _INSPECTED:
        problems = inputs.inspect_records(workspace.tasks[kind], reader)
        if problems:
            raise errors.DataError(str(problems[0]))


def sequence(workspace: Workspace, generator: random.Random) -> None:
    """Split a sequence of images, and decode its frames; or inspect a file of sequences."""
    content = valid_inputs.sequence()
    if generator.random() < 0.3:
        content = mutate_bytes(generator, content)
    else:
        message = tf.train.SequenceExample.FromString(content)
        lists = message.feature_lists.feature_list
        features = {f'{key} {i}': one for key in lists for i, one in enumerate(lists[key].feature)}
        _mutate_features(generator, features)
        key = generator.choice(sorted(lists))
        if generator.random() < 0.3:
            del lists[key].feature[-1:]
        content = message.SerializeToString()
    mode = generator.choice((ModeKeys.TRAIN, ModeKeys.EVAL))
    for frame in workspace.tasks['detection'].split_sequence(content):
        _decode(workspace, 'detection', mode, frame)
    with tf.io.TFRecordWriter(str(workspace.folder / 'sequences.tfrecord')) as writer:
        writer.write(content)
    whole = (workspace.folder / 'sequences.tfrecord').read_bytes()
    kind = input_reader_pb2.TF_SEQUENCE_EXAMPLE
    _inspect(workspace, generator, 'detection', whole, input_type=kind)


def _mutate_features(generator: random.Random, features: Any) -> None:
    """Give features other kinds, odd values, or none.

    Args:
        generator: draws.
        features: `tf.train.Feature`s by key, of a message or in a dictionary.
    """
    for _ in range(generator.randint(1, 3)):
        key = generator.choice(sorted(features) or ['image/encoded'])
        if key not in features:
            return
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
            feature.bytes_list.value[0] = mutate_bytes(generator, feature.bytes_list.value[0])
        elif kind == 4:
            feature.bytes_list.value[:] = [generator.choice((b'', b'x', b'\xff\xfe', b'cat'))]
        else:
            feature.CopyFrom(features[generator.choice(sorted(features))])


def label_map(workspace: Workspace, generator: random.Random) -> None:
    """Read a label map, merge it with another, use and write it."""
    valid = LabelMap.from_names(['cat', 'dog'])
    text = (workspace.folder / 'label_map.pbtxt').read_text()
    text = generator.choice((text, '0:cat\n1:dog\n'))
    path = workspace.file('malformed.pbtxt', mutate_text(generator, text))
    loaded = LabelMap.read(path, 20, first_id=generator.randrange(2))
    loaded.merged(valid).write(path)
    with tf.Graph().as_default():
        loaded.lookup(tf.constant(['cat']))


def cache(workspace: Workspace, generator: random.Random) -> None:
    """Open a file of decoded examples, read the examples and add one."""
    layout = Layout([tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None], tf.string)])
    examples = [
        layout.pack([np.full([size, 3], size, np.float32), np.array([b'x' * size, b''], object)])
        for size in range(1, 4)
    ]
    path = workspace.empty('cache') / 'train.examples'
    with contextlib.closing(CacheFile(str(path), 'digest', None)) as file:
        for key, example in zip(_KEYS[:2], examples):
            file.put(key, example)
    path.write_bytes(mutate_bytes(generator, path.read_bytes()))
    with contextlib.closing(CacheFile(str(path), 'digest', None)) as file:
        assert file.put(_KEYS[2], examples[2])
        for key, example in zip(_KEYS, examples):
            found = file.get(key)
            if found is not None:
                assert np.array_equal(found, example)
                layout.unpack(found)
