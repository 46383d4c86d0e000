"""Measurement of the peak memory of training against that of the bare network at the same batch.

    python -m benchmarks.training.memory [--models=ssd_mobilenet_v1,resnet_v1_50] [--bfloat16]

"Bare" is the forward and the backward pass of the same network on a constant batch; its loss is
the sum of the squared inputs of the task's losses: no reading, no targets, no losses, no optimizer.
"Step" is the training step on a constant batch in a plain session, and "reading" the same on
batches that are read. "Evaluated" is a run that trains, evaluates and exports in one process. Each
number is the high-water mark of the resident memory of a new process, in MiB; "imports" is one that
imports all and builds nothing. The median of the turns counts. The bare network gets its initial
values as the others do: without constant folding.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from typing import Any, Callable, Dict, List, Optional

from benchmarks import measuring, recipes
from estimator_lib import tf_estimator

STEPS = 12
DEFAULT_MODELS = [
    'ssd_mobilenet_v1',
    'ssdlite_mobilenet_v3_large',
    'resnet_v1_50',
    'retinanet_resnet50',
    'deeplab_mobilenet_v3_large',
]


def imports(config: Any) -> None:
    """Import the program and build the task, which all sides do."""
    from model_fns import build_task
    from model_fns.cli import front_door

    assert front_door and build_task(config)


def bare(config: Any) -> None:
    """Run the network's forward and backward pass alone."""
    import tensorflow as tf

    from estimator_lib import training
    from estimator_lib.checkpoints import initial_values
    from model_fns import build_task

    imports(config)
    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        fetches = bare_step(build_task(config), *constant_batch(config))
        use_bfloat16 = config.train_config.use_bfloat16
        with tf1.Session(config=training.create_session_config(use_bfloat16)) as session:
            measuring.initialize(session, initial_values.unfolded_feed_dict())
            for _ in range(STEPS):
                session.run(fetches)


def bare_step(task: Any, features: Any, labels: Any) -> List[Any]:
    """Fetch that need the forward and the backward pass, and nothing else."""
    import tensorflow as tf

    from estimator_lib.distribution import mixed_precision

    predictions = task.predict(features, tf_estimator.ModeKeys.TRAIN, labels)
    mixed_precision.choose(tf.compat.v1.get_default_graph())
    mixed_precision.apply(tf.compat.v1.get_default_graph())
    floats = [
        one for one in tf.nest.flatten(predictions) if getattr(one, 'dtype', None) == tf.float32
    ]
    return measuring.forward_and_backward(tf.add_n([tf.nn.l2_loss(one) for one in floats]))


def constant_batch(config: Any) -> Any:
    """Return features and labels as of an input function, made in the graph without reading."""
    import tensorflow as tf

    from estimator_lib import training
    from estimator_lib.data import inputs
    from estimator_lib.task import IMAGE
    from model_fns import build_task

    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features, labels = training.train_input_fn(build_task(config), config)()
        features, _ = inputs.pop_reader_state(features)
        specs = tf.nest.map_structure(lambda one: (one.shape, one.dtype), (features, labels))

    def made(path: str, shape: Any, dtype: Any) -> tf.Tensor:
        if path == IMAGE:
            random = tf.random.stateless_uniform(shape, [1, 2], 0.0, 255.0)
            return tf.compat.v1.get_variable(path, initializer=random, trainable=False).read_value()
        if path == 'true_image_shape':
            return tf.tile([features[IMAGE].shape[1:].as_list()], [shape[0], 1])
        return tf.zeros([side or 1 for side in shape], dtype)

    return tuple({name: made(name, *spec) for name, spec in each.items()} for each in specs)


def step(config: Any) -> None:
    """Run training steps on a constant batch."""
    _steps(config, lambda: constant_batch(config))


def reading(config: Any) -> None:
    """Run training steps on batches that are read."""
    _steps(config, None)


def _steps(config: Any, input_fn: Optional[Callable[[], Any]]) -> None:
    from model_fns import build_task

    imports(config)
    task = build_task(config)
    with measuring.training_session(task, config, input_fn=input_fn) as (session, spec):
        for _ in range(STEPS):
            session.run(spec.train_op)


def train(config: Any) -> None:
    """Train, without evaluation."""
    _train(config, evaluate=False)


def evaluated(config: Any) -> None:
    """Train, evaluate and export."""
    _train(config, evaluate=True)


def _train(config: Any, evaluate: bool) -> None:
    from estimator_lib import training
    from model_fns import build_task

    imports(config)
    config.export_config.final.enabled = evaluate
    config.train_config.num_steps = STEPS
    config.eval_config.num_examples = 16
    with tempfile.TemporaryDirectory() as model_dir:
        task = build_task(config)
        training.train_and_evaluate(task, config, model_dir, evaluate=evaluate)


SIDES: Dict[str, Callable[[Any], None]] = {
    'imports': imports,
    'bare': bare,
    'step': step,
    'reading': reading,
    'train': train,
    'evaluated': evaluated,
}


def measure_side(side: str, config_path: str, use_bfloat16: bool) -> float:
    """Measure the peak memory of a side in a new process, in MiB."""
    arguments = [f'--side={side}', f'--pipeline_config_path={config_path}']
    arguments += ['--bfloat16'] if use_bfloat16 else []
    return measuring.run_apart('training.memory', arguments)


def measure(names: List[str], turns: int, use_bfloat16: bool) -> Dict[str, float]:
    """Return medians of all sides, and their ratios to the bare network."""
    results: Dict[str, float] = {}

    def measure_one(side: str, config_path: str) -> float:
        return measure_side(side, config_path, use_bfloat16)

    for name, _, found in recipes.measure_alternating(names, SIDES, turns, measure_one):
        medians = {side: statistics.median(peaks) for side, peaks in found.items()}
        results.update({f'{name}/{side}_mib': value for side, value in medians.items()})
        results[f'{name}/train_over_bare'] = medians['train'] / medians['bare']
        results[f'{name}/evaluated_over_train'] = medians['evaluated'] / medians['train']
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    recipes.add_arguments(parser, DEFAULT_MODELS)
    parser.add_argument('--bfloat16', action='store_true', help='with use_bfloat16')
    parser.add_argument('--turns', type=int, default=3, help='how often each side is measured')
    parser.add_argument('--output', default='benchmark_memory.json', help='where the JSON goes')
    parser.add_argument('--side', choices=SIDES, help='one side, in this process')
    parser.add_argument('--pipeline_config_path', help='of that side')
    arguments = parser.parse_args()
    measuring.quiet()
    if not arguments.side:
        found = measure(arguments.models, arguments.turns, arguments.bfloat16)
        measuring.report(found, arguments.output)
        return
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(arguments.pipeline_config_path)
    config.train_config.use_bfloat16 = arguments.bfloat16
    SIDES[arguments.side](config)
    print(json.dumps(measuring.peak_memory_mib()))


if __name__ == '__main__':
    main()
