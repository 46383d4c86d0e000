"""The embedded demo: a data set that is generated, not downloaded, and pipelines that train on it.

Two subsets of TFRecords, each with the keys of every task: `classification` has one shape a
picture, `scenes` has up to six. They are written once into a cache folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import pathlib
import shutil
import tempfile
import zlib
from typing import Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np
import tqdm
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.processes import path_names
from model_fns.datasets import codecs, records, scenes, shapes
from model_fns.structures import images, label_map, label_map_files
from protos import pipeline_pb2

# Increased with each change of the pictures or records, so that they go to another folder.
VERSION = 3
# Environment variable with the path of another cache folder.
CACHE_VARIABLE = 'DEMO_CACHE_DIR'

# The folder of the set in the configs of the package.
CONFIG_FOLDER = 'data/demo'

_SEED = 20
_SPLITS = ('train', 'val')


@dataclasses.dataclass(frozen=True)
class Subset:
    """Pictures of one kind.

    Args:
        size: height and width in pixels.
        most_shapes: in a picture; there is at least one.
        scale: least and largest side of a shape as a fraction of the picture's.
        most_turn: largest rotation of a shape in either direction, in radians.
        num_examples: by split.
        num_shards: by split.
    """

    size: int
    most_shapes: int
    scale: Tuple[float, float]
    most_turn: float
    num_examples: Mapping[str, int]
    num_shards: Mapping[str, int]


SUBSETS: Mapping[str, Subset] = {
    'classification': Subset(
        size=64,
        most_shapes=1,
        scale=(0.4, 0.65),
        most_turn=math.pi / 4,
        num_examples={'train': 2400, 'val': 400},
        num_shards={'train': 2, 'val': 1},
    ),
    'scenes': Subset(
        size=128,
        most_shapes=6,
        scale=(0.16, 0.38),
        most_turn=math.pi,
        num_examples={'train': 1500, 'val': 100},
        num_shards={'train': 2, 'val': 1},
    ),
}

# The subsets that tasks train on. The rest of their pipelines is in files named after the tasks.
_SUBSETS = {'detection': 'scenes', 'classification': 'classification'}


@dataclasses.dataclass(frozen=True)
class DemoDataset:
    """Paths of the demo set.

    Args:
        folder: that holds it.
    """

    folder: pathlib.Path

    @property
    def label_map(self) -> str:
        """The path of the label map."""
        return str(self.folder / label_map_files.FILE)

    def prefix(self, subset: str, split: str) -> str:
        """Return the prefix of the shards."""
        return str(self.folder / subset / split)

    def pattern(self, subset: str, split: str) -> str:
        """Return the glob of the shards of `classification` or `scenes`, `train` or `val`."""
        return records.shard_pattern(self.prefix(subset, split))


def demo_dataset(cache_dir: Optional[str] = None) -> DemoDataset:
    """Return the demo set; the first call for a cache folder writes it, which takes some seconds.

    Args:
        cache_dir: the cache folder. None: the environment variable `DEMO_CACHE_DIR`, else
            `run_train_eval` in the user's cache folder.

    Raises:
        errors.DataError: the folder cannot be written to.
    """
    cache = pathlib.Path(cache_dir or os.environ.get(CACHE_VARIABLE) or _user_cache())
    dataset = DemoDataset(cache / f'demo-v{VERSION}')
    if not dataset.folder.is_dir():
        try:
            _create(dataset)
        except OSError as error:
            raise errors.DataError(
                f'{cache}: the demo data cannot be written there ({error.strerror}); set the '
                f'environment variable {CACHE_VARIABLE} to a folder that can be written to.'
            ) from error
    return dataset


def _user_cache() -> pathlib.Path:
    return pathlib.Path(path_names.cache_folder('run_train_eval'))


def _create(dataset: DemoDataset) -> None:
    """Write a temporary folder and rename it, so that the folder is complete or absent."""
    dataset.folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place: a rename is atomic only within one file system.
    temporary = pathlib.Path(
        tempfile.mkdtemp(prefix=f'.{dataset.folder.name}-', dir=dataset.folder.parent)
    )
    try:
        write(DemoDataset(temporary), SUBSETS)
        try:
            temporary.rename(dataset.folder)
        except OSError:
            if not dataset.folder.is_dir():  # Another process may have written it first.
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def demo_pipeline_text(task: str = 'detection', paths: Optional[DemoDataset] = None) -> str:
    """Return the pipeline config that the front door runs without a config.

    Args:
        task: `detection` or `classification`.
        paths: of the data; None: those of `demo_dataset()`.

    Raises:
        errors.ConfigError: there is no demo of that task.
    """
    if task not in _SUBSETS:
        raise errors.ConfigError(
            f'there is no demo of the task {task!r}{errors.did_you_mean(task, _SUBSETS)}'
        )
    paths = paths or demo_dataset()
    subset, file = _SUBSETS[task], pathlib.Path(__file__).with_name(f'demo_{task}.config')
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(file.read_text(encoding='utf-8'), config)
    for split, reader in zip(_SPLITS, (config.train_input_reader, config.eval_input_reader.add())):
        reader.label_map_path = paths.label_map
        reader.tf_record_input_reader.input_path.append(paths.pattern(subset, split))
    return text_format.MessageToString(config)


def locate_data(config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Set the paths of a config that reads `CONFIG_FOLDER` to those of `demo_dataset()`.

    A `CONFIG_FOLDER` in the working directory is read as it is.

    Args:
        config: changed in place.
    """
    readers = [config.train_input_reader, *config.eval_input_reader]
    start = f'{CONFIG_FOLDER}/'
    needs_data = any(reader.label_map_path.startswith(start) for reader in readers)
    if not needs_data or os.path.isdir(CONFIG_FOLDER):
        return
    folder = demo_dataset().folder

    def located(path: str) -> str:
        return str(folder / path[len(start) :]) if path.startswith(start) else path

    for reader in readers:
        reader.label_map_path = located(reader.label_map_path)
        paths = reader.tf_record_input_reader.input_path
        paths[:] = [located(path) for path in paths]


