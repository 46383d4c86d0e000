"""Small valid inputs of every kind, which `tests.campaigns.fuzz` changes: texts and records."""

from __future__ import annotations

import base64
import pathlib
from typing import Any, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from model_fns.datasets import codecs, records
from model_fns.datasets.annotations import class_maps
from model_fns.structures.images import image_header

SIZE = 32
DEEP_FIELDS = {'num_additional_channels': 2, 'image_bits': 16}  # of a reader
KINDS = ('classification', 'detection', 'segmentation')

_MODELS = {
    'classification': """
  classification { num_classes: 2 labels_offset: 1 backbone { name: 'lenet' } use_grayscale: true }
""",
    'segmentation': """
  segmentation {
    num_classes: 3 crop_height: 33 crop_width: 33
    backbone { name: 'mobilenet_v2' depth_multiplier: 0.1 output_stride: 16 }
    aspp { atrous_rates: 2 num_filters: 8 }
    decoder { output_strides: 4 num_filters: 8 }
  }
""",
    'detection': """
  ssd {
    num_classes: 2
    image_resizer { fixed_shape_resizer { height: 64 width: 64 } }
    feature_extractor {
      type: 'ssd_mobilenet_v1' depth_multiplier: 0.1 min_depth: 8
      conv_hyperparams {
        regularizer { l2_regularizer { weight: 0.0001 } }
        initializer { truncated_normal_initializer { stddev: 0.03 } }
        batch_norm { decay: 0.9 epsilon: 0.001 }
      }
    }
    box_predictor {
      convolutional_box_predictor {
        kernel_size: 1
        conv_hyperparams {
          regularizer { l2_regularizer { weight: 0.0001 } }
          initializer { truncated_normal_initializer { stddev: 0.03 } }
        }
      }
    }
    anchor_generator {
      ssd_anchor_generator { num_layers: 6 min_scale: 0.2 max_scale: 0.95 aspect_ratios: 1.0 }
    }
    box_coder { faster_rcnn_box_coder { y_scale: 10.0 } }
    matcher { argmax_matcher { matched_threshold: 0.5 unmatched_threshold: 0.5 } }
    similarity_calculator { iou_similarity { } }
    loss {
      classification_loss { weighted_sigmoid { } }
      localization_loss { weighted_smooth_l1 { } }
    }
    post_processing {
      batch_non_max_suppression { score_threshold: 0.1 iou_threshold: 0.6 }
      score_converter: SIGMOID
    }
  }
""",
}
_STEPS = {
    'detection': 'data_augmentation_options { ssd_random_crop { } }\n',
}
_REST = """
train_config {{
  batch_size: 2
  num_steps: 10
  {steps}
  optimizer {{
    momentum_optimizer {{
      learning_rate {{ cosine_decay_learning_rate {{ total_steps: 10 warmup_steps: 2 }} }}
      momentum_optimizer_value: 0.9
    }}
    use_moving_average: false
  }}
  fine_tune_checkpoint_type: 'classification'
  freeze_variables: 'nothing'
}}
train_input_reader {{
  label_map_path: '{folder}/label_map.pbtxt'
  tf_record_input_reader {{ input_path: '{folder}/{kind}.tfrecord' }}
  shuffle_buffer_size: 10
  num_readers: 2
}}
eval_config {{ batch_size: 1 num_examples: 2 schedule {{ throttle_seconds: 3 }} }}
eval_input_reader {{ tf_record_input_reader {{ input_path: '{folder}/{kind}.tfrecord' }} }}
export_config {{ latest {{ keep_max: 1 }} }}
"""

