"""Which fields of the schema are honoured: each is in exactly one of three columns.

    HONOURED   the engine or a task does what the field says
    NO_EFFECT  accepted with a warning: nothing can depend on it
    REFUSED    an error when it is set to anything but its default

A message that is whole in one column takes one line. What makes a field honoured moves its line.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, Tuple, Union

from google.protobuf import message as message_lib

from estimator_lib import config_schema
from protos import cluster_pb2, pipeline_pb2, train_pb2

# In a column: every field of the message.
ALL = frozenset({'*'})

_CLUSTER = 'training over several devices or machines is not available yet'
_TWO_STAGES = 'two-stage detection is not available yet'
_KEYPOINTS = 'keypoint-based detection is not available'
_NO_BOXES = 'it is about boxes, masks or keypoints, and the model has none'
_READS_BY_ITSELF = 'the input pipeline chooses its own parallelism and buffers'
_QUEUES = 'there are no queues: the input pipeline feeds the network directly'
_PICTURES = 'what pictures are drawn on is kept as it is needed'


def _names(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


def _with_reason(reason: str, text: str) -> Dict[str, str]:
    return dict.fromkeys(text.split(), reason)


HONOURED: Mapping[str, FrozenSet[str]] = {
    'TrainEvalPipelineConfig': _names(
        'model train_config train_input_reader eval_config eval_input_reader export_config'
    ),
    'DetectionModel': _names('classification ssd'),
    'Classification': ALL,
    'Backbone': ALL,
    'TrainConfig': _names(
        'batch_size keep_checkpoint_every_n_hours optimizer gradient_clipping_by_norm '
        'fine_tune_checkpoint fine_tune_checkpoint_type fine_tune_checkpoint_version '
        'from_detection_checkpoint num_steps bias_grad_multiplier update_trainable_variables '
        'freeze_variables add_regularization_loss use_bfloat16 summarize_gradients checkpoints '
        'progress non_finite_loss_policy gradient_multipliers last_layer_gradient_multiplier '
        'random_seed early_stopping cluster checkpoint_exclude_scopes trainable_scopes '
        'ignore_missing_variables initialize_last_layer gradient_clipping '
        'data_augmentation_options load_all_detection_checkpoint_vars max_number_of_boxes'
    ),
    'CheckpointConfig': ALL,
    'ProgressConfig': ALL,
    'GradientMultiplier': ALL,
    'EarlyStopping': ALL,
    'ClusterConfig': _names('mode'),
    'InputReader': _names(
        'name label_map_path shuffle shuffle_buffer_size filenames_shuffle_buffer_size num_epochs '
        'sample_1_of_n_examples num_readers read_block_length num_parallel_batches '
        'num_prefetch_batches drop_remainder '
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
        'groundtruth_box_visualization_color skip_predictions_for_unlabeled_class'
    ),
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
    # Single-shot detection and its parts; what a part does not honour it refuses itself.
    **dict.fromkeys(
        (
            'Ssd SsdFeatureExtractor ImageResizer KeepAspectRatioResizer FixedShapeResizer '
            'ConditionalShapeResizer PadToMultipleResizer FeaturePyramidNetworks '
            'AnchorGenerator GridAnchorGenerator SsdAnchorGenerator MultiscaleAnchorGenerator '
            'FlexibleGridAnchorGenerator AnchorGrid BoxCoder FasterRcnnBoxCoder MeanStddevBoxCoder '
            'SquareBoxCoder KeypointBoxCoder Matcher ArgMaxMatcher BipartiteMatcher '
            'RegionSimilarityCalculator ThresholdedIouSimilarity '
            'Hyperparams Regularizer L1Regularizer L2Regularizer Initializer '
            'TruncatedNormalInitializer VarianceScalingInitializer RandomNormalInitializer '
            'BatchNorm BoxPredictor ConvolutionalBoxPredictor '
            'ConvolutionalBoxPredictor.BoxEncodingsClipRange '
            'WeightSharedConvolutionalBoxPredictor '
            'WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange '
            'Loss Loss.EqualizationLoss LocalizationLoss WeightedL2LocalizationLoss '
            'WeightedSmoothL1LocalizationLoss ClassificationLoss WeightedSigmoidClassificationLoss '
            'SigmoidFocalClassificationLoss WeightedSoftmaxClassificationLoss '
            'WeightedSoftmaxClassificationAgainstLogitsLoss BootstrappedSigmoidClassificationLoss '
            'HardExampleMiner RandomExampleSampler PostProcessing BatchNonMaxSuppression '
            'CalibrationConfig FunctionApproximation ClassIdFunctionApproximations '
            'SigmoidCalibration ClassIdSigmoidCalibrations TemperatureScalingCalibration XYPairs '
            'XYPairs.XYPair SigmoidParameters'
        ).split(),
        ALL,
    ),
    **dict.fromkeys(
        (
            'PreprocessingStep NormalizeImage RandomHorizontalFlip RandomVerticalFlip '
            'RandomRotation90 RandomPixelValueScale RandomImageScale RandomRGBtoGray '
            'RandomAdjustBrightness RandomAdjustContrast RandomAdjustHue RandomAdjustSaturation '
            'RandomDistortColor RandomJitterBoxes RandomCropImage RandomPadImage '
            'RandomAbsolutePadImage RandomCropPadImage RandomCropToAspectRatio RandomBlackPatches '
            'RandomResizeMethod ResizeImage SubtractChannelMean SSDRandomCrop '
            'SSDRandomCropOperation SSDRandomCropPad SSDRandomCropPadOperation '
            'SSDRandomCropFixedAspectRatio SSDRandomCropFixedAspectRatioOperation '
            'SSDRandomCropPadFixedAspectRatio SSDRandomCropPadFixedAspectRatioOperation '
            'ConvertClassLogitsToSoftmax RandomSelfConcatImage AutoAugmentImage '
            'DropLabelProbabilistically RemapLabels RandomJpegQuality '
            'RandomDownscaleToTargetPixels RandomPatchGaussian RandomSquareCropByScale '
            'RandomScaleCropAndPadToSquare AdjustGamma'
        ).split(),
        ALL,
    ),
}

# Honoured fields that one kind of model alone reads: a warning in the config of another.
ONLY_OF_DETECTION: Mapping[str, FrozenSet[str]] = {
    'TrainConfig': _names('max_number_of_boxes load_all_detection_checkpoint_vars'),
    'InputReader': _names(
        'load_instance_masks mask_type max_number_of_boxes num_keypoints use_display_name'
    ),
    'EvalConfig': _names(
        'include_metrics_per_category all_metrics_per_category super_categories '
        'recall_lower_bound recall_upper_bound min_score_threshold max_num_boxes_to_visualize '
        'skip_scores skip_labels visualize_groundtruth_boxes groundtruth_box_visualization_color '
        'skip_predictions_for_unlabeled_class'
    ),
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
        'startup_delay_steps': 'it delays the workers of a cluster, and there is none',
    },
    'InputReader': {
        **_with_reason(
            _READS_BY_ITSELF,
            'prefetch_size num_parallel_map_calls',
        ),
        **_with_reason(_QUEUES, 'queue_capacity min_after_dequeue'),
        **_with_reason(
            _KEYPOINTS,
            'keypoint_type_weight use_keypoint_label_map',
        ),
        'include_source_id': 'examples always carry their id',
    },
    'EvalConfig': {
        'keypoint_edge': _KEYPOINTS,
        'image_classes_field_map_empty_to_ones': 'an image without verified classes counts whole',
        'eval_interval_secs': 'eval_config.schedule says when a run evaluates',
        'max_evals': 'a run evaluates until its training ends',
        'save_graph': 'the graph is always in the events',
        'keep_image_id_for_visualization_export': (
            'exported pictures always have the id in their name'
        ),
        'retain_original_images': _PICTURES,
        'retain_original_image_additional_channels': 'images have three channels',
    },
    'KeypointEdge': _with_reason(_KEYPOINTS, 'start end'),
}

# Reasons by message, or by message and field.
REFUSED: Mapping[str, Union[str, Mapping[str, str]]] = {
    'TrainEvalPipelineConfig': {'graph_rewriter': 'quantisation is not available'},
    'GraphRewriter': 'quantisation is not available',
    'Quantization': 'quantisation is not available',
    'DetectionModel': {
        'faster_rcnn': _TWO_STAGES,
        'center_net': _KEYPOINTS,
        'experimental_model': 'experimental models are made in code; there are none here',
        'segmentation': 'segmentation is not available yet',
    },
    'ExperimentalModel': 'experimental models are made in code; there are none here',
    'Segmentation': 'segmentation is not available yet',
    'TrainConfig': {
        'merge_multiple_label_boxes': 'each box has one class',
        'use_multiclass_scores': 'the classes of boxes are their labels',
        'sync_replicas': _CLUSTER,
        'replicas_to_aggregate': _CLUSTER,
    },
    'ClusterConfig': _with_reason(
        _CLUSTER, 'num_clones clone_on_cpu partition_variables_over_bytes wait_timeout_seconds'
    ),
    'InputReader': {
        'num_additional_channels': 'images have three channels',
        'load_context_features': _TWO_STAGES,
        'load_context_image_ids': _TWO_STAGES,
        'load_multiclass_scores': 'the classes of boxes are their labels',
        **_with_reason(_KEYPOINTS, 'load_dense_pose load_track_id load_keypoint_depth_features'),
        'input_type': 'records are tf.train.Example; sequences are not read',
        'frame_index': 'records are tf.train.Example; sequences are not read',
        'external_input_reader': 'records are read from TFRecord files: tf_record_input_reader',
        'expand_labels_hierarchy': 'label hierarchies are not read',
    },
    'EvalConfig': {
        'eval_master': 'TF_CONFIG says what a process does in a cluster',
        'parameterized_metric': _KEYPOINTS,
        'eval_instance_masks': _TWO_STAGES,
        'export_path': 'metrics are written to model_dir/metrics.json',
        'ignore_groundtruth': 'an evaluation needs the labels of its examples',
        'force_no_resize': 'networks are evaluated at the size that they are trained at',
        'use_dummy_loss_in_eval': 'evaluation always reports the loss',
    },
    'ParameterizedMetric': _KEYPOINTS,
    'CocoKeypointMetrics': _KEYPOINTS,
    **_with_reason(
        _TWO_STAGES,
        'FasterRcnn FasterRcnnFeatureExtractor Context MaskRCNNBoxPredictor RfcnBoxPredictor '
        'Ssd.MaskHead',
    ),
    **_with_reason(
        _KEYPOINTS,
        'CenterNet CenterNetFeatureExtractor CenterNet.ObjectDetection '
        'CenterNet.ObjectCenterParams CenterNet.KeypointEstimation CenterNet.MaskEstimation '
        'CenterNet.DensePoseEstimation CenterNet.TrackEstimation '
        'CenterNet.TemporalOffsetEstimation CenterNet.DeepMACMaskEstimation '
        'CenterNet.PredictionHeadParams PenaltyReducedLogisticFocalLoss '
        'WeightedDiceClassificationLoss',
    ),
    'BidirectionalFeaturePyramidNetworks': 'there is no network that has it',
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the field, as a setting would name it: `eval_input_reader.0.label_map_path`.
        text: its value and what was expected, or why it is refused.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f'{self.path}: {self.text}'


@dataclasses.dataclass(frozen=True)
class Condition:
    """What an honoured field's value has to be.

    Attributes:
        accepts: whether the value, in its whole config, is honoured.
        reason: why another one is not, and what to do instead.
    """

    accepts: Callable[[Any, message_lib.Message], bool]
    reason: str


# Conditions on honoured fields, by `Message.field`.
CONDITIONS: Mapping[str, Condition] = {
    'TrainConfig.data_augmentation_options': Condition(
        lambda value, config: not config.model.HasField('classification'),
        'classification varies images by its preprocessing family '
        '(model.classification.preprocessing)',
    ),
    'EvalConfig.metrics_set': Condition(
        lambda value, config: not config.model.HasField('classification'),
        'classification has one set of metrics, which is always reported',
    ),
    'ClusterConfig.mode': Condition(
        lambda value, config: value == cluster_pb2.ClusterConfig.AUTO, _CLUSTER
    ),
    'TrainConfig.fine_tune_checkpoint_version': Condition(
        lambda value, config: value != train_pb2.V2,
        'checkpoints of TensorFlow 2 objects cannot be restored by variable name; use a '
        'checkpoint of TensorFlow 1',
    ),
}


def columns(message: str, field: str) -> List[str]:
    """The names of the columns that a field is in: exactly one, as a test holds."""
    found = []
    if HONOURED.get(message) == ALL or field in HONOURED.get(message, ()):
        found.append('HONOURED')
    if field in NO_EFFECT.get(message, ()):
        found.append('NO_EFFECT')
    if refusal(message, field):
        found.append('REFUSED')
    return found


def refusal(message: str, field: str) -> str:
    """Why a field is refused; empty when it is not."""
    reasons = REFUSED.get(message, {})
    return reasons if isinstance(reasons, str) else reasons.get(field, '')


def set_fields(message: message_lib.Message, path: str = '') -> Iterator[Tuple[str, str, Any, Any]]:
    """The fields that are set in a config, inside repeated fields, oneofs and maps too.

    Yields:
        (path, `Message` that has the field, the field's descriptor, value), a message before its
        fields. What is inside a message that is not honoured is left out: it falls with the whole.
    """
    name = config_schema.short_name(message.DESCRIPTOR)
    for field, value in message.ListFields():
        here = f'{path}.{field.name}' if path else field.name
        yield here, name, field, value
        if not config_schema.is_message(field) or columns(name, field.name) != ['HONOURED']:
            continue
        if config_schema.is_map(field):
            held = [(f'{here}.{key}', value[key]) for key in sorted(value)]
        elif config_schema.is_repeated(field):
            held = [(f'{here}.{index}', each) for index, each in enumerate(value)]
        else:
            held = [(here, value)]
        for inner, each in held:
            if isinstance(each, message_lib.Message):
                yield from set_fields(each, inner)


def is_default(field: Any, value: Any) -> bool:
    """Whether a field is set to what it would be unset."""
    if config_schema.is_message(field) or config_schema.is_repeated(field):
        return False
    return value == field.default_value


def refused(config: message_lib.Message) -> List[Problem]:
    """Each set field of a config that is refused.

    A refused field that is set to its default asks for nothing, and is let pass.
    """
    found = []
    for path, message, field, value in set_fields(config):
        reason = refusal(message, field.name)
        condition = CONDITIONS.get(f'{message}.{field.name}')
        if reason and not is_default(field, value):
            found.append(Problem(path, f'not supported: {reason}.'))
        elif condition is not None and not condition.accepts(value, config):
            found.append(Problem(path, f'not supported: {condition.reason}.'))
    return found


def without_effect(config: message_lib.Message) -> List[str]:
    """A sentence about each set field of a config that changes nothing."""
    detects = isinstance(config, pipeline_pb2.TrainEvalPipelineConfig) and config.model.HasField(
        'ssd'
    )
    sentences = []
    for path, message, field, _ in set_fields(config):
        reason = NO_EFFECT.get(message, {}).get(field.name)
        if not detects and field.name in ONLY_OF_DETECTION.get(message, ()):
            reason = _NO_BOXES
        if reason:
            sentences.append(f'{path} has no effect: {reason}.')
    return sentences
