"""Measurement of an exported detector as a server runs it: latency, throughput, clients, memory.

    python -m benchmarks.serving.exports [--model=ssd_mobilenet_v1_coco] [--trace]

The model is that of a published detector, or of a config of the package. It has random weights;
images are noise, 320 x 240. Each export is loaded in a new process by plain TensorFlow, without
this project: by `tf.compat.v1.saved_model` into a session, and by `tf.saved_model.load`. Exports:
of raw images as this project writes it (variables, batch norm folded into weights), with variables
that are not folded, with folded constants; of encoded images; of examples. `kept` is a session in
which oneDNN keeps its copies of weights.

- Latency is the least median over some rounds of the milliseconds of one image, and the least mean
  of the processor's.
- Throughput is of batches of 8, and of 1, 2 and 4 clients, a thread each, that send one image after
  the other, with the median that a client waits.
- Suppression's share is the difference to a run that fetches raw outputs only, by both clocks.
- Memory is that of the process beyond its memory after the import of TensorFlow, in MiB. Its peak
  includes the import; `peak_memory_one_image_mib` is before batches and clients.
- Last come the times of folded variables over those of constants, in one process where their
  requests alternate: for each choice of kernels, of 1 and of 8 images. `taskset -c 0` before the
  command gives those of one core.

`--trace` prints instead the times of the kinds of ops of a request of one image, on one thread.
"""

from __future__ import annotations

import collections
import json
import math
import os
import statistics
import tempfile
import threading
import time
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np

from benchmarks import measuring

BATCH_SIZE = 8
CLIENTS = (1, 2, 4)
RAW_OUTPUTS = ('raw_detection_boxes', 'raw_detection_scores')
# Kernels by the variables that TensorFlow reads.
KERNELS = {
    'onednn': {'TF_ENABLE_ONEDNN_OPTS': '1'},
    'onednn_kept': {'TF_ENABLE_ONEDNN_OPTS': '1', 'TF_ONEDNN_ASSUME_FROZEN_WEIGHTS': '1'},
    'tensorflow': {'TF_ENABLE_ONEDNN_OPTS': '0'},
}
_WARM_UP, _TRACED = 2, 20  # requests, of those whose ops are timed
SIGNATURE = 'serving_default'
TAG = 'serve'


def load_model(name: str) -> Any:
    """Return the `DetectionModel` of a config of the package, or of a published detector."""
    from benchmarks import scenes
    from benchmarks.serving import devices
    from model_fns.cli import builtin_configs

    if name in builtin_configs.builtin_configs():
        return devices.builtin_model(name)
    nowhere = dict.fromkeys(('records', 'label_map'), '')
    return scenes.load_config(name, nowhere, len(scenes.CLASSES)).model


def write_exports(model: str, folder: str) -> Dict[str, str]:
    """Write exports of one network in all forms, and return their folders by name."""
    from benchmarks.serving import devices
    from estimator_lib.export import exporting, saved_model, serving

    source = devices.create_source(load_model(model), folder)
    writers = {
        'folded': saved_model.SavedModelWriter(serving.IMAGE_TENSOR),
        'encoded': saved_model.SavedModelWriter(serving.ENCODED_IMAGE_STRING_TENSOR),
        'example': saved_model.SavedModelWriter(serving.TF_EXAMPLE),
        'constants': saved_model.SavedModelWriter(
            serving.IMAGE_TENSOR, serving_weights=saved_model.CONSTANTS
        ),
    }
    exports = {
        name: exporting.export(
            source.task, source.config, source.checkpoint, os.path.join(folder, name), writer
        )
        for name, writer in writers.items()
    }
    return {**exports, 'variables': write_plain(source, os.path.join(folder, 'variables'))}


def write_plain(source: Any, path: str) -> str:
    """Write an export with variables that are not folded; return its path."""
    import tensorflow as tf

    from estimator_lib.export import inference_graph, serving
    from protos import export_pb2

    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        receiver = serving.serving_input_receiver_fn(source.task, export_pb2.IMAGE_TENSOR)()
        outputs = inference_graph.build_outputs(source.task, receiver.features)
        with inference_graph.trained_session(source) as session:
            inputs = receiver.receiver_tensors
            signatures = {SIGNATURE: tf1.saved_model.predict_signature_def(inputs, outputs)}
            builder = tf1.saved_model.Builder(path)
            builder.add_meta_graph_and_variables(session, [TAG], signatures)
    builder.save()
    return path


def requests(kind: str) -> Any:
    """Return what clients send: a batch of images, raw or in the form that an export takes."""
    from estimator_lib.export import serving

    shape = [BATCH_SIZE, 240, 320, 3]
    images = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    forms = {'encoded': serving.ENCODED_IMAGE_STRING_TENSOR, 'example': serving.TF_EXAMPLE}
    return serving.as_requests(images, forms.get(kind, serving.IMAGE_TENSOR))


