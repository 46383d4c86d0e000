"""Measurement of the memory and the time of a step in micro-batches.

    python -m benchmarks.training.accumulation [--steps=1,4] [--batch_size=64] [--side=128]

A MobileNet V1 classifier learns from one constant batch, with one thread. Each number of
micro-batches has a process of its own. The memory is the growth of the high-water mark of resident
memory from the initialized session on; the time is that of the second step.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

CONFIG = """
model {{ classification {{
  num_classes: 10 image_height: {side} image_width: {side} backbone {{ name: 'mobilenet_v1' }}
}} }}
train_config {{
  batch_size: {batch_size}
  accumulate_steps: {steps}
  optimizer {{ momentum_optimizer {{ learning_rate {{ constant_learning_rate {{ }} }} }} }}
}}
"""


def measure(steps: int, batch_size: int, side: int) -> str:
    """Run two training steps, and return a line with ops, seconds and MiB."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import model_fn
    from estimator_lib.task import IMAGE, SOURCE_ID
    from model_fns import build_task

    tf1 = tf.compat.v1
    text = CONFIG.format(steps=steps, batch_size=batch_size, side=side)
    config = config_lib.parse_pipeline_config(text, 'benchmark')
    with tf.Graph().as_default() as graph:
        tf1.train.create_global_step()
        images = tf.random.stateless_uniform([batch_size, side, side, 3], [1, 2])
        features = {IMAGE: images, SOURCE_ID: tf.fill([batch_size], '')}
        labels = {'label': tf.zeros([batch_size], tf.int64)}
        step = model_fn.create_step_fn(build_task(config), config)(features, labels, None)
        options = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with tf1.Session(config=options) as session:
            session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            session.run(step.train_op)
            begun = time.monotonic()
            session.run(step.train_op)
            seconds = time.monotonic() - begun
    mebibytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    count = len(graph.get_operations())
    return f'{steps} micro-batches: {mebibytes:.0f} MiB, {seconds:.2f} s a step, {count} ops'


def main() -> None:
    """Print a line for each number of micro-batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--steps', default='1,4')
    parser.add_argument('--batch_size', type=int, default=64)
    parser.add_argument('--side', type=int, default=128)
    arguments = parser.parse_args()
    if arguments.steps.isdigit():
        print(measure(int(arguments.steps), arguments.batch_size, arguments.side))
        return
    for steps in arguments.steps.split(','):
        options = [f'--batch_size={arguments.batch_size}', f'--side={arguments.side}']
        command = [sys.executable, '-m', 'benchmarks.training.accumulation', f'--steps={steps}']
        subprocess.run([*command, *options], check=True)


if __name__ == '__main__':
    main()