def write(dataset: DemoDataset, subsets: Mapping[str, Subset]) -> None:
    """Draw subsets and write their records and the label map.

    Args:
        dataset: the paths to write to.
        subsets: those to draw, by name.
    """
    classes = _label_map()
    classes.write(dataset.label_map)
    total = sum(sum(subset.num_examples.values()) for subset in subsets.values())
    with (
        codecs.ImageCodec() as codec,
        tqdm.tqdm(total=total, desc='drawing the demo data', unit='picture', disable=None) as bar,
    ):
        for name, subset in subsets.items():
            for split in _SPLITS:
                prefix = dataset.prefix(name, split)
                with records.ShardWriter(prefix, subset.num_shards[split]) as writer:
                    for index, scene in enumerate(draw(name, subset, split)):
                        source_id = f'{name}/{split}/{index:05d}'
                        writer.write(records.serialize(_features(scene, classes, codec, source_id)))
                        bar.update()


def _label_map() -> label_map.LabelMap:
    """Return the shapes; each has its extreme points as keypoints."""
    named = label_map.LabelMap.from_names(shapes.NAMES)
    keypoints = tuple(enumerate(scenes.EXTREMES))
    items = (dataclasses.replace(item, keypoints=keypoints) for item in named.items)
    return label_map.LabelMap(tuple(items))


def draw(name: str, subset: Subset, split: str) -> Iterator[scenes.Scene]:
    """Yield the pictures of a split; each call yields the same ones.

    The shapes that pictures of the classification subset show are equally frequent.
    """
    # Not hash(), which is another one in each process.
    part = zlib.crc32(f'{name}/{split}'.encode())
    for index in range(subset.num_examples[split]):
        # Of each picture: one more draw in one of them changes no other picture.
        random = np.random.default_rng([_SEED, part, index])
        first = shapes.NAMES[index % len(shapes.NAMES)]
        others = random.integers(len(shapes.NAMES), size=random.integers(subset.most_shapes))
        names = [first, *(shapes.NAMES[other] for other in others)]
        yield scenes.draw_scene(random, subset.size, names, subset.scale, subset.most_turn)


