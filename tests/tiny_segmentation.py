"""Segmentation data and a network small enough for end-to-end tests: squares on dark noise."""

import numpy as np
import tensorflow as tf

from model_fns.datasets import codecs, records
from model_fns.datasets.annotations import class_maps
from model_fns.structures.images import image_header
from model_fns.structures.label_map import LabelMap

SIZE = 48


def scene(random):
    """Return (uint8 image, classes, instances) of pixels: green squares are 1, blue ones 2."""
    image = random.randint(0, 60, [SIZE, SIZE, 3]).astype(np.uint8)
    classes = np.zeros([SIZE, SIZE], int)
    instances = np.zeros([SIZE, SIZE], int)
    for column in range(random.randint(1, 3)):
        side = random.randint(12, 20)
        top = random.randint(0, SIZE - side)
        left = 24 * column + random.randint(0, 24 - side)
        square = slice(top, top + side), slice(left, left + side)
        classes[square] = random.randint(1, 3)
        instances[square] = column + 1
        image[square + (classes[top, left],)] = 230
    return image, classes, instances


def record(image, classes, instances, name, **changes):
    """Return a serialized example; `changes` are features by the end of their key, None: none."""
    encoded = codecs.encode_png(image)
    features = records.image_features(encoded, image_header(encoded), name, name)
    features.update(class_maps.class_features(classes))
    features['image/segmentation/instance/encoded'] = codecs.encode_png(instances.astype(np.uint16))
    features.update({f'image/segmentation/{key}': value for key, value in changes.items()})
    return records.serialize({key: one for key, one in features.items() if one is not None})


def write_records(path, count, seed):
    random = np.random.RandomState(seed)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(count):
            writer.write(record(*scene(random), f'{path.stem}_{index}.png'))


CONFIG = """
model {{
  segmentation {{
    num_classes: 3
    crop_height: 49
    crop_width: 49
    backbone {{
      name: "mobilenet_v2"
      depth_multiplier: 0.1
      channel_divisor: 8
      output_stride: 8
      batch_norm_decay: 0.8
    }}
    aspp {{ num_filters: 16 batch_norm_decay: 0.8 }}
    decoder {{ output_strides: 4 num_filters: 16 }}
    preprocessing {{ min_scale_factor: 0.75 max_scale_factor: 1.25 }}
    {heads}
  }}
}}
train_config {{
  batch_size: 4
  num_steps: 60
  optimizer {{
    adam_optimizer {{
      epsilon: 1e-7
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }}
    }}
    use_moving_average: false
  }}
}}
train_input_reader {{
  label_map_path: "{folder}/label_map.pbtxt"
  tf_record_input_reader {{ input_path: "{folder}/train.tfrecord" }}
}}
eval_config {{ batch_size: 3 num_visualizations: 2 visualization_export_dir: "{folder}/pictures" }}
eval_input_reader {{
  tf_record_input_reader {{ input_path: "{folder}/val.tfrecord" }}
  shuffle: false
}}
export_config {{ best {{ metric: "miou_1.0_overall" }} }}
"""

ALL_HEADS = """
    instance_center { sigma: 3 weight: 5 num_filters: 8 }
    offset { num_filters: 8 }
    edge { num_filters: 8 }
    instance_grouping { min_instance_area: 4 }
    evaluation { save_raw_predictions: true training_metrics_window: 10 }
"""


def write_all(folder, heads=''):
    """Write records, label map and pipeline config to a folder; return the config's path."""
    write_records(folder / 'train.tfrecord', 24, seed=0)
    write_records(folder / 'val.tfrecord', 6, seed=1)
    LabelMap.from_names(['green', 'blue']).write(str(folder / 'label_map.pbtxt'))
    path = folder / 'pipeline.config'
    path.write_text(CONFIG.format(folder=folder, heads=heads))
    return path
