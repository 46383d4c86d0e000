"""Measurement of segmentation: start-up, and training steps against the bare network.

    python -m benchmarks.training.segmentation [--backbone=mobilenet_v2] [--batch_size=2]

The model is DeepLab with 21 classes at 513 x 513 pixels, output stride 16, without a decoder; the
data are random images of that size, made at first. "Bare" is the forward and backward pass of the
same graph, losses among it, on constant images and labels: no reading, no optimizer. Sides are
measured alternately within one process; medians over the turns are given.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from typing import Any, Dict, List

from benchmarks import measuring, recipes
from estimator_lib import tf_estimator


def engine_rate(config_path: str, steps: int) -> float:
    """Measure steps/s of a training run, see `measuring.engine_rate`."""
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(config_path)
    config.train_config.progress.every_n_steps = steps
    return measuring.engine_rate(config, steps)


def bare_rate(config_path: str, steps: int) -> float:
    """Measure steps/s of the forward and backward pass alone."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training
    from estimator_lib.graphs import losses
    from model_fns import build_task

    tf1 = tf.compat.v1
    config = config_lib.load_pipeline_config(config_path)
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        features, labels = _constant_batch(config.train_config.batch_size)
        task = build_task(config)
        predictions = task.predict(features, tf_estimator.ModeKeys.TRAIN, labels)
        named = losses.compute_losses(task, config, predictions, features, labels)
        step = measuring.forward_and_backward(named[losses.TOTAL_LOSS])
        with tf1.Session(config=training.create_session_config()) as session:
            measuring.initialize(session)
            return measuring.runs_per_second(session, step, steps)


def _constant_batch(batch_size: int) -> Any:
    """Build features and labels in variables, so that constant folding does not touch them."""
    import tensorflow as tf

    from model_fns.segmentation import fields

    def held(name: str, value: tf.Tensor) -> tf.Tensor:
        return tf.compat.v1.get_variable(name, initializer=value, trainable=False).read_value()

    shape = [batch_size, recipes.SEGMENTATION_SIZE, recipes.SEGMENTATION_SIZE]
    images = tf.random.stateless_uniform([*shape, 3], [1, 2], 0.0, 255.0)
    classes = tf.random.stateless_uniform(shape, [3, 4], 0, recipes.SEGMENTATION_CLASSES, tf.int32)
    features = {
        fields.IMAGE: held('images', images),
        fields.TRUE_IMAGE_SHAPE: tf.constant(
            [[recipes.SEGMENTATION_SIZE, recipes.SEGMENTATION_SIZE, 3]] * batch_size
        ),
    }
    return features, {fields.SEMANTIC: held('classes', classes)}


def measure(config_path: str, steps: int, turns: int) -> Dict[str, float]:
    """Return medians of both sides, measured alternately, and of their ratio."""
    engine: List[float] = []
    bare: List[float] = []
    for _ in range(turns):
        engine.append(engine_rate(config_path, steps))
        bare.append(bare_rate(config_path, steps))
    return {
        'engine_steps_per_second': statistics.median(engine),
        'bare_steps_per_second': statistics.median(bare),
        'engine_over_bare': statistics.median(one / other for one, other in zip(engine, bare)),
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--backbone', default='mobilenet_v2', help='a segmentation backbone')
    parser.add_argument('--batch_size', type=int, default=2, help='images of a step')
    parser.add_argument(
        '--output', default='benchmark_segmentation.json', help='where the JSON goes'
    )
    parser.add_argument('--steps', type=int, default=10, help='timed steps of each turn')
    parser.add_argument('--turns', type=int, default=3, help='how often each side is measured')
    arguments = parser.parse_args()
    measuring.quiet()
    config_path = recipes.write_segmentation(
        tempfile.mkdtemp(), arguments.backbone, arguments.batch_size
    )
    results: Dict[str, Any] = {
        'backbone': arguments.backbone,
        'batch_size': arguments.batch_size,
    }
    results.update(measuring.measure_start(config_path, arguments.turns))
    results.update(measure(config_path, arguments.steps, arguments.turns))
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