def _features(
    scene: scenes.Scene, classes: label_map.LabelMap, codec: codecs.ImageCodec, source_id: str
) -> records.Features:
    encoded = codec.encode_jpeg(scene.image)
    filename = source_id.replace('/', '_') + '.jpg'
    main = scene.main_object.name
    return {
        **records.image_features(encoded, images.image_header(encoded), filename, source_id),
        'image/class/label': classes.id_of_name(main),
        'image/class/text': main,
        **_object_features(scene, classes),
        **_segmentation_features(scene, classes),
    }


def _object_features(scene: scenes.Scene, classes: label_map.LabelMap) -> records.Features:
    size = scene.image.shape[0]
    names = [item.name for item in scene.objects]
    boxes = np.array([item.box for item in scene.objects], np.float32) / size
    areas = np.array([item.mask.sum() for item in scene.objects], np.float32)
    none = np.zeros(len(names), np.int64)
    features: records.Features = {
        'image/object/class/label': np.array([classes.id_of_name(name) for name in names]),
        'image/object/class/text': names,
        'image/object/difficult': none,
        'image/object/is_crowd': none,
        'image/object/group_of': none,
        'image/object/area': areas,
        'image/object/weight': np.ones(len(names), np.float32),
        'image/object/mask': [
            codecs.encode_png(item.mask.astype(np.uint8)) for item in scene.objects
        ],
    }
    for side, values in zip(('ymin', 'xmin', 'ymax', 'xmax'), boxes.T):
        features[f'image/object/bbox/{side}'] = values
    return {**features, **_rotated_box_features(scene), **_keypoint_features(scene)}


def _keypoint_features(scene: scenes.Scene) -> records.Features:
    points = np.array([item.extreme_points for item in scene.objects]) / scene.image.shape[0]
    return {
        'image/object/keypoint/y': points[..., 0].ravel().astype(np.float32),
        'image/object/keypoint/x': points[..., 1].ravel().astype(np.float32),
        'image/object/keypoint/visibility': np.full(points[..., 0].size, 2),
        'image/object/keypoint/num': np.full(len(points), len(scenes.EXTREMES)),
    }


def _rotated_box_features(scene: scenes.Scene) -> records.Features:
    size = scene.image.shape[0]
    places = [item.placement for item in scene.objects]
    # A box rotated by half a circle is the same box.
    angles = (np.array([place.angle for place in places]) + math.pi / 2) % math.pi - math.pi / 2
    values = {
        'cy': [place.center_y / size for place in places],
        'cx': [place.center_x / size for place in places],
        'h': [place.height / size for place in places],
        'w': [place.width / size for place in places],
        'ang': angles,
    }
    return {f'image/object/rbbox/{key}': np.array(v, np.float32) for key, v in values.items()}


def _segmentation_features(scene: scenes.Scene, classes: label_map.LabelMap) -> records.Features:
    class_ids = np.zeros(scene.image.shape[:2], np.uint8)
    instance_ids = np.zeros(scene.image.shape[:2], np.uint16)
    for instance, item in enumerate(scene.objects, 1):
        class_ids[item.mask] = classes.id_of_name(item.name)
        instance_ids[item.mask] = instance
    return {
        'image/segmentation/class/encoded': codecs.encode_png(class_ids),
        'image/segmentation/class/format': 'png',
        'image/segmentation/instance/encoded': codecs.encode_png(instance_ids),
    }


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Write the demo set to a folder, for configs to name.

    Args:
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(
        prog='python -m model_fns.datasets.demo',
        description='Draws the embedded demo set: TFRecords with the keys of every task, and a '
        'label map.',
    )
    parser.add_argument(
        '--output_dir', required=True, help='folder to write to; created where it is missing'
    )
    folder = pathlib.Path(parser.parse_args(arguments).output_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(DemoDataset(folder), SUBSETS)
    except OSError as error:
        parser.error(f'--output_dir: {folder} cannot be written to ({error.strerror}).')


if __name__ == '__main__':
    main()
