"""One job of the campaign of faults: its data, its processes, and what is seen of it."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.cluster import local_processes

_STEP = re.compile(r'\bstep (\d+)/')
_OPENED = re.compile(r'^\d\d:\d\d:\d\d (\S+) trains.*, from step (\d+)$')
_SILENT = re.compile(r'(\S+) has not answered for')
_SAVING = re.compile(r'(_temp|\.tempstate\d+)$')

SYNCHRONOUS_MODE = 'SYNC_PARAMETER_SERVERS'
ALL_REDUCE_MODE = 'MULTI_WORKER_MIRRORED'
LOOPS = ('ESTIMATOR', 'TF_FUNCTION')
MODES = ('ASYNC_PARAMETER_SERVERS', SYNCHRONOUS_MODE, ALL_REDUCE_MODE)

# The network is small, so that starts and steps are quick; its fully connected head is not, so that
# a checkpoint takes a moment to write, in which it can be killed.
_CONFIG = """
model {{
  classification {{
    num_classes: 2000
    image_height: 32
    image_width: 32
    backbone {{ name: 'mobilenet_v1' depth_multiplier: 0.25 batch_norm_decay: 0.8 }}
  }}
}}
train_config {{
  batch_size: 4
  num_steps: {num_steps}
  optimizer {{
    adam_optimizer {{
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.0005 }} }}
    }}
    use_moving_average: false
  }}
  checkpoints {{ save_every_n_steps: {save_every} keep_max: 0 }}
  progress {{ every_n_steps: 5 summary_every_n_steps: 0 }}
  sync_replicas: {is_synchronous}
  loop: {loop}
  cluster {{ wait_timeout_seconds: 180 }}
}}
train_input_reader {{ tf_record_input_reader {{ input_path: '{records}' }} }}
eval_config {{ batch_size: 4 schedule {{ throttle_seconds: 15 }} }}
eval_input_reader {{ tf_record_input_reader {{ input_path: '{records}' }} shuffle: false }}
"""


def write_records(path: str, seed: int, count: int = 32) -> None:
    """Write images of noise, with labels."""
    random = np.random.RandomState(seed)
    with tf.io.TFRecordWriter(path) as writer:
        for index in range(count):
            image = random.randint(0, 256, [32, 32, 3]).astype(np.uint8)
            record = tf.train.Example()
            feature = record.features.feature
            feature['image/encoded'].bytes_list.value.append(tf.io.encode_png(image).numpy())
            feature['image/class/label'].int64_list.value.append(1 + index % 4)
            feature['image/source_id'].bytes_list.value.append(b'%d' % index)
            writer.write(record.SerializeToString())


class Job:
    """A cluster that trains while faults are injected.

    Args:
        folder: of its own.
        records: what it trains on.
        mode: a `ClusterConfig.Mode`.
        num_steps: of its training.
        save_every: steps between two checkpoints.
        num_workers: beside the chief.
        loop: a `TrainingLoop`, one that carries the mode.

    Attributes:
        lost: for each time that the chief began again, the steps that were done again.
        forgotten: a message for each time that it did not begin from the latest checkpoint.
        reported: the tasks that others have said to be silent.
    """

    def __init__(
        self,
        folder: str,
        records: str,
        mode: str,
        *,
        num_steps: int,
        save_every: int,
        num_workers: int,
        loop: str = LOOPS[0],
    ):
        os.makedirs(folder)
        self.model_dir = os.path.join(folder, 'model')
        config = os.path.join(folder, 'pipeline.config')
        with open(config, 'w') as file:
            text = _CONFIG.format(
                num_steps=num_steps,
                save_every=save_every,
                is_synchronous=str(mode == SYNCHRONOUS_MODE).lower(),
                loop=loop,
                records=records,
            )
            file.write(text)
        self.num_steps = num_steps
        self.lost: List[int] = []
        self.forgotten: List[str] = []
        self.reported: List[str] = []
        self.step = 0
        self._log = open(os.path.join(folder, 'log.txt'), 'w')  # noqa: SIM115 (closed by close)
        self._lock = threading.Lock()
        addresses = local_processes.build_addresses(
            num_workers=num_workers, num_ps=int(mode != ALL_REDUCE_MODE), evaluator=True
        )
        command = [
            sys.executable,
            '-m',
            'run_train_eval',
            f'--model_dir={self.model_dir}',
            f'--pipeline_config_path={config}',
        ]
        environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}
        self.cluster = local_processes.LocalCluster(
            addresses, command, self._take, restart=1000, environment=environment
        )

    @property
    def names(self) -> List[str]:
        """Return the names of all tasks."""
        return [task.name for task in self.cluster.tasks]

    @property
    def is_over(self) -> bool:
        """Return whether all tasks have ended."""
        return not self.cluster.running

    def note(self, text: str) -> None:
        """Note an intervention in the log of the job."""
        self._take('chaos', f'=== {text} (step {self.step})')

    def poll(self) -> Optional[Tuple[str, int]]:
        """Return name and status of a task that has failed; see `LocalCluster.poll`."""
        return self.cluster.poll()

    def is_saving(self) -> bool:
        """Return whether a checkpoint is being written."""
        try:
            return any(_SAVING.search(name) for name in os.listdir(self.model_dir))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """End the tasks that still run."""
        self.cluster.stop()
        self._log.close()

    def _take(self, name: str, line: str) -> None:
        with self._lock:
            if not self._log.closed:
                self._log.write(f'{time.strftime("%H:%M:%S")} {name:<12} {line}\n')
                self._log.flush()
        opened, step, silent = _OPENED.match(line), _STEP.search(line), _SILENT.search(line)
        if opened is not None:
            self._session_opened(opened.group(1), int(opened.group(2)))
        elif step is not None and name.startswith(('chief', 'worker')):
            self.step = max(self.step, int(step.group(1)))
        elif silent is not None:
            self.reported.append(silent.group(1))

    def _session_opened(self, name: str, step: int) -> None:
        if not name.startswith('chief'):
            return
        self.lost.append(max(0, self.step - step))
        latest = max(list(self.checkpoints()) or [0])
        # A live server may be ahead of the latest checkpoint; nobody may be behind it.
        if step < latest:
            self.forgotten.append(f'begun again from step {step}, with a checkpoint of {latest}')
        self.step = step

    def checkpoints(self) -> Dict[int, str]:
        """Return the prefixes of the checkpoints in the job's folder, by step."""
        indices = tf.io.gfile.glob(os.path.join(self.model_dir, 'model.ckpt-*.index'))
        prefixes = [path[: -len('.index')] for path in indices]
        return {checkpoint_files.checkpoint_step(prefix): prefix for prefix in prefixes}

    def last_step(self) -> int:
        """Return the step that the job has ended with; 0 while it has not."""
        try:
            with open(os.path.join(self.model_dir, 'cluster', 'finished.json')) as file:
                return int(json.load(file)['step'])
        except FileNotFoundError:
            return 0


def load_checkpoint(prefix: str) -> Optional[str]:
    """Read all of a checkpoint, whose tensors carry checksums.

    Returns:
        What is wrong with it; None when nothing is.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
        for name in reader.get_variable_to_shape_map():
            value = reader.get_tensor(name)
            if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
                return f'{prefix}: {name} is not finite'
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        return f'{prefix}: {str(error).splitlines()[0]}'
    return None
