"""Rules of config fields that several tasks have in common."""

from __future__ import annotations

from typing import Iterator

from estimator_lib.config.rules import (
    ALL,
    AT_LEAST_0,
    AT_LEAST_1,
    CHANNELS,
    DECAY,
    FEW,
    POSITIVE,
    POSITIVE_FRACTION,
    SCALE,
    Condition,
    ConfigRules,
    PipelineConfig,
    Problem,
    because,
    names,
    or_0,
    ranges,
)
from protos import cluster_pb2, input_reader_pb2

_NO_SEQUENCES = 'sequences of images are for detection; records are tf.train.Example'
_NO_CONTEXT = 'features of other images are for model.faster_rcnn.context_config'
MASKS = 'masks need a two-stage model'
_ONE_IMAGE = 'objects have no tracks, depth or surface here'
_NO_BOXES = 'it is about boxes, masks or keypoints, and the model has none'
_ONE_LABEL = 'the classes of boxes are their labels'
_THREE_CHANNELS = 'images have three channels'

# Kinds of `model` in the schema that there is no task for, and why.
UNAVAILABLE = {
    'experimental_model': 'experimental models are made in code; there are none here',
}

# What no task means anything by.
EVERY_TASK = ConfigRules(
    ignored={
        'TrainConfig': {
            'unpad_groundtruth_tensors': 'padding never counts, and is cut off where that is faster'
        },
        'InputReader': {'keypoint_type_weight': 'as published no loss of keypoints looks at it'},
        'EvalConfig': {'retain_original_image_additional_channels': _THREE_CHANNELS},
    },
    unsupported={
        'DetectionModel': UNAVAILABLE,
        'TrainConfig': {
            'merge_multiple_label_boxes': 'each box has one class',
            'use_multiclass_scores': _ONE_LABEL,
        },
        'InputReader': {
            'num_additional_channels': _THREE_CHANNELS,
            'load_context_image_ids': 'nothing depends on which images features are from',
            'load_multiclass_scores': _ONE_LABEL,
            **because(_ONE_IMAGE, 'load_dense_pose load_track_id load_keypoint_depth_features'),
            'expand_labels_hierarchy': 'label hierarchies are not read',
        },
        'EvalConfig': {
            'force_no_resize': 'networks are evaluated at the size that they are trained at',
        },
    },
)


def _quantized(config: PipelineConfig) -> Iterator[Problem]:
    """What does not go together with quantization-aware training."""
    if not config.graph_rewriter.HasField('quantization'):
        return
    train_config = config.train_config
    where = 'graph_rewriter.quantization'
    if train_config.use_bfloat16:
        yield Problem(where, 'it excludes train_config.use_bfloat16; expected false.')
    cluster = train_config.cluster
    if cluster.mode == cluster_pb2.ClusterConfig.CLONES and cluster.num_clones != 1:
        yield Problem(
            where,
            'the copies of the network of train_config.cluster.mode: CLONES would have one range '
            'between them; expected MIRRORED, whose replicas have ranges of their own.',
        )


def _doubts_of_quantized(config: PipelineConfig) -> Iterator[str]:
    if not config.graph_rewriter.HasField('quantization'):
        return
    asked = config.graph_rewriter.quantization
    if asked.symmetric:
        yield (
            'graph_rewriter.quantization.symmetric: honored here; the published system read it '
            'and trained with ranges that are not symmetric.'
        )
    steps = config.train_config.num_steps
    if 0 < steps < asked.delay:
        yield (
            f'graph_rewriter.quantization.delay: {asked.delay} is more than '
            f'train_config.num_steps, {steps}: training will end before it quantizes.'
        )
    elif asked.delay > 1:
        yield (
            f'graph_rewriter.quantization.delay: training does not quantize before step '
            f'{asked.delay}, evaluations always do: metrics of the steps before are lower than '
            'those of the network as it is trained.'
        )


_EIGHT_BITS = Condition(
    lambda value, config: value == 8, 'ranges have 8 bits, as in the published system'
)

# Quantization-aware training, for the tasks whose networks are quantized.
QUANTIZED = ConfigRules(
    supported={
        'TrainEvalPipelineConfig': names('graph_rewriter'),
        'GraphRewriter': ALL,
        'Quantization': ALL,
    },
    conditions={
        'Quantization.weight_bits': _EIGHT_BITS,
        'Quantization.activation_bits': _EIGHT_BITS,
    },
    ranges=ranges(AT_LEAST_0, 'Quantization.delay Quantization.freeze_bn_delay'),
    problems=(_quantized,),
    doubts=(_doubts_of_quantized,),
)

# What tasks without boxes leave to those with.
NO_BOXES = ConfigRules(
    conditions={
        'InputReader.input_type': Condition(
            lambda value, config: value != input_reader_pb2.TF_SEQUENCE_EXAMPLE, _NO_SEQUENCES
        )
    },
    ignored={
        'TrainConfig': {
            'max_number_of_boxes': _NO_BOXES,
            'load_all_detection_checkpoint_vars': (
                'a classifier takes what it has in common with a checkpoint, which is the backbone'
            ),
        },
        'InputReader': {
            'frame_index': _NO_SEQUENCES,
            'load_context_features': _NO_CONTEXT,
            **because(
                _NO_BOXES,
                'ignored_boxes load_instance_masks mask_type max_number_of_boxes num_keypoints '
                'use_keypoint_label_map',
            ),
            'use_display_name': 'pictures show the display name of a class where it has one',
        },
        'EvalConfig': {
            **because(
                _NO_BOXES,
                'all_metrics_per_category recall_lower_bound recall_upper_bound '
                'min_score_threshold max_num_boxes_to_visualize skip_scores skip_labels '
                'visualize_groundtruth_boxes groundtruth_box_visualization_color '
                'skip_predictions_for_unlabeled_class image_classes_field_map_empty_to_ones '
                'keypoint_edge eval_instance_masks parameterized_metric',
            ),
            'include_metrics_per_category': 'the accuracy of each class is always reported',
        },
    },
    unsupported={
        'TrainConfig': {
            'data_augmentation_options': (
                'images are varied by the preprocessing of the model '
                '(model.classification.preprocessing, a family; model.segmentation.preprocessing, '
                'its fields)'
            )
        },
        'EvalConfig': {
            'metrics_set': (
                'classification and segmentation have one set of metrics each, which is always '
                'reported'
            ),
            'super_categories': (
                'classification and segmentation have no metrics over groups of classes'
            ),
        },
    },
)

# The message that names a backbone.
BACKBONE = ConfigRules(
    supported={'Backbone': ALL},
    ranges={
        **ranges(CHANNELS, 'Backbone.min_depth Backbone.channel_divisor Backbone.stem_filters'),
        **ranges(FEW, 'Backbone.multi_grid'),
        **ranges(or_0(FEW), 'Backbone.output_stride'),
        'Backbone.drop_path_steps': AT_LEAST_1,
        'Backbone.drop_path_keep_prob': POSITIVE_FRACTION,
        'Backbone.weight_decay': AT_LEAST_0,
        'Backbone.depth_multiplier': SCALE,
        'Backbone.batch_norm_epsilon': POSITIVE,
        'Backbone.batch_norm_decay': DECAY,
    },
)
