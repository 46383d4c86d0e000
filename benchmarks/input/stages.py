"""Measurement of the training input: processor time of its stages, and images a second.

    python -m benchmarks.input.stages [--model=ssd_mobilenet_v1_coco] [--batch_size=32] [--cache]

The images are synthetic, 320 x 240 JPEG, and varied as the published config has it. Each stage is a
dataset of its own that ends there, so its cost is what it takes more than the stage before it;
stages are measured alternately, and the least processor time of the turns counts, which other
programs of the machine disturb least. Images a second are those of `session.run` on whole batches,
with 1, 2 and 4 examples decoded at a time; with `--cache` those with decoded examples kept in
memory and in a file against those without, alternately, once all have been kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, Mapping

from benchmarks import measuring, scenes

IMAGE_KEY = 'image/encoded'
RECORDS = 256  # synthetic images
CALLS = (1, 2, 4)
CACHES = ('NONE', 'MEMORY', 'FILE')


def plan(config: Any) -> Any:
    """Return the `Reading` of a config's training examples."""
    from estimator_lib.data import reading
    from model_fns import build_task

    return reading.plan_reading(
        build_task(config),
        config.train_input_reader,
        'train',
        config.train_config.batch_size,
        config.train_config.random_seed,
    )


def stages(reading: Any) -> Dict[str, Callable[[Any], Any]]:
    """Return the work on a record up to each stage: functions of (record, seed), by its name."""
    import tensorflow as tf

    from estimator_lib.data import corrupt_records, image_decoding

    task = reading.task

    def find_image(record: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        del seed
        features = {IMAGE_KEY: tf.io.FixedLenFeature([], tf.string)}
        return tf.io.parse_single_example(record, features)[IMAGE_KEY]

    def decode_image(record: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return image_decoding.decode_image(find_image(record, seed))

    def decode(record: tf.Tensor, seed: tf.Tensor) -> Any:
        del seed
        return task.decode(record)

    def augment(record: tf.Tensor, seed: tf.Tensor) -> Any:
        return task.augment(task.decode(record), seed)

    def prepare(record: tf.Tensor, seed: tf.Tensor) -> Any:
        return corrupt_records.decode(task, reading.mode, record, seed)

    return {
        'read': lambda record, seed: record,
        'find_image': find_image,
        'decode_image': decode_image,
        'decode_record': decode,
        'augment': augment,
        'prepare': prepare,
    }


def stage_dataset(reading: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Return the examples of the first source as a function of their records and seeds."""
    import tensorflow as tf

    from estimator_lib.data import record_streams

    source = reading.sources[0]
    stream = record_streams.create_stream(
        source, reading.source_order(source), tf.zeros([2], tf.int64)
    )

    def apply(number: tf.Tensor, rest: Any) -> Any:
        position, (_, record) = rest
        seed = tf.stack([tf.constant(reading.source_seed(source), tf.int64), position])
        return number, function(record, seed)

    return stream.map(
        record_streams.unconverted(apply), reading.num_parallel_calls, deterministic=True
    )


@contextlib.contextmanager
def drain(create: Callable[[], Any], count: int) -> Iterator[Callable[[], None]]:
    """Yield a function that takes `count` elements of a dataset within TensorFlow.

    Args:
        create: makes the dataset in the current graph.
        count: how many.
    """
    import tensorflow as tf

    from estimator_lib.data import record_streams

    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        every_last = create().shard(count, count - 1)
        iterator = tf1.data.make_initializable_iterator(record_streams.steady(every_last))
        fetched = tf.group(*tf.nest.flatten(iterator.get_next()))
        initializers = [iterator.initializer, tf1.tables_initializer()]
    # A session is open beside others: their graphs must not be the default one.
    session = tf1.Session(graph=graph)
    try:
        session.run(initializers)
        yield lambda: session.run(fetched)
    finally:
        session.close()


def least_seconds(sides: Dict[str, Callable[[], None]], turns: int) -> Dict[str, measuring.Clocks]:
    """Measure the least times of each side, wall and processor, alternately."""
    timed = {name: functools.partial(measuring.timed, run) for name, run in sides.items()}
    times = measuring.alternate(timed, turns + 1)
    # The first turn warms up.
    return {name: measuring.least(each[1:]) for name, each in times.items()}


def measure_stages(config: Any, count: int, turns: int) -> Dict[str, float]:
    """Measure microseconds of processor time an image: of each stage alone, and of all."""
    from estimator_lib.data import reading as reading_lib

    planned = plan(config)
    size = planned.batch_size
    with contextlib.ExitStack() as stack:
        sides: Dict[str, Callable[[], None]] = {}
        for name, function in stages(planned).items():
            create = functools.partial(stage_dataset, planned, function)
            sides[name] = stack.enter_context(drain(create, count))
        sides['batch'] = stack.enter_context(
            drain(lambda: reading_lib.create_batches(planned, _start(planned)), count // size)
        )
        least = least_seconds(sides, turns)
    results: Dict[str, float] = {}
    before = 0.0
    for name, times in least.items():
        of_one = 1e6 * times.cpu / (count if name != 'batch' else count // size * size)
        # An image that is found and decoded alone is no part of the chain: decode_record has both.
        results[f'{name}_us'] = of_one - before
        before = of_one
    results['all_us'] = before
    return results


def measure_rates(readings: Mapping[str, Any], batches: int, turns: int) -> Dict[str, float]:
    """Measure images/s and processor microseconds an image of the inputs of readings, by name."""
    import tensorflow as tf

    from estimator_lib.data import inputs

    tf1 = tf.compat.v1
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, reading in readings.items():
            with tf.Graph().as_default() as graph:
                fetched = tf.group(*tf.nest.flatten(inputs.RecordInput(reading)()))
                initializers = [tf1.global_variables_initializer(), tf1.tables_initializer()]
            session = stack.enter_context(tf1.Session(graph=graph))
            for initializer in initializers:
                session.run(initializer)
            sides[name] = measuring.repeated(session, fetched, batches)
            sides[name]()  # a whole pass
        least = least_seconds(sides, turns)
    results: Dict[str, float] = {}
    for name, times in least.items():
        images = batches * readings[name].batch_size
        results[f'{name}_images_per_second'] = images / times.wall
        results[f'{name}_cpu_us'] = 1e6 * times.cpu / images
    return results


def plan_cache(config: Any, cache: str, folder: str) -> Any:
    """Return the `Reading` of a config that keeps something of a pass, a file in a folder."""
    reader = config.train_input_reader
    reader.cache = reader.Cache.Value(cache)
    reader.cache_folder = folder if cache == 'FILE' else ''
    return plan(config)


def _start(planned: Any) -> Any:
    import numpy as np

    from estimator_lib.data import reader_state

    return np.zeros([planned.num_sources + 1, reader_state.COLUMNS], np.int64)


def measure(
    model: str, batch_size: int, images: int, turns: int, caches: bool = False
) -> Dict[str, float]:
    """Measure stages and rates, or with `caches` the caches alone; see the module."""
    with tempfile.TemporaryDirectory() as folder:
        paths = scenes.write_records(folder, RECORDS)
        config = scenes.load_config(model, paths, len(scenes.CLASSES))
        config.train_config.batch_size = batch_size
        if caches:
            kept = os.path.join(folder, 'kept')
            readings = {f'cache_{each.lower()}': plan_cache(config, each, kept) for each in CACHES}
            return measure_rates(readings, max(images, 2 * RECORDS) // batch_size, turns)
        parallel = functools.partial(dataclasses.replace, plan(config))
        readings = {f'calls_{calls}': parallel(num_parallel_calls=calls) for calls in CALLS}
        return {
            **measure_stages(config, images, turns),
            **measure_rates(readings, images // batch_size, turns),
        }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = measuring.create_parser(__doc__, 'input')
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--batch_size', type=int, default=32, help='images of a batch')
    parser.add_argument('--images', type=int, default=640, help='of a turn')
    parser.add_argument('--turns', type=int, default=5, help='of which the least counts')
    parser.add_argument('--cache', action='store_true', help='compare what is kept of a pass')
    flags = parser.parse_args()
    measuring.quiet()
    results = measure(flags.model, flags.batch_size, flags.images, flags.turns, flags.cache)
    about = {'model': flags.model, 'batch_size': flags.batch_size}
    measuring.report({**about, **results}, flags.output)


if __name__ == '__main__':
    main()
