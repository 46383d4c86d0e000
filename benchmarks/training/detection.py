"""Measurement of single-shot detection: start-up, and training steps against the bare network.

    python -m benchmarks.training.detection [--model=ssd_mobilenet_v1_coco]
        [--records=GLOB --label_map=FILE]

The model is a published config of ../shared/configs/tf1 with 3 classes and batches of 8; the data
are the embedded demo's scenes unless records are given. "Bare" is the forward and backward pass of
the same network on a constant input: no reading, no targets, no optimizer. Sides are
measured alternately within one process; medians over the turns are given.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from typing import Any, Callable, Dict, List

from benchmarks import measuring, pipelines

BATCH_SIZE = 8


def write_config(arguments: argparse.Namespace) -> str:
    """Write the published config with the benchmark's sizes and data; return its path."""
    from estimator_lib import config as config_lib

    source = os.path.join(pipelines.PUBLISHED, 'tf1', f'{arguments.model}.config')
    if not os.path.exists(source):
        raise SystemExit(f'{source} is not there: this benchmark measures published configs.')
    config = config_lib.load_pipeline_config(source)
    if arguments.records:
        pipelines.read_records(config, arguments.records, arguments.label_map)
    else:
        pipelines.read_demo(config)
    pipelines.clear_cluster(config)
    config.model.ssd.num_classes = 3 if arguments.records else 8
    config.ClearField('graph_rewriter')
    config.train_config.batch_size = BATCH_SIZE
    return config_lib.save_pipeline_config(config, tempfile.mkdtemp())


def engine_rate(config_path: str, steps: int, use_bfloat16: bool) -> float:
    """Measure steps/s of a training run, see `measuring.engine_rate`."""
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(config_path)
    config.train_config.use_bfloat16 = use_bfloat16
    config.train_config.progress.every_n_steps = steps
    return measuring.engine_rate(config, steps)


def bare_rate(config_path: str, steps: int, use_bfloat16: bool) -> float:
    """Measure steps/s of the network's forward and backward pass alone."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training
    from estimator_lib.distribution import mixed_precision
    from model_fns.detection import fields
    from model_fns.detection.architectures import ssd

    tf1 = tf.compat.v1
    config = config_lib.load_pipeline_config(config_path)
    size = config.model.ssd.image_resizer.fixed_shape_resizer
    with tf.Graph().as_default():
        images = tf.random.stateless_uniform([BATCH_SIZE, size.height, size.width, 3], [1, 2])
        images = tf1.get_variable('images', initializer=images * 2.0 - 1.0, trainable=False)
        model = ssd.build_ssd(config.model.ssd, 'model.ssd')
        predictions = model.predict(images.read_value(), None, None, is_training=True)
        mixed_precision.choose(tf1.get_default_graph())
        mixed_precision.apply(tf1.get_default_graph())
        loss = sum(
            tf.nn.l2_loss(predictions[name]) for name in (fields.BOX_ENCODINGS, fields.CLASS_LOGITS)
        )
        step = measuring.forward_and_backward(loss)
        with tf1.Session(config=training.create_session_config(use_bfloat16)) as session:
            measuring.initialize(session)
            return measuring.runs_per_second(session, step, steps)


def measure(config_path: str, steps: int, turns: int) -> Dict[str, float]:
    """Return medians of all sides, measured alternately, and their ratios."""
    sides: Dict[str, Callable[[], float]] = {
        'engine_float32': lambda: engine_rate(config_path, steps, False),
        'bare_float32': lambda: bare_rate(config_path, steps, False),
        'engine_bfloat16': lambda: engine_rate(config_path, steps, True),
        'bare_bfloat16': lambda: bare_rate(config_path, steps, True),
    }
    rates: Dict[str, List[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            rates[name].append(side())
    medians = {f'{name}_steps_per_second': statistics.median(rates[name]) for name in sides}
    ratios = {
        'engine_over_bare_float32': ('engine_float32', 'bare_float32'),
        'engine_over_bare_bfloat16': ('engine_bfloat16', 'bare_bfloat16'),
        'bfloat16_over_float32': ('engine_bfloat16', 'engine_float32'),
    }
    for name, (one, other) in ratios.items():
        pairs = zip(rates[one], rates[other])
        medians[name] = statistics.median(first / second for first, second in pairs)
    return medians


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--records', help='glob of TFRecords; left out: the embedded demo')
    parser.add_argument('--label_map', default='', help='of the records')
    parser.add_argument('--output', default='benchmark_detection.json', help='where the JSON goes')
    parser.add_argument('--steps', type=int, default=20, help='timed steps of each turn')
    parser.add_argument('--turns', type=int, default=3, help='how often each side is measured')
    arguments = parser.parse_args()
    measuring.quiet()
    config_path = write_config(arguments)
    results: Dict[str, Any] = {'model': arguments.model}
    results.update(measuring.measure_start(config_path, arguments.turns))
    results.update(measure(config_path, arguments.steps, arguments.turns))
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
