"""Measurement of two-stage detection: start-up, steps, stages of an inference, evaluation, memory.

    python -m benchmarks.training.two_stage [--model=faster_rcnn_resnet50_coco]
        [--sizes=256x320,600x1024]

The model is a published config of ../shared/configs/tf1 with inputs of one size; the data are the
embedded demo's scenes. "Bare" is the forward and backward pass of the same layers on a constant
image and constant boxes, as many as the second stage learns from: no reading, no anchors, no
proposals, no targets, no optimizer. Rates are measured alternately within one process, and medians
over the turns are given; peak memory is of processes of their own, which take two steps. The parts
of an inference are in time of the processors, of one image with the published number of proposals.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from benchmarks import measuring, pipelines, scenes
from benchmarks.serving import inference
from benchmarks.training import detection

Size = Tuple[int, int]


def write_config(model: str, size: Size, batch_size: int) -> str:
    """Write the published config with the benchmark's sizes and data; return its path."""
    from estimator_lib import config as config_lib

    source = os.path.join(pipelines.PUBLISHED, 'tf1', f'{model}.config')
    if not os.path.exists(source):
        raise SystemExit(f'{source} is not there: this benchmark measures published configs.')
    config = config_lib.load_pipeline_config(source)
    pipelines.read_demo(config)
    pipelines.clear_cluster(config)
    fixed = config.model.faster_rcnn.image_resizer.fixed_shape_resizer
    fixed.height, fixed.width = size
    config.train_config.batch_size = batch_size
    config.train_config.num_steps = 2
    config.eval_config.batch_size = 1
    config.eval_config.metrics_set[:] = ['coco_detection_metrics']
    return config_lib.save_pipeline_config(config, tempfile.mkdtemp())


def build_bare(config: Any) -> Any:
    """Fetch that need the forward and the backward pass of the network's layers.

    Args:
        config: `TrainEvalPipelineConfig`.
    """
    import tensorflow as tf

    from model_fns.detection.architectures.faster_rcnn import extractors, regions, second_stage
    from model_fns.detection.networks import hyperparams

    tf1 = tf.compat.v1
    model, batch = config.model.faster_rcnn, config.train_config.batch_size
    size = model.image_resizer.fixed_shape_resizer
    images = tf.random.stateless_uniform([batch, size.height, size.width, 3], [1, 2])
    images = tf1.get_variable('images', initializer=images * 2.0 - 1.0, trainable=False)
    corners = tf.random.stateless_uniform([batch, model.second_stage_batch_size, 2], [3, 4])
    boxes = tf.concat([corners * 0.5, corners * 0.5 + 0.4], axis=-1)
    boxes = tf1.get_variable('boxes', initializer=boxes, trainable=False)
    named = model.feature_extractor
    extractor, trains = extractors.find(named, 'here'), named.batch_norm_trainable
    features = extractor.features(
        images.read_value(), named.first_stage_features_stride, True, trains
    )
    grid = model.first_stage_anchor_generator.grid_anchor_generator
    style = hyperparams.build_layer_style(
        model.first_stage_box_predictor_conv_hyperparams, True, 'here'
    )
    head = regions.RegionHead(
        style,
        model.first_stage_box_predictor_depth,
        model.first_stage_box_predictor_kernel_size,
        model.first_stage_atrous_rate,
    )
    outputs = [*head.predict(features, [len(grid.scales) * len(grid.aspect_ratios)])]
    crop = second_stage.Crops(
        model.initial_crop_size, model.maxpool_kernel_size, model.maxpool_stride
    )
    of_boxes = extractor.box_features(crop(features, boxes.read_value(), (1.0, 1.0)), True, trains)
    outputs += second_stage.BoxHead(style, model.num_classes).predict(of_boxes)
    return measuring.forward_and_backward(tf.add_n([tf.nn.l2_loss(one) for one in outputs]))