def load_in_session(path: str) -> Dict[str, Callable[[Any], Any]]:
    """Return functions of a batch by name: `all`, and `raw` where the export has raw outputs."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    graph = tf.Graph()
    session = tf1.Session(graph=graph)
    with graph.as_default():
        signature = tf1.saved_model.load(session, [TAG], path).signature_def[SIGNATURE]
    received = signature.inputs['inputs'].name
    outputs = {name: one.name for name, one in signature.outputs.items()}
    raw = [outputs[name] for name in RAW_OUTPUTS if name in outputs]
    fetched = {'all': list(outputs.values()), **({'raw': raw} if raw else {})}
    return {name: session.make_callable(each, [received]) for name, each in fetched.items()}


def load_as_function(path: str) -> Dict[str, Callable[[Any], Any]]:
    """Return the functions of `load_in_session`, by the loader of TensorFlow 2; without `raw`."""
    import tensorflow as tf

    function = tf.saved_model.load(path, [TAG]).signatures[SIGNATURE]

    def run(batch: Any) -> Any:
        return {name: one.numpy() for name, one in function(inputs=tf.constant(batch)).items()}

    run.keeps = function
    return {'all': run}


def ops_here(path: str, batch: np.ndarray) -> Dict[str, Tuple[float, int]]:
    """Measure milliseconds of each kind of ops of a request, and count them, costliest first.

    Args:
        path: of an export.
        batch: the request. This process must not have run anything before: one thread runs it.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        config = measuring.set_threads(tf1.ConfigProto(), 1)
        with tf1.Session(config=config) as session:
            signature = tf1.saved_model.load(session, [TAG], path).signature_def[SIGNATURE]
            outputs = [one.name for one in signature.outputs.values()]
            feed = {signature.inputs['inputs'].name: batch}
            return sum_kinds(trace(session, outputs, feed))


def trace(session: Any, fetches: Any, feed: Mapping[Any, Any]) -> Dict[Tuple[str, str], float]:
    """Return milliseconds of each op, by its name and kind, the least of some runs.

    Args:
        session: of `tf.compat.v1`.
        fetches: what a request computes.
        feed: what it is given.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    least: Dict[Tuple[str, str], float] = {}
    for run in range(_WARM_UP + _TRACED):
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        session.run(fetches, feed, options=options, run_metadata=metadata)
        if run < _WARM_UP:
            continue
        milliseconds: Dict[Tuple[str, str], float] = collections.defaultdict(float)
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                # As in "name = Kind(inputs)".
                kind = node.timeline_label.partition(' = ')[2].partition('(')[0]
                op = node.node_name, kind or node.node_name
                milliseconds[op] += (node.op_end_rel_micros - node.op_start_rel_micros) / 1000
        for op, took in milliseconds.items():
            least[op] = min(least.get(op, took), took)
    return least


def sum_kinds(ops: Mapping[Tuple[str, str], float]) -> Dict[str, Tuple[float, int]]:
    """Return milliseconds, and how many ops there are, of each kind, costliest first."""
    results: Dict[str, Tuple[float, int]] = {}
    for (_, kind), took in ops.items():
        total, count = results.get(kind, (0.0, 0))
        results[kind] = (total + took, count + 1)
    return dict(sorted(results.items(), key=lambda item: -item[1][0]))


def print_ops(model: str) -> None:
    """Print what a request of one image takes its time for."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_exports(model, folder)['folded']
        requests_path = os.path.join(folder, 'requests.npy')
        np.save(requests_path, np.array(requests('folded'))[:1])
        arguments = [f'--export={path}', f'--requests={requests_path}', '--trace']
        ops = measuring.run_apart('benchmarks.serving.exports', arguments)
    for kind, (took, count) in ops.items():
        print(f'{kind:45s} {took:8.2f} ms {count:5d}')
    print(f'{"all":45s} {sum(took for took, _ in ops.values()):8.2f} ms')


LOADERS = {'session': load_in_session, 'function': load_as_function}


class Latency(NamedTuple):
    """Times of a call: by the clock, and of the processor by all threads together."""

    ms: float
    cpu_ms: float


