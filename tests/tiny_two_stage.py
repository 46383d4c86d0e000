"""A two-stage detector small enough for end-to-end tests, on the squares of `tiny_detection`."""

from tests import tiny_detection

MODEL = """
model {{
  faster_rcnn {{
    number_of_stages: {stages}
    num_classes: 2
    image_resizer {{ fixed_shape_resizer {{ height: 64 width: 64 }} }}
    feature_extractor {{ type: "faster_rcnn_mobilenet_v1_025" batch_norm_trainable: true }}
    first_stage_anchor_generator {{
      grid_anchor_generator {{
        height: 20 width: 20 height_stride: 16 width_stride: 16 height_offset: 8 width_offset: 8
        scales: 0.7 scales: 1.0 aspect_ratios: 1.0
      }}
    }}
    clip_anchors_to_image: true
    first_stage_box_predictor_conv_hyperparams {{
      regularizer {{ l2_regularizer {{ weight: 0.0 }} }}
      initializer {{ truncated_normal_initializer {{ stddev: 0.03 }} }}
    }}
    first_stage_box_predictor_depth: 32
    first_stage_minibatch_size: 32
    first_stage_max_proposals: 8
    initial_crop_size: 7
    maxpool_kernel_size: 1
    maxpool_stride: 1
    second_stage_box_predictor {{
      mask_rcnn_box_predictor {{
        fc_hyperparams {{
          op: FC
          regularizer {{ l2_regularizer {{ weight: 0.0 }} }}
          initializer {{ variance_scaling_initializer {{ uniform: true mode: FAN_AVG }} }}
        }}
      }}
    }}
    second_stage_batch_size: 8
    second_stage_balance_fraction: 0.5
    second_stage_post_processing {{
      batch_non_max_suppression {{
        score_threshold: 0.01 iou_threshold: 0.5
        max_detections_per_class: 5 max_total_detections: 6
      }}
      score_converter: SOFTMAX
    }}
  }}
}}
"""

_BOX_HEAD = MODEL[MODEL.index('mask_rcnn_box_predictor') : MODEL.index('second_stage_batch_size')]
# The same with position-sensitive heads (R-FCN).
POSITION_SENSITIVE = MODEL.replace(
    _BOX_HEAD,
    """rfcn_box_predictor {{
        conv_hyperparams {{
          activation: RELU
          initializer {{ truncated_normal_initializer {{ stddev: 0.03 }} }}
        }}
        depth: 32 num_spatial_bins_height: 2 num_spatial_bins_width: 2 crop_height: 4 crop_width: 4
      }}
    }}
    """,
)


def _with_masks(model):
    return model.replace(
        'fc_hyperparams',
        """predict_instance_masks: true
        mask_height: 7
        mask_width: 9
        mask_prediction_conv_depth: 8
        conv_hyperparams {{
          initializer {{ truncated_normal_initializer {{ stddev: 0.03 }} }}
        }}
        fc_hyperparams""",
    )


def _with_keypoints(model):
    return model.replace(
        'fc_hyperparams',
        """predict_keypoints: true
        keypoint_head {{
          num_keypoints: 3 num_conv_layers: 2 depth: 8
          conv_hyperparams {{
            activation: RELU
            initializer {{ truncated_normal_initializer {{ stddev: 0.1 }} }}
          }}
        }}
        fc_hyperparams""",
    )


# The same with keypoints: stages=3.
KEYPOINTS = _with_keypoints(MODEL)
# The same with masks, and all outputs that there are: stages=3.
MASKS = _with_masks(MODEL).replace(
    'clip_anchors_to_image',
    'output_reframed_masks: true output_final_box_features: true clip_anchors_to_image',
)
# The same with attention to features of other images (Context R-CNN).
CONTEXT = MODEL.replace(
    'second_stage_batch_size',
    """context_config {{
      max_num_context_features: 3 context_feature_length: 5
      attention_bottleneck_dimension: 8 attention_temperature: 0.5
    }}
    second_stage_batch_size""",
)