def bare_rate(config_path: str, steps: int) -> float:
    """Measure steps/s of the network's forward and backward pass alone."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training

    with tf.Graph().as_default():
        step = build_bare(config_lib.load_pipeline_config(config_path))
        with tf.compat.v1.Session(config=training.create_session_config()) as session:
            measuring.initialize(session)
            return measuring.runs_per_second(session, step, steps)


def bare_memory_mib(config_path: str) -> float:
    """Measure the peak memory of a process that takes two bare steps."""
    return measuring.run_apart('training.two_stage', [f'--bare={config_path}'])


def measure_training(config_path: str, steps: int, turns: int) -> Dict[str, float]:
    """Measure start-up, memory, and rates of both sides, alternately."""
    started = measuring.measure_start(config_path, 1)
    bare_memory = bare_memory_mib(config_path)
    engine: List[float] = []
    bare: List[float] = []
    for _ in range(turns):
        engine.append(detection.engine_rate(config_path, steps, False))
        bare.append(bare_rate(config_path, steps))
    return {
        **started,
        'bare_peak_memory_mib': bare_memory,
        'memory_over_bare': started['peak_memory_mib'] / bare_memory,
        'engine_steps_per_second': statistics.median(engine),
        'bare_steps_per_second': statistics.median(bare),
        'engine_over_bare': statistics.median(one / other for one, other in zip(engine, bare)),
    }


def processor_seconds(compute: Callable[[], Any], runs: int) -> float:
    """Return the median of several runs, after one that warms up."""
    compute()
    seconds = []
    for _ in range(runs):
        before = measuring.clocks()
        compute()
        seconds.append(measuring.clocks().cpu - before.cpu)
    return statistics.median(seconds)


def measure_stages(config_path: str, runs: int) -> Dict[str, float]:
    """Return milliseconds of each part of an inference of one image, and the share of suppression.

    Suppressions are timed alone, on the values that the layers give; what the layers take is the
    difference to the part before.
    """
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training
    from model_fns.detection import fields
    from model_fns.detection.architectures.faster_rcnn import build

    tf1 = tf.compat.v1
    model_config = config_lib.load_pipeline_config(config_path).model.faster_rcnn
    size = model_config.image_resizer.fixed_shape_resizer
    with tf.Graph().as_default():
        model = build.build_faster_rcnn(model_config, 'model.faster_rcnn')
        images = tf1.placeholder(tf.float32, [1, size.height, size.width, 3])
        found = model.predict(images, None, None, is_training=False)
        outputs = model.postprocess({**found, fields.PREPROCESSED: images}, None)
        image = np.random.RandomState(0).uniform(-100, 100, images.shape).astype(np.float32)
        with tf1.Session(config=training.create_session_config()) as session:
            measuring.initialize(session)

            def seconds(names: Tuple[str, ...], given: Tuple[str, ...] = ()) -> float:
                feeds = {found[name]: values[name] for name in given}
                fetched = [{**outputs, **found}[name] for name in names]
                return processor_seconds(
                    lambda: session.run(fetched, {images: image, **feeds}), runs
                )

            regions = (fields.RPN_BOX_ENCODINGS, fields.RPN_OBJECTNESS)
            proposals = (fields.PROPOSAL_BOXES, fields.NUM_PROPOSALS)
            boxes = (fields.REFINED_BOX_ENCODINGS, fields.CLASS_LOGITS)
            detections = (fields.DETECTION_BOXES, fields.DETECTION_SCORES)
            needed = (*regions, *proposals, *boxes)
            values = dict(
                zip(needed, session.run([found[name] for name in needed], {images: image}))
            )
            parts = {
                'first_stage': seconds(regions),
                'proposals': seconds(proposals, regions),
                'detections': seconds(detections, (*proposals, *boxes)),
                'whole': seconds(detections),
            }
    parts['second_stage'] = parts['whole'] - sum(
        parts[name] for name in ('first_stage', 'proposals', 'detections')
    )
    share = (parts['proposals'] + parts['detections']) / parts['whole']
    in_ms = {f'inference_{name}_ms': 1000 * value for name, value in parts.items()}
    return {**in_ms, 'inference_suppression_share': share}


def measure_inference(config_path: str, num_images: int, runs: int) -> Dict[str, float]:
    """Return milliseconds of each further image of an evaluation, and of a request."""
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(config_path)
    with tempfile.TemporaryDirectory() as folder:
        scenes.train_one_step(config, folder)
        seconds = []
        for count in (1, 1 + num_images):
            config.eval_config.num_examples = count
            seconds.append(inference.evaluation_seconds(config, folder))
        results = {'evaluation_image_ms': 1000 * (seconds[1] - seconds[0]) / num_images}
        results.update(inference.measure_serving(config, folder, runs))
    return results


def measure(arguments: argparse.Namespace) -> Dict[str, Any]:
    """Measure each size and batch size, and report the results so far after each part."""
    results: Dict[str, Any] = {'model': arguments.model}
    batch_sizes = [int(one) for one in arguments.batch_sizes.split(',')]
    for text in arguments.sizes.split(','):
        height, width = map(int, text.split('x'))
        for batch_size in batch_sizes:
            path = write_config(arguments.model, (height, width), batch_size)
            parts = [lambda at=path: measure_training(at, arguments.steps, arguments.turns)]
            if batch_size == batch_sizes[0]:
                parts.append(lambda at=path: measure_stages(at, arguments.runs))
                parts.append(
                    lambda at=path: measure_inference(at, arguments.images, arguments.runs)
                )
            for part in parts:
                named = {f'{text}_batch_{batch_size}_{name}': one for name, one in part().items()}
                results.update(named)
                measuring.report(results, arguments.output)
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument(
        '--model', default='faster_rcnn_resnet50_coco', help='a config of ../shared/configs/tf1'
    )
    parser.add_argument('--sizes', default='256x320,600x1024', help='of inputs')
    parser.add_argument('--batch_sizes', default='1,2', help='images of a step')
    parser.add_argument('--steps', type=int, default=5, help='timed steps of each turn')
    parser.add_argument('--turns', type=int, default=3, help='how often each side is measured')
    parser.add_argument('--runs', type=int, default=8, help='of each part of an inference')
    parser.add_argument('--images', type=int, default=12, help='of the evaluation')
    parser.add_argument('--output', default='benchmark_two_stage.json', help='where the JSON goes')
    parser.add_argument('--bare', help='take two bare steps of this config, and print the memory')
    arguments = parser.parse_args()
    measuring.quiet()
    if arguments.bare:
        bare_rate(arguments.bare, 1)
        print(json.dumps(measuring.peak_memory_mib()))
        return
    measure(arguments)


if __name__ == '__main__':
    main()
