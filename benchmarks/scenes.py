"""Synthetic scenes, and a published single-shot detector that reads them."""

from __future__ import annotations

import os
from typing import Any, Dict

import numpy as np

from benchmarks import pipelines

HEIGHT, WIDTH = 240, 320
BATCH_SIZE = 8
CLASSES = ('one', 'two', 'three')  # as many as the recorded figures are of
_SIZE = 320  # of the synthetic squares that images are cut from


def write_records(folder: str, num_images: int) -> Dict[str, str]:
    """Write records of synthetic scenes; return their glob and the path of the label map."""
    from model_fns.datasets import codecs, demo, records
    from model_fns.structures import images, label_map

    subset = demo.Subset(_SIZE, 6, (0.16, 0.38), np.pi, {'train': num_images}, {'train': 1})
    classes = label_map.LabelMap.from_names(CLASSES)
    paths = {'label_map': os.path.join(folder, 'label_map.pbtxt')}
    classes.write(paths['label_map'])
    prefix = os.path.join(folder, 'scenes')
    paths['records'] = records.shard_pattern(prefix)
    with codecs.ImageCodec() as codec, records.ShardWriter(prefix, 1) as writer:
        for index, scene in enumerate(demo.draw('benchmark', subset, 'train')):
            encoded = codec.encode_jpeg(scene.image[:HEIGHT])
            inside = [item for item in scene.objects if item.box[0] < HEIGHT - 8]
            boxes = np.array([item.box for item in inside], np.float32).reshape([-1, 4])
            boxes = np.minimum(boxes, [HEIGHT, WIDTH, HEIGHT, WIDTH])
            boxes /= [HEIGHT, WIDTH, HEIGHT, WIDTH]
            name = f'{index:05d}.jpg'
            features = {
                **records.image_features(encoded, images.image_header(encoded), name, name),
                'image/object/class/label': np.array(
                    [1 + len(item.name) % len(CLASSES) for item in inside], np.int64
                ),
            }
            for side, values in zip(('ymin', 'xmin', 'ymax', 'xmax'), boxes.T):
                features[f'image/object/bbox/{side}'] = values.astype(np.float32)
            writer.write(records.serialize(features))
    return paths


def load_config(model: str, paths: Dict[str, str], num_classes: int) -> Any:
    """Load a published single-shot detector's config, and let it read the scenes."""
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(
        os.path.join(pipelines.PUBLISHED, 'tf1', f'{model}.config')
    )
    pipelines.clear_cluster(config)
    pipelines.read_records(config, paths['records'], paths['label_map'])
    config.ClearField('graph_rewriter')
    config.model.ssd.num_classes = num_classes
    config.train_config.batch_size = BATCH_SIZE
    config.eval_config.batch_size = BATCH_SIZE
    config.eval_config.metrics_set[:] = ['coco_detection_metrics']
    config.eval_config.ClearField('num_examples')
    return config