def latencies(calls: Mapping[str, Callable[[], Any]], runs: int) -> Dict[str, Latency]:
    """Return the least of three rounds: of medians by the clock, of means of the processor.

    Args:
        calls: by their names; one after the other, so that what else the machine does is shared.
        runs: of each call, in all rounds.
    """
    least = {name: Latency(math.inf, math.inf) for name in calls}
    timed = {name: partial(measuring.timed, call) for name, call in calls.items()}
    for _ in range(3):
        for name, times in measuring.alternate(timed, max(runs // 3, 1)).items():
            median = 1000 * statistics.median(one.wall for one in times)
            mean = 1000 * statistics.mean(one.cpu for one in times)
            least[name] = Latency(min(least[name].ms, median), min(least[name].cpu_ms, mean))
    return least


class Clients(NamedTuple):
    """Several clients at once: their total throughput, and the median latency of one."""

    images_per_second: float
    median_ms: float


def serve(run: Callable[[], Any], clients: int, runs: int) -> Clients:
    """Send requests from several threads, each of which waits for its answer.

    Args:
        run: a request of one image.
        clients: threads.
        runs: requests of all of them together.
    """
    waited: List[float] = []

    def call() -> None:
        for _ in range(max(runs // clients, 1)):
            sent = time.perf_counter()
            run()
            waited.append(time.perf_counter() - sent)

    threads = [threading.Thread(target=call) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    return Clients(len(waited) / seconds, 1000 * statistics.median(waited))


def resident_mib() -> float:
    """Return what this process holds of the machine's memory now."""
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20


def measure_here(path: str, loader: str, batch: np.ndarray, runs: int) -> Dict[str, float]:
    """Measure an export in this process, which has done nothing else before."""
    import tensorflow as tf

    assert tf.io.gfile.exists(path)
    before = resident_mib()
    started = time.perf_counter()
    functions = LOADERS[loader](path)
    one, eight = batch[:1], batch
    run = functions['all']
    run(one)
    results = {'first_answer_seconds': time.perf_counter() - started}
    for _ in range(max(runs // 10, 3)):
        for each in functions.values():
            each(one)
    found = latencies({name: partial(each, one) for name, each in functions.items()}, runs)
    whole = found['all']
    results.update(one_image_ms=whole.ms, one_image_cpu_ms=whole.cpu_ms)
    if 'raw' in found:
        results['suppression_share'] = 1 - found['raw'].ms / whole.ms
        results['suppression_share_cpu'] = 1 - found['raw'].cpu_ms / whole.cpu_ms
    results['memory_one_image_mib'] = resident_mib() - before
    results['peak_memory_one_image_mib'] = measuring.peak_memory_mib()
    run(eight)
    of_batch = latencies({'all': partial(run, eight)}, max(runs // 8, 3))['all']
    results['batch_images_per_second'] = 1000 * BATCH_SIZE / of_batch.ms
    results['batch_image_cpu_ms'] = of_batch.cpu_ms / BATCH_SIZE
    for clients in CLIENTS:
        for name, value in serve(partial(run, one), clients, runs)._asdict().items():
            results[f'clients_{clients}_{name}'] = value
    results['memory_mib'] = resident_mib() - before
    results['peak_memory_mib'] = measuring.peak_memory_mib()
    return results


def compare_here(path: str, other: str, batch: np.ndarray, runs: int) -> Dict[str, float]:
    """Return the times of an export over those of another one; their requests alternate."""
    calls = {name: load_in_session(each)['all'] for name, each in (('one', path), ('other', other))}
    ratios = {}
    for count in (1, len(batch)):
        requests = {name: partial(call, batch[:count]) for name, call in calls.items()}
        measuring.alternate(requests, 5)
        one, other_one = latencies(requests, max(runs // count, 9)).values()
        ratios[f'images_{count}'] = one.ms / other_one.ms
        ratios[f'images_{count}_cpu'] = one.cpu_ms / other_one.cpu_ms
    return ratios


def measure(model: str, runs: int) -> Dict[str, float]:
    """Measure all exports in sessions, and the folded ones in other ways too."""
    results: Dict[str, float] = {}

    def run(key: str, path: str, *arguments: str, kernels: str = 'onednn') -> None:
        arguments = (f'--export={path}', f'--runs={runs}', *arguments)
        variables = KERNELS[kernels]
        found = measuring.run_apart('benchmarks.serving.exports', arguments, variables=variables)
        results.update({f'{key}/{name}': value for name, value in found.items()})

    with tempfile.TemporaryDirectory() as folder:
        paths = write_exports(model, folder)
        sent = {name: f'--requests={folder}/{name}.npy' for name in paths}
        for name, path in paths.items():
            np.save(os.path.join(folder, f'{name}.npy'), np.array(requests(name)))
            for loader in LOADERS if name in ('folded', 'constants') else ['session']:
                run(f'{name}/{loader}', path, sent[name], f'--loader={loader}')
        folded, beside = paths['folded'], f'--beside={paths["constants"]}'
        run('folded/kept', folded, sent['folded'], '--loader=session', kernels='onednn_kept')
        for kernels in KERNELS:
            key = f'folded_over_constants/{kernels}'
            run(key, folded, sent['folded'], beside, kernels=kernels)
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = measuring.create_parser(__doc__, 'serving')
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config')
    parser.add_argument('--runs', type=int, default=200, help='of one image')
    parser.add_argument('--trace', action='store_true', help='print what ops take')
    parser.add_argument('--export', help='one export, in this process')
    parser.add_argument('--loader', choices=LOADERS, help='of that export')
    parser.add_argument('--beside', help='another export, whose requests alternate with its own')
    parser.add_argument('--requests', help='a file of what is sent to it')
    arguments = parser.parse_args()
    if arguments.export:
        batch = np.load(arguments.requests)
        batch = batch.astype(object) if batch.dtype.kind == 'S' else batch
        if arguments.trace:
            found = ops_here(arguments.export, batch)
        elif arguments.beside:
            found = compare_here(arguments.export, arguments.beside, batch, arguments.runs)
        else:
            found = measure_here(arguments.export, arguments.loader, batch, arguments.runs)
        print(json.dumps(found))
        return
    measuring.quiet()
    if arguments.trace:
        print_ops(arguments.model)
        return
    measuring.report(measure(arguments.model, arguments.runs), arguments.output)


if __name__ == '__main__':
    main()