_ONE_MAP = MODEL[MODEL.index('feature_extractor') : MODEL.index('clip_anchors_to_image')]
# The same with a feature pyramid of four levels.
PYRAMID = MODEL.replace(
    _ONE_MAP,
    """feature_extractor {{
      type: "faster_rcnn_resnet50_fpn_keras"
      batch_norm_trainable: true
      fpn {{ min_level: 3 max_level: 6 additional_layer_depth: 8 }}
      conv_hyperparams {{
        activation: RELU_6
        regularizer {{ l2_regularizer {{ weight: 0.0004 }} }}
        initializer {{ truncated_normal_initializer {{ stddev: 0.03 }} }}
        batch_norm {{ scale: true decay: 0.9 epsilon: 0.001 }}
      }}
      override_base_feature_extractor_hyperparams: true
    }}
    first_stage_anchor_generator {{
      multiscale_anchor_generator {{
        min_level: 3 max_level: 6 anchor_scale: 2 aspect_ratios: 1.0 aspect_ratios: 2.0
        scales_per_octave: 1 normalize_coordinates: false
      }}
    }}
    """,
)
# The same with masks, of aligned crops: stages=3.
PYRAMID_MASKS = _with_masks(PYRAMID).replace(
    'initial_crop_size', 'roi_align {{ }} instance_crop_size: 6 initial_crop_size'
)
# The same with masks and keypoints, on a smaller network, with any score: stages=3.
INSTANCES = (
    _with_keypoints(PYRAMID_MASKS)
    .replace('resnet50_fpn', 'mobilenet_v1_025_fpn')
    .replace('max_proposals: 8', 'max_proposals: 64')
    .replace('second_stage_batch_size: 8', 'second_stage_batch_size: 16')
    .replace('score_threshold: 0.01', 'score_threshold: 0.0')
)

KEYPOINT_LABELS = ('near', 'far', 'center')


def config_text(folder, stages=2):
    model = MASKS if stages == 3 else MODEL
    text = model.format(stages=stages) + tiny_detection.REST.format(folder=folder)
    if stages == 3:
        text = text.replace(
            'label_map_path', 'load_instance_masks: true mask_type: PNG_MASKS label_map_path'
        ).replace('eval_config {', 'eval_config { eval_instance_masks: true')
    return text


def write_all(folder, stages=2):
    """Write records, label map and pipeline config to a folder; return the config's path."""
    path = tiny_detection.write_all(folder)
    path.write_text(config_text(folder, stages))
    return path


def write_instances(folder):
    """Write what `write_all` does for `INSTANCES`; one of the classes has named keypoints."""
    path = tiny_detection.write_all(folder)
    named = ''.join(
        f'keypoints {{ id: {number} label: "{label}" }}'
        for number, label in enumerate(KEYPOINT_LABELS)
    )
    (folder / 'label_map.pbtxt').write_text(
        f'item {{ id: 1 name: "green" {named} }} item {{ id: 2 name: "blue" }}'
    )
    sigmas = ''.join(
        f'keypoint_label_to_sigmas {{ key: "{label}" value: 0.1 }}' for label in KEYPOINT_LABELS
    )
    metrics = f"""eval_config {{
      analyze: false eval_instance_masks: true metrics_set: "coco_mask_metrics"
      parameterized_metric {{ coco_keypoint_metrics {{ class_label: "green" {sigmas} }} }}
      keypoint_edge {{ start: 0 end: 2 }} keypoint_edge {{ start: 2 end: 1 }}"""
    text = INSTANCES.format(stages=3) + tiny_detection.REST.format(folder=folder)
    text = text.replace(
        'label_map_path',
        'load_instance_masks: true mask_type: PNG_MASKS num_keypoints: 3 label_map_path',
    ).replace('eval_config {', metrics)
    # Keypoints lack a permutation for mirrored objects; nothing is exported.
    text = text.partition('export_config')[0].replace('learning_rate: 0.01', 'learning_rate: 0.003')
    path.write_text(text.replace('random_horizontal_flip { }', 'random_adjust_brightness { }'))
    return path
