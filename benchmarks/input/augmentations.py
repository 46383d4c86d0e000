"""Cost of each augmentation, and pictures of what it does.

    python -m benchmarks.input.augmentations [--only=mosaic ...]
    python -m benchmarks.input.augmentations --pictures=docs/images/augmentation

Costs are microseconds of processor time, and images/s of a core that does nothing else, for an
image of 640 x 480 pixels with the boxes of the embedded demo (`copy_paste`: with its masks), for
`cutmix` and `mixup` also of classifiers with 224 x 224 pixels. The examples are in memory. Each
step is a dataset of its own; what a dataset without steps takes is subtracted, the two are measured
alternately, and the least of the turns counts. Pictures show the first examples of the embedded
demo as training gets them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

# What is shown and measured of each step, by its name: its fields.
DETECTION: Mapping[str, str] = {
    'adjust_gamma': 'gamma: 0.6',
    'autoaugment_image': '',
    'copy_paste': '',
    'mixup': '',
    'mosaic': '',
    'rand_augment': '',
    'random_adjust_brightness': '',
    'random_adjust_contrast': '',
    'random_adjust_hue': 'max_delta: 0.2',
    'random_adjust_saturation': '',
    'random_black_patches': '',
    'random_crop_image': 'min_object_covered: 0.5',
    'random_distort_color': '',
    'random_erasing': 'probability: 1',
    'random_horizontal_flip': '',
    'random_image_scale': '',
    'random_jpeg_quality': 'max_jpeg_quality: 30',
    'random_pad_image': '',
    'random_patch_gaussian': '',
    'random_rotation': '',
    'random_rotation90': '',
    'random_scale_crop_and_pad_to_square': 'output_size: 512',
    'random_self_concat_image': 'concat_horizontal_probability: 0.5',
    'random_square_crop_by_scale': '',
    'random_vertical_flip': '',
    'rgb_to_gray': '',
    'ssd_random_crop': '',
    'ssd_random_crop_pad': '',
}
CLASSIFICATION: Mapping[str, str] = {'cutmix': '', 'mixup': 'alpha: 1'}
CLASSIFIER = 'classification_'  # begins their names here
MASKED = ('copy_paste',)

_HEIGHT, _WIDTH, _SIDE = 480, 640, 224
_KEPT = 32  # examples in memory
_CLASSES = 10
_SHOWN, _PICTURE_HEIGHT = 4, 112

Create = Callable[[], Any]


def names() -> Sequence[str]:
    """Return the names of all steps, those of classifiers last."""
    return [*DETECTION, *(CLASSIFIER + name for name in CLASSIFICATION)]


def parse(name: str) -> Any:
    """Return the options of a config with one step: a `TrainConfig`."""
    from google.protobuf import text_format

    from protos import train_pb2

    kind = name.replace(CLASSIFIER, '')
    fields = CLASSIFICATION[kind] if name.startswith(CLASSIFIER) else DETECTION[kind]
    text = f'data_augmentation_options {{ {kind} {{ {fields} }} }}'
    return text_format.Parse(text, train_pb2.TrainConfig())


def demo_config(name: str) -> Any:
    """Return the pipeline config of the embedded demo whose examples have what a step needs."""
    from google.protobuf import text_format

    from estimator_lib import config as config_lib
    from model_fns.cli import builtin_configs
    from model_fns.datasets import demo
    from protos import pipeline_pb2

    if name.startswith(CLASSIFIER):
        text = demo.demo_pipeline_text('classification')
        config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    else:
        path = builtin_configs.resolve(f'{builtin_configs.PREFIX}demo_mask_rcnn')
        config = config_lib.load_pipeline_config(path)
        demo.locate_data(config)
    del config.train_config.data_augmentation_options[:]
    return config


def demo_examples(name: str) -> Any:
    """Build the dataset of decoded examples, endless: (number, position, record id, example)."""
    import tensorflow as tf

    from estimator_lib.data import record_streams
    from estimator_lib.task import IMAGE
    from model_fns import build_task
    from model_fns.classification.inputs import SHARES
    from model_fns.detection import fields
    from model_fns.detection.data.augmentation import frames

    config = demo_config(name)
    task = build_task(config)
    classifies = name.startswith(CLASSIFIER)

    def decode(record: tf.Tensor) -> Any:
        example = task.decode(record)
        if classifies:
            image = tf.image.resize(example[IMAGE], [_SIDE, _SIDE])
            shares = tf.one_hot(0, _CLASSES)
            return {**example, IMAGE: tf.saturate_cast(image, tf.uint8), SHARES: shares}
        if name not in MASKED:
            example = {key: example[key] for key in example if key != fields.MASKS}
        example = frames.resize(example, (_HEIGHT, _WIDTH))
        return {**example, IMAGE: tf.saturate_cast(tf.round(example[IMAGE]), tf.uint8)}

    paths = tf.data.Dataset.list_files(
        list(config.train_input_reader.tf_record_input_reader.input_path), shuffle=False
    )
    records = tf.data.TFRecordDataset(paths).take(_KEPT)
    kept = records.map(record_streams.unconverted(decode)).cache().repeat()
    numbers = tf.data.Dataset.range(1 << 40)

    def with_place(number: tf.Tensor, example: Any) -> Any:
        return number, number, number, example

    return tf.data.Dataset.zip((numbers, kept)).map(record_streams.unconverted(with_place))


def augmented(name: str) -> Any:
    """Build the dataset of the same examples after a step."""
    import tensorflow as tf

    from estimator_lib.data import mixing, record_streams
    from model_fns.augmentation import pipeline
    from model_fns.classification import augmentation as of_classification
    from model_fns.detection.data import augmentation as of_detection

    options = parse(name).data_augmentation_options
    if name.startswith(CLASSIFIER):
        augment = pipeline.build(options, of_classification.KINDS)
    else:
        augment = of_detection.build_augmentation(options)
    examples = demo_examples(name)
    if augment.mixings:
        return mixing.mix_examples(examples, augment.mixings, 1, augment, 1)

    def apply(number: tf.Tensor, position: tf.Tensor, record_id: tf.Tensor, example: Any) -> Any:
        seed = tf.stack([tf.constant(1, tf.int64), position])
        return number, position, record_id, augment(example, seed)

    return examples.map(record_streams.unconverted(apply))


def measure(name: str, count: int, turns: int) -> float:
    """Measure the microseconds of processor time that a step takes for an image."""
    from benchmarks.input import stages

    with contextlib.ExitStack() as stack:
        sides: Dict[str, Callable[[], None]] = {}
        for side, create in (('without', demo_examples), ('with', augmented)):
            sides[side] = stack.enter_context(
                stages.drain(lambda create=create: create(name), count)
            )
        least = stages.least_seconds(sides, turns)
    return 1e6 * (least['with'].cpu - least['without'].cpu) / count


def format_row(name: str, cost: float) -> str:
    """Return a row of a table: a step, its microseconds for an image, and images/s of a core.

    Of a step that costs less than what it is measured with, there is no number of images.
    """
    rate = f'{1e6 / cost:,.0f}' if cost >= 1 else ''
    return f'| `{name}` | {cost:,.0f} | {rate} |'


def draw(name: str, folder: str) -> str:
    """Write a row of pictures of a step, and return its path."""
    from PIL import Image

    from estimator_lib.commands import augmented_sheet
    from estimator_lib.drawing import visualization
    from model_fns import build_task

    config = demo_config(name)
    config.train_config.MergeFrom(parse(name))
    pictures = augmented_sheet.draw_examples(build_task(config), config, _SHOWN)
    small = [
        visualization.resized(
            picture, _PICTURE_HEIGHT, max(1, picture.shape[1] * _PICTURE_HEIGHT // picture.shape[0])
        )
        for picture in pictures
    ]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f'{name}.jpg')
    Image.fromarray(visualization.grid(small, columns=_SHOWN)).save(path, quality=80)
    return path


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', action='append', choices=names(), help='Default: all.')
    parser.add_argument('--pictures', help='Write pictures into this folder, and measure nothing.')
    parser.add_argument('--count', type=int, default=64, help='Images of a turn.')
    parser.add_argument('--turns', type=int, default=3)
    parsed = parser.parse_args(arguments)
    for name in parsed.only or names():
        if parsed.pictures:
            print(draw(name, parsed.pictures), flush=True)
        else:
            cost = measure(name, parsed.count, parsed.turns)
            print(format_row(name, cost), flush=True)


if __name__ == '__main__':
    main()
