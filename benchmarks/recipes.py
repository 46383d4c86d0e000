"""One model of each kind on synthetic data, which several benchmarks measure side by side."""

from __future__ import annotations

import functools
import os
import tempfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from benchmarks import measuring, pipelines, scenes

SEGMENTATION_SIZE = 513
SEGMENTATION_CLASSES = 21
_NUM_SEGMENTED = 24  # images
_BLOCK = 27  # pixels: what is alike in an image

_CLASSIFICATION = """
model {{
  classification {{
    num_classes: {num_classes} image_height: 224 image_width: 224
    backbone {{ name: "{backbone}" }}
  }}
}}
train_config {{
  num_steps: 30000
  optimizer {{
    momentum_optimizer {{
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.0001 }} }}
    }}
    use_moving_average: false
  }}
}}
train_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}
eval_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}
"""

_SEGMENTATION = """
model {{
  segmentation {{
    num_classes: {num_classes} crop_height: {size} crop_width: {size}
    backbone {{ name: "{backbone}" output_stride: 16 }}
  }}
}}
train_config {{
  batch_size: {batch_size}
  num_steps: 30000
  optimizer {{
    momentum_optimizer {{
      learning_rate {{ deeplab_learning_rate {{ base_learning_rate: 0.0001 }} }}
    }}
    use_moving_average: false
  }}
}}
train_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}
"""


class Recipe(NamedTuple):
    """A model and the batch that it is measured with.

    Attributes:
        batch_size: images of a training step.
        write: writes records and config into a folder; returns the `TrainEvalPipelineConfig`.
    """

    batch_size: int
    write: Callable[[str], Any]


def write_config(name: str, folder: str, batch_size: int = 0) -> str:
    """Write the config of a recipe and its records.

    Args:
        name: of the recipe.
        folder: for both.
        batch_size: in place of the recipe's; 0: that.

    Returns:
        The path of the config.
    """
    from estimator_lib import config as config_lib

    recipe = RECIPES[name]
    config = recipe.write(folder)
    config.train_config.batch_size = batch_size or recipe.batch_size
    return config_lib.save_pipeline_config(config, folder)