VOC = """<annotation>
  <filename>a.png</filename>
  <size><width>32</width><height>32</height><depth>3</depth></size>
  <object><name>cat</name><difficult>0</difficult><truncated>1</truncated>
    <bndbox><xmin>3</xmin><ymin>4</ymin><xmax>20</xmax><ymax>30</ymax></bndbox></object>
  <object><name>dog</name>
    <bndbox><xmin>1.5</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>
</annotation>
"""
ROTATED_VOC = VOC.replace(
    '<bndbox><xmin>1.5</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>',
    '<robndbox><cx>15</cx><cy>10</cy><w>12</w><h>4</h><angle>0.5</angle></robndbox>',
)
HRSC = """<HRSC_Image><Img_SizeWidth>32</Img_SizeWidth><Img_SizeHeight>32</Img_SizeHeight>
<HRSC_Objects><HRSC_Object><difficult>1</difficult><mbox_cx>14</mbox_cx><mbox_cy>12</mbox_cy>
<mbox_w>10</mbox_w><mbox_h>4</mbox_h><mbox_ang>-0.5</mbox_ang></HRSC_Object></HRSC_Objects>
</HRSC_Image>
"""
DOTA = """imagesource:GoogleEarth
gsd:0.146343590398
1 1 20 1 20 10 1 10 cat 0
10 2 20 12 10 22 0 12 dog 1
"""
YOLO_DATA = """path: here
train: images/train
names:
  0: cat
  1: 'dog'
kpt_shape: [2, 3]
nc: 2
"""
YOLO_POSE = '0 0.5 0.5 0.25 0.25 0.5 0.5 2 0.4 0.4 1\n1 0.1 0.1 0.1 0.1 0 0 0 0.1 0.1 2\n'
LIST = 'a\nb.png\nimages/a.png -1\n'
LIST_TO_PREDICT = 'images/a.png\nimages/b.png\n'
# Files of a run by name. A step of the checkpoints is 5, see `workspace`.
STATES: Dict[str, Dict[str, Any]] = {
    'export/best/best.json': {
        'metric': 'accuracy', 'higher_is_better': True, 'value': 0.5, 'step': 5,
        'path': '1700000000',
    },
    'early_stopping.json': {
        'metric': 'accuracy', 'higher_is_better': True, 'best': 0.5, 'best_step': 3,
        'steps': [4, 5],
    },
    'evaluations.json': {'begun': 5, 'done': 3, 'final': 0},
    'metrics.json': {'global_step': 5, 'val': {'accuracy': 0.5, 'loss': 1.0}},
    'cluster/finished.json': {'step': 5, 'reason': 'num_steps', 'goal': 'num_steps: 10'},
    'cluster/failed.json': {'task': 'worker:1', 'message': 'no', 'identity': 'abc'},
    'cluster/heartbeat_worker_1.json': {
        'task': 'worker:1', 'identity': 'abc', 'host': 'x', 'pid': 7, 'state': 'training',
        'step': 5, 'beat': 3, 'time': 1.7e9,
    },
    'run.lock': {
        'host': 'x', 'pid': 7, 'started': '1', 'machine': 'y', 'since': '2026-01-01 00:00:00',
        'token': 'abc', 'time': 1.7e9,
    },
}  # fmt: skip
YOLO = '0 0.5 0.5 0.25 0.25\n1 0.1 0.1 0.4 0.2 0.3 0.6\n'
COCO: Dict[str, List[Any]] = {
    'images': [
        {'id': 1, 'file_name': 'a.png', 'width': SIZE, 'height': SIZE},
        {'id': 2, 'file_name': 'b.png', 'width': SIZE, 'height': SIZE},
    ],
    'categories': [
        {'id': 1, 'name': 'cat', 'keypoints': ['nose', 'tail'], 'skeleton': [[1, 2]]},
        {'id': 7, 'name': 'dog'},
    ],
    'annotations': [
        {'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [2, 3, 10, 12.5], 'area': 90.5,
         'iscrowd': 0, 'segmentation': [[2, 3, 12, 3, 12, 15.5, 2, 15.5]],
         'keypoints': [3, 4, 2, 0, 0, 0], 'num_keypoints': 1},
        {'id': 2, 'image_id': 2, 'category_id': 7, 'bbox': [0, 0, 32, 32], 'area': 512,
         'iscrowd': 1, 'segmentation': {'size': [SIZE, SIZE], 'counts': [0, 512, 512]}},
        {'id': 3, 'image_id': 2, 'category_id': 7, 'bbox': [0, 0, 1, 2], 'area': 2,
         'iscrowd': 0, 'segmentation': {'size': [SIZE, SIZE], 'counts': '12mo0'}},
    ],
}  # fmt: skip
LABELME: Dict[str, Any] = {
    'shapes': [
        {
            'label': 'cat',
            'shape_type': 'polygon',
            'group_id': 1,
            'points': [[2, 3], [12, 3.5], [12, 15]],
        },
        {'label': 'cat', 'shape_type': 'rectangle', 'group_id': 1, 'points': [[20, 20], [25, 30]]},
        {'label': 'dog', 'shape_type': 'circle', 'points': [[16, 16], [16, 20]]},
        {
            'label': 'dog',
            'shape_type': 'mask',
            'points': [[4, 6], [6, 7]],
            'mask': base64.b64encode(
                codecs.encode_png(np.array([[1, 1, 0], [0, 1, 1]], np.uint8))
            ).decode(),
        },
    ],
    'imageHeight': SIZE,
    'imageWidth': SIZE,
}
TABLES = (
    'filename,width,height,class,xmin,ymin,xmax,ymax\na.png,32,32,cat,2,3,12,15\nb.png,,,,,,,\n',
    'file;label\na.png;"cat"\nb.png;dog\n',
)
PANOPTIC: Dict[str, List[Any]] = {
    'images': [{'id': 1, 'file_name': 'a.png', 'width': SIZE, 'height': SIZE}],
    'categories': [{'id': 1, 'name': 'cat', 'isthing': 1}, {'id': 7, 'name': 'dog', 'isthing': 0}],
    'annotations': [
        {
            'image_id': 1,
            'file_name': 'a.png',
            'segments_info': [
                {'id': 263, 'category_id': 1, 'iscrowd': 0, 'area': 36, 'bbox': [3, 2, 6, 6]}
            ],
        },
    ],
}
CLUSTER = {
    'cluster': {
        'chief': ['10.0.0.1:2222'],
        'worker': ['10.0.0.2:2222', '10.0.0.3:2222'],
        'ps': ['10.0.0.4:2222'],
        'evaluator': ['10.0.0.5:2222'],
    },
    'task': {'type': 'worker', 'index': 1},
}

