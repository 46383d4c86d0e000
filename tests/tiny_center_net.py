"""A CenterNet small enough for end-to-end tests on the squares of `tiny_detection`."""

from tests import tiny_detection

MODEL = """
model {
  center_net {
    num_classes: 2
    feature_extractor {
      type: "hourglass_10" batch_norm_decay: 0.9
      channel_means: [64, 64, 64] channel_stds: [64, 64, 64]
    }
    image_resizer {
      keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 pad_to_max_dimension: true }
    }
    object_detection_task {
      localization_loss { l1_localization_loss { } }
      scale_head_params { num_filters: 16 }
      offset_head_params { num_filters: 16 }
    }
    object_center_params {
      classification_loss { penalty_reduced_logistic_focal_loss { alpha: 2.0 beta: 4.0 } }
      max_box_predictions: 10
      center_head_params { num_filters: 16 }
    }
    post_processing {
      batch_non_max_suppression {
        score_threshold: 0.01 iou_threshold: 0.5
        max_detections_per_class: 10 max_total_detections: 10
      }
    }
  }
}
"""


def config_text(folder):
    rest = tiny_detection.REST.format(folder=folder)
    return MODEL + rest.replace('num_steps: 100', 'num_steps: 60')


def write_all(folder):
    """Write records, label map and pipeline config to a folder; return the config's path."""
    path = tiny_detection.write_all(folder)
    path.write_text(config_text(folder))
    return path