def measure_alternating(
    names: List[str],
    sides: Iterable[str],
    turns: int,
    measure: Callable[[str, str], Any],
    batch_size: int = 0,
) -> Iterator[Tuple[str, str, Dict[str, List[Any]]]]:
    """Measure sides of models one after the other, as often as there are turns.

    Args:
        names: of recipes.
        sides: what is set beside each other.
        turns: how often each side is measured.
        measure: from a side and the path of a config to what was measured.
        batch_size: in place of the recipes'; 0: theirs.

    Yields:
        The name of a recipe, the path of its config, which is there until the next one is asked
        for, and what was measured, turn by turn, of each side.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            own = os.path.join(folder, name)
            os.mkdir(own)
            path = write_config(name, own, batch_size)
            calls = {side: functools.partial(measure, side, path) for side in sides}
            yield name, path, measuring.alternate(calls, turns)


def add_arguments(parser: Any, default: List[str], known: Sequence[str] = ()) -> None:
    """Add `--models` and `--turns` to a parser of the command line.

    Args:
        parser: an `argparse.ArgumentParser`.
        default: models that are measured where none is named.
        known: models that may be named; empty: all recipes.
    """
    names = list(known or RECIPES)
    parser.add_argument(
        '--models',
        type=measuring.names_of(names),
        default=default,
        help=f'of {", ".join(names)}; left out: {",".join(default)}',
    )
    parser.add_argument('--turns', type=int, default=3, help='how often each side is measured')


def _detector(published: str, size: int = 0) -> Callable[[str], Any]:
    """Return a writer of a published detector on scenes, with inputs of a size; 0: of its own."""

    def write(folder: str) -> Any:
        from estimator_lib import config as config_lib

        source = os.path.join(pipelines.PUBLISHED, f'{published}.config')
        if not os.path.exists(source):
            raise SystemExit(f'{source} is not there: this benchmark measures published configs.')
        config = config_lib.load_pipeline_config(source)
        paths = scenes.write_records(folder, 64)
        pipelines.clear_cluster(config)
        pipelines.read_records(config, paths['records'], paths['label_map'])
        config.ClearField('graph_rewriter')
        model = getattr(config.model, config.model.WhichOneof('model'))
        model.num_classes = len(scenes.CLASSES)
        if size:
            fixed = model.image_resizer.fixed_shape_resizer
            fixed.height = fixed.width = size
        config.eval_config.metrics_set[:] = ['coco_detection_metrics']
        config.eval_config.ClearField('num_examples')
        return config

    return write


def _classifier(backbone: str, more: str = '') -> Callable[[str], Any]:
    """Return a writer of a classifier at 224 x 224 on random images, with more config text."""

    def write(folder: str) -> Any:
        from estimator_lib import config as config_lib

        records = os.path.join(folder, 'random.tfrecord')
        _write_classified(records)
        path = os.path.join(folder, 'classification.config')
        with open(path, 'w') as file:
            file.write(_CLASSIFICATION.format(num_classes=1000, backbone=backbone, records=records))
            file.write(more)
        return config_lib.load_pipeline_config(path)

    return write


def _write_classified(path: str, count: int = 64) -> None:
    import tensorflow as tf

    from model_fns.datasets import codecs, records
    from model_fns.structures import images

    random = np.random.RandomState(0)
    with tf.io.TFRecordWriter(path) as writer, codecs.ImageCodec() as codec:
        for index in range(count):
            blocks = random.randint(0, 256, [15, 20, 3], np.uint8)
            encoded = codec.encode_jpeg(blocks.repeat(16, 0).repeat(16, 1))
            name = f'{index}.jpg'
            features = records.image_features(encoded, images.image_header(encoded), name, name)
            features['image/class/label'] = np.array([random.randint(0, 1000)], np.int64)
            writer.write(records.serialize(features))


def write_segmentation(folder: str, backbone: str, batch_size: int) -> str:
    """Write the config of a DeepLab, and random records.

    Args:
        folder: for both.
        backbone: name of a segmentation backbone.
        batch_size: images of a training step.

    Returns:
        The path of the config.
    """
    records = os.path.join(folder, 'random.tfrecord')
    _write_segmented(records)
    path = os.path.join(folder, 'segmentation.config')
    text = _SEGMENTATION.format(
        num_classes=SEGMENTATION_CLASSES,
        size=SEGMENTATION_SIZE,
        backbone=backbone,
        batch_size=batch_size,
        records=records,
    )
    with open(path, 'w') as file:
        file.write(text)
    return path


def _write_segmented(path: str) -> None:
    """Write images of random blocks with noise as JPEG, and a random class for each block."""
    import tensorflow as tf

    from model_fns.datasets import codecs, records
    from model_fns.datasets.annotations import class_maps
    from model_fns.structures import images

    random = np.random.RandomState(0)
    blocks = SEGMENTATION_SIZE // _BLOCK
    with tf.io.TFRecordWriter(path) as writer, codecs.ImageCodec() as codec:
        for index in range(_NUM_SEGMENTED):
            colors = random.randint(0, 226, [blocks, blocks, 3])
            classes = random.randint(0, SEGMENTATION_CLASSES, [blocks, blocks])
            colors, classes = (
                values.repeat(_BLOCK, 0).repeat(_BLOCK, 1) for values in (colors, classes)
            )
            noisy = (colors + random.randint(0, 30, colors.shape)).astype(np.uint8)
            encoded = codec.encode_jpeg(noisy)
            name = f'{index}.jpg'
            features = records.image_features(encoded, images.image_header(encoded), name, name)
            writer.write(records.serialize({**features, **class_maps.class_features(classes)}))


def _segmenter(backbone: str, rates: Sequence[int] = ()) -> Callable[[str], Any]:
    """Return a writer of DeepLab at 513 x 513, with dense 3x3 branches of some atrous rates."""

    def write(folder: str) -> Any:
        from estimator_lib import config as config_lib

        config = config_lib.load_pipeline_config(write_segmentation(folder, backbone, 2))
        if rates:
            pyramid = config.model.segmentation.aspp
            pyramid.atrous_rates[:] = rates
            pyramid.separable_convolution = False
        config.eval_input_reader.add().CopyFrom(config.train_input_reader)
        return config

    return write


RECIPES: Dict[str, Recipe] = {
    'ssd_mobilenet_v1': Recipe(8, _detector('tf1/ssd_mobilenet_v1_coco')),
    'ssdlite_mobilenet_v3_large': Recipe(
        8, _detector('tf1/ssdlite_mobilenet_v3_large_320x320_coco')
    ),
    'retinanet_resnet50': Recipe(
        2, _detector('tf1/ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync', 320)
    ),
    'faster_rcnn_resnet50': Recipe(1, _detector('tf1/faster_rcnn_resnet50_coco', 320)),
    'faster_rcnn_resnet50_fpn': Recipe(
        2, _detector('tf2/faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8', 320)
    ),
    'lenet': Recipe(16, _classifier('lenet')),
    'mobilenet_v2_quantized': Recipe(
        8, _classifier('mobilenet_v2', 'graph_rewriter { quantization { delay: 0 } }')
    ),
    'mobilenet_v2': Recipe(16, _classifier('mobilenet_v2')),
    'resnet_v1_50': Recipe(8, _classifier('resnet_v1_50')),
    'resnet_v1_5_50': Recipe(8, _classifier('resnet_v1_5_50')),
    'efficientnetv2_b0': Recipe(8, _classifier('efficientnetv2_b0')),
    'efficientnetv2_s': Recipe(8, _classifier('efficientnetv2_s')),
    'convnext_tiny': Recipe(8, _classifier('convnext_tiny')),
    'deeplab_mobilenet_v2': Recipe(2, _segmenter('mobilenet_v2')),
    'deeplab_mobilenet_v3_large': Recipe(2, _segmenter('mobilenet_v3_large_seg')),
    'deeplab_v3_mobilenet_v3_large': Recipe(2, _segmenter('mobilenet_v3_large_seg', [12, 24, 36])),
}
