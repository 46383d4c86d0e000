"""Small run on machines of any shape, and the examples that each of its steps has learned from.

As a program it is the front door, which also writes the source ids of each batch:

    python tests/any_machines.py SEEN_FOLDER FLAG...
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import sys
import time
import types
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence
from unittest import mock

if __name__ == '__main__':
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import tensorflow as tf

import run_train_eval
from estimator_lib.cluster import local_processes
from estimator_lib.task import IMAGE, SOURCE_ID
from model_fns.classification.task import ClassificationTask
from tests import other_python, tiny_data
from tests.estimator_lib.distribution import curve_cases

# Numbers of records in files, of which an epoch is not a whole number of batches.
FILES = (13, 8, 6)
_SECONDS = 400.0  # the machine may be busy: a bound on what must not hang
_READING = """
eval_config {{ num_visualizations: 0 }}
eval_input_reader {{
  label_map_path: '{folder}/label_map.pbtxt'
  tf_record_input_reader {{ input_path: '{folder}/val.tfrecord' }}
  shuffle: false
}}
"""


class Shape(NamedTuple):
    """Shape of the machines that train for some steps.

    Attributes:
        name: for messages, and of a folder.
        settings: what `--set` changes.
        roles: number of tasks of each role of a cluster; none for one process.
        python: the Python of its processes.
    """

    name: str
    settings: Sequence[str] = ()
    roles: Mapping[str, int] = types.MappingProxyType({})
    python: str = sys.executable


_TWO_DEVICES = ('cluster.mode=MIRRORED', 'cluster.num_clones=2', 'cluster.clone_on_cpu=true')
SHAPES = (
    Shape('one_process'),
    Shape('two_devices', _TWO_DEVICES),
    Shape('chief_and_worker', (), {'chief': 1, 'worker': 1}),
    Shape('chief_server_and_evaluator', (), {'chief': 1, 'ps': 1, 'evaluator': 1}),
    Shape('functions', ('loop=TF_FUNCTION',)),
    # The same one again, where there is only one.
    Shape('other_tensorflow', python=other_python.find_other_python() or sys.executable),
    Shape('two_workers_by_functions', ('loop=TF_FUNCTION',), {'worker': 2}),
    Shape('other_precision', ('use_bfloat16=true',)),
)


def write(folder: pathlib.Path) -> None:
    """Write records with a source id of its own each, and the config."""
    tiny_data.write_records(folder / 'all.tfrecord', sum(FILES))
    records = iter(tf.data.TFRecordDataset(str(folder / 'all.tfrecord')).as_numpy_iterator())
    for number, count in enumerate(FILES):
        with tf.io.TFRecordWriter(str(folder / f'train-{number}.tfrecord')) as writer:
            for _ in range(count):
                writer.write(next(records))
    tiny_data.write_records(folder / 'val.tfrecord', 6, seed=1)
    tiny_data.write_label_map(folder / 'label_map.pbtxt')
    config = (curve_cases.CONFIG + _READING).replace('learning_rate: 0.001', 'learning_rate: 0.003')
    (folder / 'pipeline.config').write_text(config.format(folder=folder))


def train(
    folder: pathlib.Path, model_dir: pathlib.Path, shape: Shape, steps: int, seed: int
) -> List[List[str]]:
    """Train to a step on machines of a shape; return the source ids of each batch, sorted."""
    seen = model_dir.with_name(f'{model_dir.name}_{shape.name}_seen')
    seen.mkdir()
    settings = [*shape.settings, f'random_seed={seed}', 'progress.every_n_steps=10']
    command = [
        *(shape.python, __file__, str(seen), f'--model_dir={model_dir}'),
        f'--pipeline_config_path={folder}/pipeline.config',
        f'--mode={"train_and_evaluate" if "evaluator" in shape.roles else "train"}',
        f'--num_train_steps={steps}',
        '--set=export_config.final.enabled=false',
        *(f'--set=train_config.{one}' for one in settings),
    ]
    if shape.roles:
        _run_cluster(command, shape.roles)
    else:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=_SECONDS)
        assert done.returncode == 0, done.stderr
    return _batches(seen)


def _run_cluster(command: Sequence[str], roles: Mapping[str, int]) -> None:
    lines: List[str] = []
    addresses = local_processes.assign_ports(roles)
    cluster = local_processes.LocalCluster(
        addresses, list(command), lambda name, line: lines.append(f'{name} {line}')
    )
    deadline = time.monotonic() + _SECONDS
    cluster.start()
    try:
        while cluster.running:
            assert time.monotonic() < deadline, '\n'.join(lines)
            cluster.poll()
            time.sleep(0.1)
    finally:
        cluster.stop()
    assert not any(cluster.ended.values()), '\n'.join(lines)


def _batches(seen: pathlib.Path) -> List[List[str]]:
    """Put together what the replicas of all processes have seen in each step."""
    replicas: Dict[Any, List[List[str]]] = {}
    for path in seen.iterdir():
        for line in path.read_text().splitlines():
            replica, ids = json.loads(line)
            replicas.setdefault((path.name, replica), []).append(ids)
    assert len({len(parts) for parts in replicas.values()}) == 1, replicas
    return [sorted(itertools.chain(*parts)) for parts in zip(*replicas.values())]


def _note_examples(folder: str) -> Any:
    """Replace `ClassificationTask.predict` by one that writes the source ids of each batch."""
    predict = ClassificationTask.predict

    def note(replica: np.ndarray, ids: np.ndarray) -> np.ndarray:
        with open(os.path.join(folder, f'{os.getpid()}.txt'), 'a') as file:
            file.write(json.dumps([int(replica), [one.decode() for one in ids]]) + '\n')
        return np.int64(0)

    def predict_and_note(self: Any, features: Any, mode: str, labels: Any = None) -> Any:
        if mode == 'train':
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            noted = tf.numpy_function(note, [replica, features[SOURCE_ID]], tf.int64)
            with tf.control_dependencies([noted]):
                features = {**features, IMAGE: tf.identity(features[IMAGE])}
        return predict(self, features, mode, labels)

    return mock.patch.object(ClassificationTask, 'predict', predict_and_note)


if __name__ == '__main__':
    with _note_examples(sys.argv[1]):
        run_train_eval.main(['run_train_eval.py', *sys.argv[2:]])