# What YAML has beside text, numbers, lists and mappings.
ODD_YAML = (
    'a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nnames: *c\n',
    'names: &names [*names]\n',
    'names: !!python/object/apply:os.system [exit]\n',
    f'names: {"[" * 3000}\n',
    'base: &base {0: x}\nnames: {<<: *base, 1: y}\n',
    'names: !!set {a, b}\nnc: 0o17\n--- \nnames: [z]\n',
    'names: {? [1, 2] : x, 2024-01-01: y, ~: z}\n',
)
# Files that a run writes about itself, as JSON or text.
RUN_FILES: Mapping[str, Any] = {
    'run.json': {
        'starts': [
            {
                'started': '2026-01-01T00:00:00.000+00:00',
                'status': 'running',
                'first_step': 0,
                'last_step': None,
                'host': 'a',
                'process_id': 7,
                'distribution': {
                    'mode': 'MULTI_WORKER_MIRRORED',
                    'workers': ['chief:0', 'worker:0'],
                    'replicas': 2,
                },
            }
        ]
    },
    'metrics.json': {'global_step': 5, 'val': {'accuracy': 0.5, 'loss': 1.5}},
    'results.csv': 'step,time,train/loss,eval_val/accuracy\n3,2026,0.5,0.25\n5,2026,0.25,0.5\n',
}


def config_text(folder: pathlib.Path, kind: str) -> str:
    """Return the pipeline config of a kind of task."""
    rest = _REST.format(folder=folder, kind=kind, steps=_STEPS.get(kind, ''))
    return f'model {{{_MODELS[kind]}}}{rest}'


def deep_png(values: np.ndarray) -> bytes:
    """Return a PNG of 16 bits a channel, gray or of colors."""
    return bytes(tf.io.encode_png(values.astype(np.uint16)).numpy())


def deep_example(kind: str, index: int) -> bytes:
    """Return a record of 16 bits a channel, with two further channels, see `DEEP_FIELDS`."""
    record = tf.train.Example.FromString(example(kind, index))
    random = np.random.RandomState(index)
    colors, *further = (
        deep_png(random.randint(0, 65536, [SIZE, SIZE, channels])) for channels in (3, 1, 1)
    )
    feature = record.features.feature
    feature['image/encoded'].bytes_list.value[:] = [colors]
    feature[ADDITIONAL_CHANNELS].bytes_list.value[:] = further
    return record.SerializeToString()


def example(kind: str, index: int) -> bytes:
    """Return a record of a kind of task."""
    noise = np.random.RandomState(index).randint(0, 256, [SIZE, SIZE, 3]).astype(np.uint8)
    encoded = codecs.encode_png(noise)
    features = records.image_features(encoded, image_header(encoded), f'{index}.png', str(index))
    if kind == 'classification':
        features['image/class/label'] = np.array([1 + index % 2])
        features['image/class/text'] = ['cat' if index % 2 == 0 else 'dog']
    elif kind == 'detection':
        for place, side in enumerate(('ymin', 'xmin', 'ymax', 'xmax')):
            features[f'image/object/bbox/{side}'] = np.array([0.1, 0.5]) + 0.4 * (place > 1)
        features['image/object/class/label'] = np.array([1, 2])
        features['image/object/class/text'] = ['cat', 'dog']
        features['image/object/difficult'] = np.array([0, 1])
    else:
        ids = np.random.RandomState(index).randint(0, 3, [SIZE, SIZE])
        features.update(class_maps.class_features(ids))
    return records.serialize(features)


def sequence() -> bytes:
    """Return a `tf.train.SequenceExample` of three frames."""
    message = tf.train.SequenceExample()
    message.context.feature['image/format'].bytes_list.value.append(b'png')
    lists = message.feature_lists.feature_list
    encoded = codecs.encode_png(np.zeros([SIZE, SIZE, 3], np.uint8))
    for index in range(3):
        lists['image/encoded'].feature.add().bytes_list.value.append(encoded)
        lists['image/source_id'].feature.add().bytes_list.value.append(b'frame %d' % index)
        for place, side in enumerate(('ymin', 'xmin', 'ymax', 'xmax')):
            value = 0.1 + 0.4 * (place > 1)
            lists[f'region/bbox/{side}'].feature.add().float_list.value.append(value)
        lists['region/label/string'].feature.add().bytes_list.value.append(b'cat')
        lists['region/label/confidence'].feature.add().float_list.value.append(0.5)
        lists['region/is_annotated'].feature.add().int64_list.value.append(1)
    return message.SerializeToString()
