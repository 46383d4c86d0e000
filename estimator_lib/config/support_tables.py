"""The table of fields: by message, which are honoured, which have no effect, which are refused.

See `config_fields` for what the columns mean. What makes a field honoured moves its line.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Mapping, Union

from estimator_lib.config import support_tables_detection as detection

# In a column: every field of the message.
ALL = detection.ALL

_QUANTISATION = (
    'quantisation-aware training is not available; train in float32, without graph_rewriter'
)
_EXPERIMENTS = 'experimental models are made in code; there are none here'
_NO_BOXES = 'it is about boxes, masks or keypoints, and the model has none'
_ONE_LABEL = 'the classes of boxes are their labels'
_SEQUENCES = 'records are tf.train.Example; sequences are not read'
_READS_BY_ITSELF = 'the input pipeline chooses its own parallelism and buffers'
_QUEUES = 'there are no queues: the input pipeline feeds the network directly'
_PICTURES = 'what pictures are drawn on is kept as it is needed'


def _names(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


def _with_reason(reason: str, text: str) -> Dict[str, str]:
    return dict.fromkeys(text.split(), reason)


# Messages with all of their fields.
_SEGMENTATION = _names(
    'Segmentation AtrousSpatialPyramidPooling DensePredictionCell DensePredictionCell.Branch '
    'SegmentationDecoder SegmentationPreprocessing SegmentationLoss InstanceCenterHead OffsetHead '
    'EdgeHead InstanceGrouping SegmentationEvaluation SegmentationExport'
)

HONOURED: Mapping[str, FrozenSet[str]] = {
    'TrainEvalPipelineConfig': _names(
        'model train_config train_input_reader eval_config eval_input_reader export_config'
    ),
    'DetectionModel': _names('classification segmentation ssd'),
    'Classification': ALL,
    'Backbone': ALL,
    **dict.fromkeys(_SEGMENTATION, ALL),
    'TrainConfig': _names(
        'batch_size keep_checkpoint_every_n_hours optimizer gradient_clipping_by_norm '
        'fine_tune_checkpoint fine_tune_checkpoint_type fine_tune_checkpoint_version '
        'from_detection_checkpoint num_steps bias_grad_multiplier update_trainable_variables '
        'freeze_variables add_regularization_loss use_bfloat16 summarize_gradients checkpoints '
        'progress non_finite_loss_policy gradient_multipliers last_layer_gradient_multiplier '
        'random_seed early_stopping cluster checkpoint_exclude_scopes trainable_scopes '
        'sync_replicas replicas_to_aggregate startup_delay_steps '
        'ignore_missing_variables initialize_last_layer gradient_clipping '
        'data_augmentation_options load_all_detection_checkpoint_vars max_number_of_boxes'
    ),
    'CheckpointConfig': ALL,
    'ProgressConfig': ALL,
    'GradientMultiplier': ALL,
    'EarlyStopping': ALL,
    'ClusterConfig': ALL,
    'InputReader': _names(
        'name label_map_path shuffle shuffle_buffer_size filenames_shuffle_buffer_size num_epochs '
        'sample_1_of_n_examples num_readers read_block_length num_parallel_batches '
        'num_prefetch_batches drop_remainder input_type '
        'tf_record_input_reader sample_from_datasets_weights corrupt_record_policy '
        'examples_per_batch cache load_instance_masks mask_type max_number_of_boxes '
        'num_keypoints use_display_name'
    ),
    'TFRecordInputReader': ALL,
    'EvalConfig': _names(
        'batch_size num_visualizations num_examples visualization_export_dir use_moving_averages '
        'schedule metrics_set include_metrics_per_category all_metrics_per_category '
        'super_categories recall_lower_bound recall_upper_bound min_score_threshold '
        'max_num_boxes_to_visualize skip_scores skip_labels visualize_groundtruth_boxes '
        'groundtruth_box_visualization_color skip_predictions_for_unlabeled_class '
        'image_classes_field_map_empty_to_ones keypoint_edge'
    ),
    'KeypointEdge': ALL,
    'EvaluationSchedule': ALL,
    'ExportConfig': ALL,
    'BestExport': ALL,
    'LatestExport': ALL,
    'FinalExport': ALL,
    'Optimizer': ALL,
    'RMSPropOptimizer': ALL,
    'MomentumOptimizer': ALL,
    'AdamOptimizer': ALL,
    'SgdOptimizer': ALL,
    'AdagradOptimizer': ALL,
    'AdadeltaOptimizer': ALL,
    'FtrlOptimizer': ALL,
    'LearningRate': ALL,
    'ConstantLearningRate': ALL,
    'ExponentialDecayLearningRate': ALL,
    'ExponentialDecayWithWarmupLearningRate': ALL,
    'ManualStepLearningRate': ALL,
    'ManualStepLearningRate.LearningRateSchedule': ALL,
    'CosineDecayLearningRate': ALL,
    'PolynomialDecayLearningRate': ALL,
    'DeepLabLearningRate': ALL,
    **detection.HONOURED,
}

# Honoured fields that detectors alone read, and why they have no effect on another model.
ONLY_OF_DETECTION: Mapping[str, Mapping[str, str]] = {
    'TrainConfig': {
        'max_number_of_boxes': _NO_BOXES,
        'load_all_detection_checkpoint_vars': (
            'a classifier takes what it has in common with a checkpoint, which is the backbone'
        ),
    },
    'InputReader': {
        **_with_reason(
            _NO_BOXES, 'load_instance_masks mask_type max_number_of_boxes num_keypoints'
        ),
        'use_display_name': 'pictures show the display name of a class where it has one',
    },
    'EvalConfig': {
        **_with_reason(
            _NO_BOXES,
            'all_metrics_per_category recall_lower_bound recall_upper_bound min_score_threshold '
            'max_num_boxes_to_visualize skip_scores skip_labels visualize_groundtruth_boxes '
            'groundtruth_box_visualization_color skip_predictions_for_unlabeled_class '
            'image_classes_field_map_empty_to_ones keypoint_edge',
        ),
        'include_metrics_per_category': 'the accuracy of each class is always reported',
    },
}

# Reasons by message and field.
NO_EFFECT: Mapping[str, Mapping[str, str]] = {
    'TrainConfig': {
        **_with_reason(
            _QUEUES, 'batch_queue_capacity num_batch_queue_threads prefetch_queue_capacity'
        ),
        'unpad_groundtruth_tensors': 'padding never counts, and is cut off where that is faster',
        'retain_original_images': _PICTURES,
        'run_fine_tune_checkpoint_dummy_computation': (
            'it is for checkpoints of TensorFlow 2; these are restored by variable name'
        ),
    },
    'InputReader': {
        **_with_reason(_READS_BY_ITSELF, 'prefetch_size num_parallel_map_calls'),
        **_with_reason(_QUEUES, 'queue_capacity min_after_dequeue'),
        'frame_index': _SEQUENCES,
        'keypoint_type_weight': 'no model here learns keypoints',
        'include_source_id': 'examples always carry their id',
    },
    'EvalConfig': {
        'eval_interval_secs': 'eval_config.schedule says when a run evaluates',
        'max_evals': 'a run evaluates until its training ends',
        'save_graph': 'the graph is always in the events',
        'keep_image_id_for_visualization_export': (
            'exported pictures always have the id in their name'
        ),
        'retain_original_images': _PICTURES,
        'retain_original_image_additional_channels': 'images have three channels',
    },
    **detection.NO_EFFECT,
}

# Reasons by message, or by message and field.
REFUSED: Mapping[str, Union[str, Mapping[str, str]]] = {
    'TrainEvalPipelineConfig': {'graph_rewriter': _QUANTISATION},
    'GraphRewriter': _QUANTISATION,
    'Quantization': _QUANTISATION,
    'DetectionModel': {
        'faster_rcnn': detection.TWO_STAGES,
        'center_net': detection.KEYPOINTS,
        'experimental_model': _EXPERIMENTS,
    },
    'ExperimentalModel': _EXPERIMENTS,
    'TrainConfig': {
        'merge_multiple_label_boxes': 'each box has one class',
        'use_multiclass_scores': _ONE_LABEL,
    },
    'InputReader': {
        'num_additional_channels': 'images have three channels',
        'load_context_features': detection.TWO_STAGES,
        'load_context_image_ids': detection.TWO_STAGES,
        'load_multiclass_scores': _ONE_LABEL,
        'use_keypoint_label_map': 'keypoints are read by their number, not by their name',
        **_with_reason(
            detection.KEYPOINTS, 'load_dense_pose load_track_id load_keypoint_depth_features'
        ),
        'external_input_reader': 'records are read from TFRecord files: tf_record_input_reader',
        'expand_labels_hierarchy': 'label hierarchies are not read',
    },
    'EvalConfig': {
        'eval_master': 'TF_CONFIG says what a process does in a cluster',
        'parameterized_metric': detection.KEYPOINTS,
        'eval_instance_masks': detection.MASKS,
        'export_path': 'metrics are written to model_dir/metrics.json',
        'ignore_groundtruth': 'an evaluation needs the labels of its examples',
        'force_no_resize': 'networks are evaluated at the size that they are trained at',
        'use_dummy_loss_in_eval': 'evaluation always reports the loss',
    },
    'ParameterizedMetric': detection.KEYPOINTS,
    'CocoKeypointMetrics': detection.KEYPOINTS,
    **detection.REFUSED,
}
