"""Published defaults of single-shot detectors for what an artifact does not tell.

They are the values of the configs that were published for the TF1 Object Detection API.
"""

from __future__ import annotations

from google.protobuf import text_format

from protos import pipeline_pb2

_PLAIN_HYPERPARAMS = """
  activation: RELU_6
  regularizer { l2_regularizer { weight: 0.00004 } }
  initializer { truncated_normal_initializer { stddev: 0.03 mean: 0.0 } }
  batch_norm { train: true scale: true center: true decay: 0.9997 epsilon: 0.001 }
"""
_PYRAMID_HYPERPARAMS = """
  activation: RELU_6
  regularizer { l2_regularizer { weight: 0.00004 } }
  initializer { random_normal_initializer { stddev: 0.01 mean: 0.0 } }
  batch_norm { train: true scale: true center: true decay: 0.997 epsilon: 0.001 }
"""
_COMMON = """
model {
  ssd {
    matcher {
      argmax_matcher {
        matched_threshold: 0.5
        unmatched_threshold: 0.5
        ignore_thresholds: false
        negatives_lower_than_unmatched: true
        force_match_for_each_row: true
      }
    }
    similarity_calculator { iou_similarity { } }
    box_coder { faster_rcnn_box_coder { } }
    normalize_loss_by_num_matches: true
    post_processing { batch_non_max_suppression { } }
  }
}
train_input_reader {
  tf_record_input_reader { input_path: "PATH_TO_BE_CONFIGURED/train.record" }
}
eval_input_reader {
  shuffle: false
  tf_record_input_reader { input_path: "PATH_TO_BE_CONFIGURED/val.record" }
}
eval_config { metrics_set: "coco_detection_metrics" }
"""
_PLAIN = """
model {
  ssd {
    loss {
      classification_loss { weighted_sigmoid { } }
      localization_loss { weighted_smooth_l1 { } }
      hard_example_miner {
        num_hard_examples: 3000
        iou_threshold: 0.99
        loss_type: CLASSIFICATION
        max_negatives_per_positive: 3
        min_negatives_per_image: 3
      }
      classification_weight: 1.0
      localization_weight: 1.0
    }
  }
}
train_config {
  batch_size: 24
  num_steps: 200000
  data_augmentation_options { random_horizontal_flip { } }
  data_augmentation_options { ssd_random_crop { } }
  optimizer {
    rms_prop_optimizer {
      learning_rate {
        exponential_decay_learning_rate {
          initial_learning_rate: 0.004 decay_steps: 800720 decay_factor: 0.95
        }
      }
      momentum_optimizer_value: 0.9
      decay: 0.9
      epsilon: 1.0
    }
  }
}
"""
PYRAMID = """
model {
  ssd {
    encode_background_as_zeros: true
    normalize_loc_loss_by_codesize: true
    loss {
      classification_loss { weighted_sigmoid_focal { alpha: 0.25 gamma: 2.0 } }
      localization_loss { weighted_smooth_l1 { } }
      classification_weight: 1.0
      localization_weight: 1.0
    }
  }
}
train_config {
  batch_size: 64
  num_steps: 25000
  data_augmentation_options { random_horizontal_flip { } }
  data_augmentation_options {
    random_crop_image {
      min_object_covered: 0.0 min_aspect_ratio: 0.75 max_aspect_ratio: 3.0
      min_area: 0.75 max_area: 1.0 overlap_thresh: 0.0
    }
  }
  optimizer {
    momentum_optimizer {
      learning_rate {
        cosine_decay_learning_rate {
          learning_rate_base: 0.04 total_steps: 25000
          warmup_learning_rate: 0.013333 warmup_steps: 2000
        }
      }
      momentum_optimizer_value: 0.9
    }
    use_moving_average: false
  }
}
"""
# Types of networks whose published configs override the hyperparameters of the backbone.
_OVERRIDING = ('inception', '_fpn', '_ppn')


def build(kind: str, head: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Build a config of defaults.

    Args:
        kind: type of the feature extractor.
        head: field of the box predictor.
    """
    has_pyramid = '_fpn' in kind
    config = pipeline_pb2.TrainEvalPipelineConfig()
    for text in (_COMMON, PYRAMID if has_pyramid else _PLAIN):
        text_format.Merge(text, config)
    hyperparams = _PYRAMID_HYPERPARAMS if has_pyramid else _PLAIN_HYPERPARAMS
    ssd = config.model.ssd
    for message in (ssd.feature_extractor, getattr(ssd.box_predictor, head)):
        text_format.Merge(hyperparams, message.conv_hyperparams)
    ssd.feature_extractor.type = kind
    if any(part in kind for part in _OVERRIDING):
        ssd.feature_extractor.override_base_feature_extractor_hyperparams = True
    box_predictor = getattr(ssd.box_predictor, head)
    box_predictor.use_dropout = False
    if has_pyramid:
        box_predictor.class_prediction_bias_init = -4.6
    return config
