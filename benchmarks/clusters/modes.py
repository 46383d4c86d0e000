"""Measurement of the modes of training with real processes: steps/s, and bytes between tasks.

    python -m benchmarks.clusters.modes [--steps=300] [--turns=1]

Each mode trains the same network with the same number of examples a step in total: in one process,
as clones and mirrored on two devices of it, and in clusters of one and two trainers. Bytes are
those of the loopback device between two lines of progress, each counted once; nothing else should
use it meanwhile. Their share of the gradients' size says what a mode sends.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from benchmarks import measuring
from estimator_lib import tf_estimator

_PROGRESS = re.compile(r'\bstep (\d+)/')
_POLL_SECONDS = 0.2

_CONFIG = """
model {{
  classification {{
    num_classes: 8
    labels_offset: 1
    image_height: 64
    image_width: 64
    preprocessing: 'cifarnet'
    backbone {{ name: 'mobilenet_v1' depth_multiplier: {depth_multiplier} }}
  }}
}}
train_config {{
  batch_size: {batch_size}
  num_steps: {num_steps}
  optimizer {{
    momentum_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }} }}
    use_moving_average: false
  }}
  sync_replicas: {is_synchronous}
  checkpoints {{ save_every_n_steps: 1000000 }}
  progress {{ every_n_steps: {every} summary_every_n_steps: 0 }}
  cluster {{ mode: {mode} num_clones: {num_clones} clone_on_cpu: {clone_on_cpu} }}
}}
train_input_reader {{
  label_map_path: '{label_map}'
  tf_record_input_reader {{ input_path: '{records}' }}
  cache: RECORDS
}}
eval_config {{ schedule {{ enabled: false }} }}
"""


@dataclasses.dataclass(frozen=True)
class Way:
    """A mode of training.

    Attributes:
        name: of the row.
        mode: a `ClusterConfig.Mode`.
        trainers: processes that train; 0: one, without a cluster.
        servers: parameter servers.
        clones: devices of the one process.
    """

    name: str
    mode: str
    trainers: int = 0
    servers: int = 0
    clones: int = 0


WAYS = (
    Way('one_process', 'AUTO'),
    Way('clones_2', 'CLONES', clones=2),
    Way('mirrored_2', 'MIRRORED', clones=2),
    Way('async_1', 'ASYNC_PARAMETER_SERVERS', trainers=1, servers=1),
    Way('async_2', 'ASYNC_PARAMETER_SERVERS', trainers=2, servers=1),
    Way('sync_1', 'SYNC_PARAMETER_SERVERS', trainers=1, servers=1),
    Way('sync_2', 'SYNC_PARAMETER_SERVERS', trainers=2, servers=1),
    Way('all_reduce_2', 'MULTI_WORKER_MIRRORED', trainers=2),
)


@dataclasses.dataclass
class Marks:
    """Times of the chief's reports of steps, and the bytes that the loopback had carried."""

    lines: List[Any] = dataclasses.field(default_factory=list)
    lock: Any = dataclasses.field(default_factory=threading.Lock)

    def take(self, name: str, line: str) -> None:
        """Look at a line of a task's output."""
        found = _PROGRESS.search(line)
        if found and name.startswith(('chief', 'one')):
            with self.lock:
                self.lines.append((time.perf_counter(), int(found.group(1)), loopback_bytes()))

    def rates(self, first_step: int) -> Dict[str, float]:
        """Compute steps/s and bytes a step from the first line at or after a step to the last."""
        lines = [line for line in self.lines if line[1] >= first_step]
        if len(lines) < 2:
            raise RuntimeError(f'too few lines of progress: {self.lines}')
        (began, first, sent_before), (ended, last, sent) = lines[0], lines[-1]
        return {
            'steps_per_second': (last - first) / (ended - began),
            'bytes_per_step': (sent - sent_before) / (last - first),
        }


def loopback_bytes() -> int:
    """Return bytes that the loopback device has received."""
    with open('/proc/net/dev') as file:
        for line in file:
            name, _, counts = line.partition(':')
            if name.strip() == 'lo':
                return int(counts.split()[0])
    raise RuntimeError('there is no loopback device')


