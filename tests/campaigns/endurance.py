"""A campaign of long runs: their memory must not grow with steps and evaluations.

    python -m tests.campaigns.endurance [--steps=20000] [--readers=coco,...] [--loops=ESTIMATOR,...]

Each kind of reader trains in each loop, in a process of its own, on tiny images with 40 evaluations
on the way. Ends with status 0 when the memory of no run grows by 5 % in its second half.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

# Read when TensorFlow is first imported, whose build reports missing GPU libraries as errors.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from estimator_lib import config as config_lib
from estimator_lib import training
from estimator_lib.hooks import global_steps
from model_fns import build_task
from protos import input_reader_pb2, pipeline_pb2
from tests.campaigns.fuzz import valid_inputs
from tests.campaigns.fuzz.workspace import Workspace
from tests.memory import resident_bytes
from tests.model_fns.datasets import test_readers as formats

LOOPS = ('ESTIMATOR', 'TF_FUNCTION')
EVALUATIONS = 40
MOST_GROWTH = 0.05
_SAMPLES = 200  # of the memory of a run
_KINDS = {
    **dict.fromkeys(('coco', 'voc', 'yolo', 'labelme', 'csv', 'instance'), 'detection'),
    **dict.fromkeys(('mask', 'panoptic'), 'segmentation'),
    'folder': 'classification',
}
_RECORDS = {f'records_{kind}': kind for kind in valid_inputs.KINDS}
_CACHES = {'cached_records': 'RECORDS', 'cached_examples': 'MEMORY', 'cached_files': 'FILE'}
READERS = (*_KINDS, *_RECORDS, *_CACHES)

Sample = Tuple[int, int]  # a step, and the resident memory in bytes


class Ended(NamedTuple):
    """Memory of a run.

    Attributes:
        middle: the median around the middle step, in bytes.
        last: the median at the end, in bytes.
    """

    middle: float
    last: float

    @property
    def growth(self) -> float:
        """The growth in the second half, a fraction."""
        return self.last / self.middle - 1

    @classmethod
    def from_samples(cls, samples: Sequence[Sample]) -> Ended:
        """Summarize samples; a tenth of them around the middle, and the last tenth, count."""
        sizes = [size for _, size in samples]
        width, middle = max(1, len(sizes) // 10), len(sizes) // 2
        around = sizes[middle - width // 2 :][:width]
        return cls(statistics.median(around), statistics.median(sizes[-width:]))


class Memory(global_steps.GlobalStepHook):
    """Hook that notes the memory of its process.

    Args:
        every_n_steps: number of steps between two samples.

    Attributes:
        samples: what it has noted.
    """

    def __init__(self, every_n_steps: int):
        self._every_n_steps = every_n_steps
        self.samples: List[Sample] = []

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Note the memory if that is due."""
        del run_context, run_values
        if self.step % self._every_n_steps == 0:
            self.samples.append((self.step, resident_bytes()))


def write_data(folder: pathlib.Path) -> None:
    """Write the data of all readers to an empty folder."""
    formats.write_all(folder)
    Workspace(folder / 'records')


def create_config(
    folder: pathlib.Path, reader: str, loop: str, num_steps: int
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Create the config of a run.

    Args:
        folder: that of `write_data`.
        reader: one of `READERS`.
        loop: one of `LOOPS`.
        num_steps: of the training.
    """
    records = folder / 'records'
    kind = _KINDS.get(reader) or _RECORDS.get(reader) or 'classification'
    text = valid_inputs.config_text(records, kind)
    config = config_lib.parse_pipeline_config(text, reader)
    if reader in _KINDS:
        for one in (config.train_input_reader, config.eval_input_reader[0]):
            one.CopyFrom(formats.reader_of(folder, reader))
    if reader in _CACHES:
        train_reader = config.train_input_reader
        train_reader.cache = input_reader_pb2.InputReader.Cache.Value(_CACHES[reader])
    if reader == 'instance':
        config.model.ssd.num_classes = 1
    every = max(1, num_steps // EVALUATIONS)
    merged = f"""
      train_config {{
        loop: {loop} num_steps: {num_steps} fine_tune_checkpoint_type: '' freeze_variables: ''
        checkpoints {{ save_every_n_steps: {every} keep_max: 2 }}
        progress {{ every_n_steps: {every} }}
      }}
      eval_config {{ schedule {{ throttle_seconds: 0 start_delay_seconds: 0 }} }}
      export_config {{ final {{ enabled: false }} }}
    """
    config = config_lib.apply_overrides(config, [merged])
    config.train_config.ClearField('freeze_variables')
    config.export_config.ClearField('latest')
    return config


def run(folder: pathlib.Path, reader: str, loop: str, num_steps: int, model_dir: str) -> Ended:
    """Train in this process, and return its memory."""
    config = create_config(folder, reader, loop, num_steps)
    memory = Memory(max(1, num_steps // _SAMPLES))
    training.train_and_evaluate(build_task(config), config, model_dir, hooks=[memory])
    return Ended.from_samples(memory.samples)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the campaign; return its status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--steps', type=int, default=20_000)
    parser.add_argument('--readers', default=','.join(READERS))
    parser.add_argument('--loops', default=','.join(LOOPS))
    parser.add_argument('--apart', default='', help='of a run of this campaign: a folder')
    options = parser.parse_args(arguments)
    if options.apart:
        folder = pathlib.Path(options.apart)
        with tempfile.TemporaryDirectory() as model_dir:
            ended = run(folder, options.readers, options.loops, options.steps, model_dir)
        print(json.dumps(ended))
        return 0
    growing = []
    with tempfile.TemporaryDirectory() as folder:
        write_data(pathlib.Path(folder))
        for reader in options.readers.split(','):
            for loop in options.loops.split(','):
                ended = _run_apart(folder, reader, loop, options.steps)
                print(
                    f'{reader:<22} {loop:<12} {ended.middle / 1e6:6.0f} MB after half of the '
                    f'steps, {ended.last / 1e6:6.0f} MB at the end: {ended.growth:+.1%}',
                    flush=True,
                )
                if ended.growth >= MOST_GROWTH:
                    growing.append(f'{reader}, {loop}')
    for name in growing:
        print(f'problem: the memory of {name} grows')
    return int(bool(growing))


def _run_apart(folder: str, reader: str, loop: str, num_steps: int) -> Ended:
    """Train in a new process, whose memory no earlier run has used."""
    flags = [f'--readers={reader}', f'--loops={loop}', f'--steps={num_steps}', f'--apart={folder}']
    command = [sys.executable, '-m', 'tests.campaigns.endurance', *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'{reader}, {loop}, ended with status {done.returncode}:\n{done.stderr}')
    return Ended(*json.loads(done.stdout.splitlines()[-1]))


if __name__ == '__main__':
    sys.exit(main())
