"""Detection data and a network small enough for end-to-end tests: bright squares on dark noise."""

import numpy as np
import tensorflow as tf

from model_fns.datasets import codecs, records
from model_fns.structures.images import image_header
from model_fns.structures.label_map import LabelMap

SIZE = 64


def scene(random):
    """Return (uint8 image, normalized boxes [n, 4], ids): green squares are 1, blue ones 2."""
    image = random.randint(0, 60, [SIZE, SIZE, 3]).astype(np.uint8)
    boxes, ids = [], []
    for column in range(random.randint(1, 3)):
        side = random.randint(14, 24)
        top = random.randint(0, SIZE - side)
        left = 32 * column + random.randint(0, 32 - side)
        class_id = random.randint(1, 3)
        image[top : top + side, left : left + side, class_id] = 230
        boxes.append([top, left, top + side, left + side])
        ids.append(class_id)
    return image, np.array(boxes, np.float32) / SIZE, np.array(ids)


def mask_of(box):
    """Return a mask uint8 [SIZE, SIZE]: 1 in the left half of a box [4]."""
    top, left, bottom, right = np.round(box * SIZE).astype(int)
    mask = np.zeros([SIZE, SIZE], np.uint8)
    mask[top:bottom, left : (left + right) // 2] = 1
    return mask


def keypoints_of(boxes):
    """Return the keypoints [n, 3, 2] of boxes [n, 4]: two opposite corners, and the center."""
    near, far = boxes[:, :2], boxes[:, 2:]
    return np.stack([near, far, (near + far) / 2], axis=1)


def write_records(path, count, seed):
    random = np.random.RandomState(seed)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(count):
            image, boxes, ids = scene(random)
            encoded = codecs.encode_png(image)
            features = records.image_features(
                encoded, image_header(encoded), f'{index}.png', f'{path.stem}_{index}'
            )
            for column, side in enumerate(('ymin', 'xmin', 'ymax', 'xmax')):
                features[f'image/object/bbox/{side}'] = boxes[:, column]
            features['image/object/class/label'] = ids
            for column, axis in enumerate('yx'):
                points = keypoints_of(boxes)[..., column].ravel()
                features[f'image/object/keypoint/{axis}'] = points
            features['image/object/mask'] = [codecs.encode_png(mask_of(box)) for box in boxes]
            writer.write(records.serialize(features))


HYPERPARAMS = """
  activation: RELU_6
  regularizer { l2_regularizer { weight: 0.00004 } }
  initializer { variance_scaling_initializer { } }
  batch_norm { scale: true decay: 0.9 epsilon: 0.001 }
"""

MODEL = """
model {{
  ssd {{
    num_classes: 2
    image_resizer {{ fixed_shape_resizer {{ height: 64 width: 64 }} }}
    feature_extractor {{
      type: "ssd_mobilenet_v1_fpn"
      depth_multiplier: 0.1
      min_depth: 8
      override_base_feature_extractor_hyperparams: true
      fpn {{ min_level: 3 max_level: 4 additional_layer_depth: 32 }}
      conv_hyperparams {{ {hyperparams} }}
    }}
    box_predictor {{
      weight_shared_convolutional_box_predictor {{
        depth: 16
        num_layers_before_predictor: 1
        class_prediction_bias_init: -2.0
        conv_hyperparams {{ {hyperparams} }}
      }}
    }}
    anchor_generator {{
      multiscale_anchor_generator {{
        min_level: 3 max_level: 4 anchor_scale: 2.0 aspect_ratios: 1.0 scales_per_octave: 2
      }}
    }}
    box_coder {{ faster_rcnn_box_coder {{ }} }}
    matcher {{ argmax_matcher {{ unmatched_threshold: 0.4 force_match_for_each_row: true }} }}
    similarity_calculator {{ iou_similarity {{ }} }}
    encode_background_as_zeros: true
    normalize_loc_loss_by_codesize: true
    loss {{
      classification_loss {{ weighted_sigmoid_focal {{ alpha: 0.25 }} }}
      localization_loss {{ weighted_smooth_l1 {{ }} }}
    }}
    post_processing {{
      batch_non_max_suppression {{
        score_threshold: 0.01 iou_threshold: 0.5
        max_detections_per_class: 10 max_total_detections: 10
      }}
      score_converter: SIGMOID
    }}
  }}
}}
"""

REST = """
train_config {{
  batch_size: 8
  num_steps: 100
  data_augmentation_options {{ random_horizontal_flip {{ }} }}
  optimizer {{
    adam_optimizer {{
      epsilon: 1e-7
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.01 }} }}
    }}
    use_moving_average: false
  }}
  checkpoints {{ save_every_n_steps: 50 }}
}}
train_input_reader {{
  label_map_path: "{folder}/label_map.pbtxt"
  tf_record_input_reader {{ input_path: "{folder}/train.tfrecord" }}
}}
eval_config {{ batch_size: 5 num_visualizations: 2 visualization_export_dir: "{folder}/pictures" }}
eval_input_reader {{
  label_map_path: "{folder}/label_map.pbtxt"
  tf_record_input_reader {{ input_path: "{folder}/val.tfrecord" }}
  shuffle: false
}}
export_config {{ best {{ metric: "DetectionBoxes_Precision/mAP@.50IOU" }} }}
"""


def config_text(folder):
    return MODEL.format(hyperparams=HYPERPARAMS) + REST.format(folder=folder)


def write_all(folder):
    """Write records, label map and pipeline config to a folder; return the config's path."""
    write_records(folder / 'train.tfrecord', 64, seed=0)
    write_records(folder / 'val.tfrecord', 12, seed=1)
    LabelMap.from_names(['green', 'blue']).write(str(folder / 'label_map.pbtxt'))
    path = folder / 'pipeline.config'
    path.write_text(config_text(folder))
    return path