def write_config(path: str, way: Way, arguments: argparse.Namespace) -> int:
    """Write the config of a way; return the number of examples of one global step."""
    from model_fns.datasets import demo

    dataset = demo.demo_dataset()
    batch_size = arguments.batch_size
    is_synchronous = way.mode == 'SYNC_PARAMETER_SERVERS'
    is_asynchronous = way.mode == 'ASYNC_PARAMETER_SERVERS'
    # The batch of the config is that of a step, and here each trainer makes steps of its own.
    if is_asynchronous:
        batch_size //= way.trainers
    with open(path, 'w') as file:
        file.write(
            _CONFIG.format(
                depth_multiplier=arguments.depth_multiplier,
                batch_size=batch_size,
                # Each trainer's own step is a global step where nobody waits for anybody.
                num_steps=arguments.steps * (way.trainers if is_asynchronous else 1),
                is_synchronous=str(is_synchronous).lower(),
                every=max(1, arguments.steps // 15),
                mode=way.mode,
                num_clones=way.clones,
                clone_on_cpu=str(bool(way.clones)).lower(),
                label_map=dataset.label_map,
                records=dataset.pattern('classification', 'train'),
            )
        )
    return batch_size


def run_way(way: Way, arguments: argparse.Namespace) -> Dict[str, float]:
    """Train in one of the ways."""
    marks = Marks()
    with tempfile.TemporaryDirectory() as folder:
        config_path = os.path.join(folder, 'pipeline.config')
        examples = write_config(config_path, way, arguments)
        command = [
            sys.executable,
            os.path.join(measuring.ROOT, 'run_train_eval.py'),
            f'--model_dir={os.path.join(folder, "model")}',
            f'--pipeline_config_path={config_path}',
            '--mode=train',
        ]
        run = _run_cluster if way.trainers else _run_one
        run(way, command, marks.take)
    rates = marks.rates(arguments.steps // 3)
    return {**rates, 'examples_per_second': rates['steps_per_second'] * examples}


def _run_one(way: Way, command: List[str], take: Callable[[str, str], None]) -> None:
    environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}
    environment.pop('TF_CONFIG', None)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
    tail = []
    for line in process.stderr:
        take('one', line)
        tail = [*tail[-10:], line]
    if process.wait() != 0:
        raise RuntimeError(f'{way.name} ended with status {process.returncode}: {"".join(tail)}')


def _run_cluster(way: Way, command: List[str], take: Callable[[str, str], None]) -> None:
    from estimator_lib.cluster import local_processes

    addresses = local_processes.build_addresses(num_workers=way.trainers - 1, num_ps=way.servers)
    environment = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''}
    cluster = local_processes.LocalCluster(addresses, command, take, environment=environment)
    cluster.start()
    try:
        while cluster.running:
            failed = cluster.poll()
            if failed is not None:
                raise RuntimeError(f'{way.name}: {failed[0]} ended with status {failed[1]}')
            time.sleep(_POLL_SECONDS)
    finally:
        cluster.stop()


def gradient_bytes(arguments: argparse.Namespace) -> int:
    """Return bytes of the gradients of one step, float32."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from model_fns import build_task

    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        path = os.path.join(folder, 'pipeline.config')
        write_config(path, WAYS[0], arguments)
        task = build_task(config_lib.load_pipeline_config(path))
        images = tf.zeros([1, 64, 64, 3])
        task.predict({'image': images}, tf_estimator.ModeKeys.TRAIN)
        variables = tf.compat.v1.trainable_variables()
        return sum(variable.shape.num_elements() * 4 for variable in variables)


def measure(arguments: argparse.Namespace) -> Dict[str, float]:
    """Measure all ways alternately; return medians."""
    chosen = [way for way in WAYS if not arguments.ways or way.name in arguments.ways]
    seen: Dict[str, List[Dict[str, float]]] = {way.name: [] for way in chosen}
    for _ in range(arguments.turns):
        for way in chosen:
            seen[way.name].append(run_way(way, arguments))
    size = gradient_bytes(arguments)
    results: Dict[str, float] = {'gradient_bytes': float(size)}
    alone: Optional[float] = None
    for name, rows in seen.items():
        for column in rows[0]:
            results[f'{name}_{column}'] = statistics.median(row[column] for row in rows)
        results[f'{name}_bytes_over_gradients'] = results[f'{name}_bytes_per_step'] / size
        alone = alone or results[f'{name}_examples_per_second']
        results[f'{name}_over_one_process'] = results[f'{name}_examples_per_second'] / alone
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--steps', type=int, default=300, help='of each run')
    parser.add_argument('--turns', type=int, default=1, help='how often each way is measured')
    parser.add_argument('--batch_size', type=int, default=32, help='examples a step, in total')
    parser.add_argument('--depth_multiplier', type=float, default=0.5, help='of the network')
    parser.add_argument('--ways', nargs='*', help='rows to measure; the first is compared with')
    parser.add_argument('--output', default='benchmark_clusters.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    measuring.report(measure(arguments), arguments.output)


if __name__ == '__main__':
    main()
