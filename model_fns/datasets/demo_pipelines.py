"""The pipelines of the embedded demo, but for the paths of their data."""

# About a minute on 2 cores, to 97 % accuracy.
CLASSIFICATION = """
model {
  classification {
    num_classes: 8
    labels_offset: 1
    image_height: 64
    image_width: 64
    preprocessing: "cifarnet"
    backbone { name: "mobilenet_v1" depth_multiplier: 0.25 batch_norm_decay: 0.97 }
    dropout_keep_prob: 1.0
  }
}
train_config {
  batch_size: 32
  num_steps: 1500
  optimizer {
    momentum_optimizer {
      learning_rate {
        cosine_decay_learning_rate {
          learning_rate_base: 0.1
          warmup_learning_rate: 0.001
          warmup_steps: 100
        }
      }
    }
    use_moving_average: false
  }
  progress { every_n_steps: 50 }
  checkpoints { save_every_n_steps: 500 }
}
train_input_reader { cache: RECORDS }
eval_config { batch_size: 100 }
export_config { best { metric: "accuracy" } }
"""

# About 90 seconds on 2 cores, to 0.95 mAP@.50IOU: `python -m benchmarks.accuracy.demo` holds it to
# that.
DETECTION = """
model {
  ssd {
    num_classes: 8
    inplace_batchnorm_update: true
    image_resizer { fixed_shape_resizer { height: 128 width: 128 } }
    feature_extractor {
      type: "ssd_mobilenet_v1_fpn"
      depth_multiplier: 0.25
      min_depth: 16
      override_base_feature_extractor_hyperparams: true
      fpn { min_level: 3 max_level: 4 additional_layer_depth: 64 }
      conv_hyperparams {
        activation: RELU_6
        regularizer { l2_regularizer { weight: 0.00004 } }
        initializer { variance_scaling_initializer { } }
        batch_norm { scale: true decay: 0.97 epsilon: 0.001 }
      }
    }
    box_predictor {
      weight_shared_convolutional_box_predictor {
        depth: 64
        num_layers_before_predictor: 1
        class_prediction_bias_init: -3.0
        conv_hyperparams {
          activation: RELU_6
          regularizer { l2_regularizer { weight: 0.00004 } }
          initializer { random_normal_initializer { stddev: 0.03 } }
          batch_norm { scale: true decay: 0.97 epsilon: 0.001 }
        }
      }
    }
    anchor_generator {
      multiscale_anchor_generator {
        min_level: 3 max_level: 4 anchor_scale: 4.0
        aspect_ratios: 1.0
        scales_per_octave: 1
      }
    }
    box_coder { faster_rcnn_box_coder { } }
    # With two anchors a cell, thresholds and smooth L1, 800 steps reached 0.83 in place of 0.93.
    matcher { atss_matcher { } }
    similarity_calculator { iou_similarity { } }
    encode_background_as_zeros: true
    normalize_loss_by_num_matches: true
    loss {
      classification_loss { quality_focal { } }
      localization_loss { weighted_giou { } }
      localization_weight: 2.0
    }
    post_processing {
      batch_non_max_suppression {
        score_threshold: 0.01
        iou_threshold: 0.5
        max_detections_per_class: 20
        max_total_detections: 20
      }
      score_converter: SIGMOID
    }
  }
}
train_config {
  batch_size: 16
  num_steps: 1000
  # A shape is the same shape from all sides.
  data_augmentation_options { random_horizontal_flip { } }
  data_augmentation_options { random_vertical_flip { } }
  data_augmentation_options { random_rotation90 { } }
  optimizer {
    adam_optimizer {
      epsilon: 1e-7
      learning_rate {
        cosine_decay_learning_rate {
          learning_rate_base: 0.012 warmup_learning_rate: 0.0005 warmup_steps: 50
        }
      }
    }
    use_moving_average: false
  }
  progress { every_n_steps: 50 }
  checkpoints { save_every_n_steps: 500 }
}
train_input_reader { cache: RECORDS }
eval_config { batch_size: 20 num_visualizations: 8 }
export_config { best { metric: "DetectionBoxes_Precision/mAP@.50IOU" } }
"""
