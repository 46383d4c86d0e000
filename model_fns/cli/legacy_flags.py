"""Replacements for the flags of other trainers.

A job script of the TF1 Object Detection API, of TF-Slim's image classification or of DeepLab gets
one line with the replacement for each of its flags.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

_TITLE = 'flags of another program; expected instead:'


def answer(arguments: Sequence[str]) -> Optional[str]:
    """Return the replacements for the flags of other trainers.

    Args:
        arguments: the command line, without the program.

    Returns:
        A line for each such flag; None where there is none.
    """
    answers: Dict[str, str] = {}
    for flag, name, value in _flags(arguments):
        answers.setdefault(name, f'  {flag}: {_replacement(name, value)}')
    return '\n'.join([_TITLE, *answers.values()]) if answers else None


def _flags(arguments: Sequence[str]) -> List[Tuple[str, str, str]]:
    """Find the flags of other programs on a command line: (as written, name, value or empty)."""
    flags = []
    for place, argument in enumerate(arguments):
        if argument == '--':
            break
        if not argument.startswith('-'):
            continue
        name, _, value = argument.lstrip('-').partition('=')
        following = arguments[place + 1] if place + 1 < len(arguments) else '-'
        if '=' not in argument and not following.startswith('-'):
            value = following
        if name not in _KNOWN and name.startswith('no') and name[2:] in _KNOWN:
            name, value = name[2:], 'false'
        if name in _KNOWN and (name not in _NUMBERS or value == 'false' or not value.isalpha()):
            flags.append((argument, name, value))
    return flags


def _replacement(name: str, value: str) -> str:
    """Return the replacement for a flag, with its value if it has one."""
    if name in _SAYINGS:
        return _SAYINGS[name]
    if name in _FLAGS:
        return f'{_FLAGS[name]}={value or "..."}'
    fields = _FIELDS[name].split()
    value = _VALUES.get(name, {}).get(value, value)
    if len(fields) > 1 or fields[0].endswith('[]'):
        value = ''
    settings = [
        f'--set {field[:-2]}=[...]' if field.endswith('[]') else f'--set {field}={value or "..."}'
        for field in fields
    ]
    return f'{" ".join(settings)} (or the same in the config)'


# Flags of this program that mean the same.
_FLAGS: Mapping[str, str] = {
    'train_dir': '--model_dir',
    'train_logdir': '--model_dir',
    'eval_on_train_data': '--eval_training_data',
    'max_number_of_steps': '--num_train_steps',
    'training_number_of_steps': '--num_train_steps',
    'trained_checkpoint_prefix': '--mode=export --checkpoint_path',
    'trained_checkpoint_dir': '--mode=export --checkpoint_path',
    'output_directory': '--mode=export --export_dir',
    'export_path': '--mode=export --export_dir',
    'output_file': '--mode=export --export_dir',
    'vis_logdir': '--mode=predict --saved_model_dir=... --images=... --output_dir',
}

_CLASSIFIER = 'model.classification'
_SEGMENTER = 'model.segmentation'
_OPTIMIZER = 'train_config.optimizer'
_DEEPLAB_RATE = f'{_OPTIMIZER}.momentum_optimizer.learning_rate.deeplab_learning_rate'
_SUPPRESSION = 'model.ssd.post_processing.batch_non_max_suppression'

# Fields of the config that mean the same; several where one value became several, or where several
# programs have the flag. `[]`: a repeated field.
_FIELDS: Mapping[str, str] = {
    # TF-Slim.
    'adadelta_rho': f'{_OPTIMIZER}.adadelta_optimizer.rho',
    'adagrad_initial_accumulator_value': (
        f'{_OPTIMIZER}.adagrad_optimizer.initial_accumulator_value'
    ),
    'adam_beta1': f'{_OPTIMIZER}.adam_optimizer.beta1',
    'adam_beta2': f'{_OPTIMIZER}.adam_optimizer.beta2',
    'batch_size': 'train_config.batch_size eval_config.batch_size',
    'checkpoint_exclude_scopes': 'train_config.checkpoint_exclude_scopes[]',
    'clone_on_cpu': 'train_config.cluster.clone_on_cpu',
    'eval_image_size': f'{_CLASSIFIER}.image_height {_CLASSIFIER}.image_width',
    'ftrl_initial_accumulator_value': f'{_OPTIMIZER}.ftrl_optimizer.initial_accumulator_value',
    'ftrl_l1': f'{_OPTIMIZER}.ftrl_optimizer.l1',
    'ftrl_l2': f'{_OPTIMIZER}.ftrl_optimizer.l2',
    'ftrl_learning_rate_power': f'{_OPTIMIZER}.ftrl_optimizer.learning_rate_power',
    'ignore_missing_vars': 'train_config.ignore_missing_variables',
    'image_size': f'{_CLASSIFIER}.image_height {_CLASSIFIER}.image_width',
    'label_smoothing': f'{_CLASSIFIER}.label_smoothing',
    'labels_offset': f'{_CLASSIFIER}.labels_offset',
    'log_every_n_steps': 'train_config.progress.every_n_steps',
    'model_name': f'{_CLASSIFIER}.backbone.name',
    'momentum': f'{_OPTIMIZER}.momentum_optimizer.momentum_optimizer_value',
    'moving_average_decay': f'{_OPTIMIZER}.moving_average_decay',
    'num_classes': f'{_CLASSIFIER}.num_classes {_SEGMENTER}.num_classes',
    'num_clones': 'train_config.cluster.num_clones',
    'num_readers': 'train_input_reader.num_readers',
    'opt_epsilon': (
        f'{_OPTIMIZER}.rms_prop_optimizer.epsilon {_OPTIMIZER}.adam_optimizer.epsilon '
        f'{_OPTIMIZER}.adadelta_optimizer.epsilon'
    ),
    'preprocessing_name': f'{_CLASSIFIER}.preprocessing',
    'quantize_delay': 'graph_rewriter.quantization.delay',
    'replicas_to_aggregate': 'train_config.replicas_to_aggregate',
    'rmsprop_decay': f'{_OPTIMIZER}.rms_prop_optimizer.decay',
    'rmsprop_momentum': f'{_OPTIMIZER}.rms_prop_optimizer.momentum_optimizer_value',
    'save_interval_secs': 'train_config.checkpoints.save_every_n_seconds',
    'sync_replicas': 'train_config.sync_replicas',
    'train_image_size': f'{_CLASSIFIER}.image_height {_CLASSIFIER}.image_width',
    'trainable_scopes': 'train_config.trainable_scopes[]',
    'use_grayscale': f'{_CLASSIFIER}.use_grayscale',
    'weight_decay': f'{_CLASSIFIER}.backbone.weight_decay {_SEGMENTER}.backbone.weight_decay',
    # DeepLab.
    'adam_epsilon': f'{_OPTIMIZER}.adam_optimizer.epsilon',
    'adam_learning_rate': (
        f'{_OPTIMIZER}.adam_optimizer.learning_rate.constant_learning_rate.learning_rate'
    ),
    'add_flipped_images': (
        f'{_SEGMENTER}.evaluation.add_flipped_images {_SEGMENTER}.export.add_flipped_images'
    ),
    'add_image_level_feature': f'{_SEGMENTER}.aspp.image_level_feature',
    'also_save_raw_predictions': f'{_SEGMENTER}.evaluation.save_raw_predictions',
    'aspp_convs_filters': f'{_SEGMENTER}.aspp.num_filters',
    'aspp_with_batch_norm': f'{_SEGMENTER}.aspp.batch_norm',
    'aspp_with_concat_projection': f'{_SEGMENTER}.aspp.concat_projection',
    'aspp_with_separable_conv': f'{_SEGMENTER}.aspp.separable_convolution',
    'aspp_with_squeeze_and_excitation': f'{_SEGMENTER}.aspp.squeeze_and_excitation',
    'atrous_rates': f'{_SEGMENTER}.aspp.atrous_rates[]',
    'base_learning_rate': f'{_DEEPLAB_RATE}.base_learning_rate',
    'batch_norm_decay': (
        f'{_SEGMENTER}.backbone.batch_norm_decay {_SEGMENTER}.aspp.batch_norm_decay'
    ),
    'crop_size': f'{_SEGMENTER}.crop_height {_SEGMENTER}.crop_width',
    'dataset': f'{_SEGMENTER}.dataset',
    'decay_steps': f'{_DEEPLAB_RATE}.decay_steps',
    'decoder_filters': f'{_SEGMENTER}.decoder.num_filters',
    'decoder_output_is_logits': f'{_SEGMENTER}.decoder.output_is_logits',
    'decoder_output_stride': f'{_SEGMENTER}.decoder.output_strides[]',
    'decoder_use_separable_conv': f'{_SEGMENTER}.decoder.separable_convolution',
    'decoder_use_sum_merge': f'{_SEGMENTER}.decoder.sum_merge',
    'dense_prediction_cell_json': f'{_SEGMENTER}.dense_prediction_cell.json_path',
    'depth_multiplier': f'{_SEGMENTER}.backbone.depth_multiplier',
    'divisible_by': f'{_SEGMENTER}.backbone.channel_divisor',
    'drop_path_keep_prob': f'{_SEGMENTER}.backbone.drop_path_keep_prob',
    'edge_class_num': f'{_SEGMENTER}.edge.num_classes',
    'edge_width': f'{_SEGMENTER}.edge.edge_width',
    'eval_batch_size': 'eval_config.batch_size',
    'eval_crop_size': f'{_SEGMENTER}.evaluation.crop_height {_SEGMENTER}.evaluation.crop_width',
    'eval_interval_secs': 'eval_config.eval_interval_secs',
    'eval_scales': f'{_SEGMENTER}.evaluation.scales[]',
    'fine_tune_batch_norm': f'{_SEGMENTER}.fine_tune_batch_norm',
    'hard_example_mining_step': f'{_SEGMENTER}.loss.hard_example_mining_step',
    'image_pooling_crop_size': (
        f'{_SEGMENTER}.aspp.image_pooling_crop_height {_SEGMENTER}.aspp.image_pooling_crop_width'
    ),
    'image_pooling_stride': (
        f'{_SEGMENTER}.aspp.image_pooling_stride_height '
        f'{_SEGMENTER}.aspp.image_pooling_stride_width'
    ),
    'image_pyramid': f'{_SEGMENTER}.image_pyramid[]',
    'image_se_uses_qsigmoid': f'{_SEGMENTER}.aspp.quantized_sigmoid_gate',
    'inference_scales': f'{_SEGMENTER}.export.scales[]',
    'initialize_last_layer': 'train_config.initialize_last_layer',
    'keep_aspect_ratio': f'{_SEGMENTER}.preprocessing.keep_aspect_ratio',
    'label_weights': f'{_SEGMENTER}.loss.class_weights[]',
    'last_layer_gradient_multiplier': 'train_config.last_layer_gradient_multiplier',
    'last_layers_contain_logits_only': f'{_SEGMENTER}.last_layers_contain_logits_only',
    'learning_policy': f'{_DEEPLAB_RATE}.policy',
    'learning_power': f'{_DEEPLAB_RATE}.learning_power',
    'learning_rate_decay_step': f'{_DEEPLAB_RATE}.learning_rate_decay_step',
    'log_steps': 'train_config.progress.every_n_steps',
    'logits_kernel_size': f'{_SEGMENTER}.logits_kernel_size',
    'max_number_of_evaluations': 'eval_config.max_evals',
    'max_resize_value': f'{_SEGMENTER}.preprocessing.max_resize_value',
    'max_scale_factor': f'{_SEGMENTER}.preprocessing.max_scale_factor',
    'merge_method': f'{_SEGMENTER}.merge_method',
    'min_resize_value': f'{_SEGMENTER}.preprocessing.min_resize_value',
    'min_scale_factor': f'{_SEGMENTER}.preprocessing.min_scale_factor',
    'model_variant': f'{_SEGMENTER}.backbone.name',
    'motion_blur_size': f'{_SEGMENTER}.preprocessing.max_motion_blur_length',
    'multi_grid': f'{_SEGMENTER}.backbone.multi_grid[]',
    'nas_stem_output_num_conv_filters': f'{_SEGMENTER}.backbone.stem_filters',
    'output_stride': f'{_SEGMENTER}.backbone.output_stride',
    'prediction_with_upsampled_logits': f'{_SEGMENTER}.predict_with_upsampled_logits',
    'profile_logdir': 'train_config.progress.profile_step',
    'quantize_delay_step': 'graph_rewriter.quantization.delay',
    'resize_factor': f'{_SEGMENTER}.preprocessing.resize_factor',
    'scale_factor_step_size': f'{_SEGMENTER}.preprocessing.scale_factor_step_size',
    'slow_start_learning_rate': f'{_DEEPLAB_RATE}.slow_start_learning_rate',
    'slow_start_step': f'{_DEEPLAB_RATE}.slow_start_step',
    'startup_delay_steps': 'train_config.startup_delay_steps',
    'tf_initial_checkpoint': 'train_config.fine_tune_checkpoint',
    'top_k_percent_pixels': f'{_SEGMENTER}.loss.top_k_percent_pixels',
    'train_batch_size': 'train_config.batch_size',
    'train_crop_size': f'{_SEGMENTER}.crop_height {_SEGMENTER}.crop_width',
    'upsample_logits': f'{_SEGMENTER}.loss.upsample_logits',
    'use_bounded_activation': f'{_SEGMENTER}.use_bounded_activation',
    'vis_batch_size': 'eval_config.batch_size',
    # Object Detection API.
    'checkpoint_every_n': 'train_config.checkpoints.save_every_n_steps',
    'detections_per_class': f'{_SUPPRESSION}.max_detections_per_class',
    'max_classes_per_detection': f'{_SUPPRESSION}.max_classes_per_detection',
}

# Values with another name here, by flag.
_VALUES: Mapping[str, Mapping[str, str]] = {
    'learning_policy': {
        'poly': 'POLY', 'step': 'STEP', 'cosine': 'COSINE', 'multi_steps': 'MULTI_STEPS'
    },
    'merge_method': {'max': 'MERGE_MAX', 'avg': 'MERGE_AVERAGE'},
}  # fmt: skip

_CLUSTER = (
    'TF_CONFIG says which task of which cluster this is; to try a cluster on one machine: '
    'launch-local --num_workers=2 --num_ps=1 -- --model_dir=...'
)
_FILES = (
    'the files themselves: --set train_input_reader.tf_record_input_reader.input_path=["DIR/*"], '
    'and the same in eval_input_reader.0'
)
_RATE = (
    'a schedule in the config, such as `train_config { optimizer { rms_prop_optimizer { '
    'learning_rate { exponential_decay_learning_rate { initial_learning_rate: 0.01 decay_steps: '
    '10000 decay_factor: 0.94 } } } } }`; it counts in steps'
)
_NO_TPU = 'leave it out: TPUs are not supported'
_CHOSEN = 'leave it out: the input pipeline chooses it'
_EVENTS = 'leave it out: the events of evaluations are in DIR/eval_* of --model_dir=DIR'
_ANY_SIZE = 'leave it out: batches and images of any size can be sent to what --mode=export writes'
_LITE = '--mode=export --format=tflite, which writes a file from a checkpoint at once'
_LITE_RANGES = (
    f'{_LITE}; --quantize=int8 takes ranges from --representative_examples, a model of '
    'quantization-aware training has its own'
)
_NMS = (
    '--mode=export --format=tflite, whose suppression is the regular one; --fast_nms in place of '
    'false'
)
_NO_CENTER_NET = (
    'leave it out: --format=tflite is for classifiers, segmentation networks and single-shot '
    'detectors; a CenterNet is exported as a SavedModel'
)
_ROTATION = (
    f'--set {_SEGMENTER}.preprocessing.max_rotation_degrees=... (the largest angle to both sides)'
)
_BRIGHTNESS = (
    f'--set {_SEGMENTER}.preprocessing.max_brightness_change=... (a fraction of the full range, '
    'to both sides)'
)
_SIDE = 'leave it out: an exported model has the image as its only input'
_SEARCHED = 'leave it out: nas_pnasnet and nas_hnasnet are as they are published for segmentation'
_DEBUG = 'python -m pdb, or python -m cProfile, in front of run_train_eval.py'


def _part(field: str) -> str:
    return (
        'one pipeline config holds all parts; merge this one into it: '
        f'--config_override="{field} {{ $(cat FILE) }}"'
    )


# Replacements that need a sentence. Config text is in backticks.
_SAYINGS: Mapping[str, str] = {
    **dict.fromkeys(
        ('master', 'task', 'worker_replicas', 'num_replicas', 'ps_tasks', 'num_ps_tasks'), _CLUSTER
    ),
    'num_workers': _CLUSTER,
    **dict.fromkeys(
        ('dataset_dir', 'dataset_split_name', 'train_split', 'eval_split', 'vis_split'), _FILES
    ),
    'dataset_name': (
        'leave it out: the config says the number of classes (model.classification.num_classes), '
        'and label_map_path their names'
    ),
    'train_config_path': _part('train_config'),
    'model_config_path': _part('model'),
    'eval_config_path': _part('eval_config'),
    'input_config_path': _part('train_input_reader') + ' (or eval_input_reader)',
    'hparams_overrides': (
        'each value as a field of the config: --set train_config.batch_size=8 --set '
        'train_config.optimizer...'
    ),
    'num_eval_steps': '--set eval_config.num_examples=... (examples, not batches)',
    'max_num_batches': '--set eval_config.num_examples=... (examples, not batches)',
    'max_number_of_iterations': '--set eval_config.num_examples=... (examples, not batches)',
    'eval_dir': _EVENTS,
    'eval_logdir': _EVENTS,
    **dict.fromkeys(
        (
            'use_tpu',
            'tpu_name',
            'tpu_zone',
            'gcp_project',
            'num_shards',
            'iterations_per_loop',
        ),
        _NO_TPU,
    ),
    'record_summaries': '--set train_config.progress.summary_every_n_steps=100 (0: none)',
    'save_summaries_secs': (
        '--set train_config.progress.summary_every_n_steps=100 (steps, not seconds)'
    ),
    'save_summaries_images': (
        '--set train_config.progress.pictures_every_n_steps=100 --set '
        'train_config.progress.draw_predictions=true'
    ),
    'num_preprocessing_threads': _CHOSEN,
    'warmup_epochs': (
        'a schedule with a warm-up, in steps: `train_config { optimizer { momentum_optimizer { '
        'learning_rate { exponential_decay_with_warmup_learning_rate { warmup_steps: 1000 } } } } '
        '}`'
    ),
    **dict.fromkeys(
        (
            'learning_rate',
            'learning_rate_decay_type',
            'num_epochs_per_decay',
        ),
        _RATE,
    ),
    **{
        name: f'of DeepLab: --set {_DEEPLAB_RATE}.{name}=...; of TF-Slim: {_RATE}'
        for name in ('end_learning_rate', 'learning_rate_decay_factor')
    },
    **dict.fromkeys(('rotation_min_limit', 'rotation_max_limit'), _ROTATION),
    **dict.fromkeys(('brightness_min_limit', 'brightness_max_limit'), _BRIGHTNESS),
    'motion_blur_direction_limit': 'leave it out: a blur has any direction',
    'optimizer': (
        'a message of the config: `train_config { optimizer { momentum_optimizer { } } }` (or '
        'rms_prop_optimizer, adam_optimizer, sgd_optimizer, ...)'
    ),
    'is_training': 'leave it out: what --mode=export writes is for inference',
    'input_shape': _ANY_SIZE,
    'vis_crop_size': _ANY_SIZE,
    'colormap_type': 'leave it out: model.segmentation.dataset decides the colors',
    'nas_use_classification_head': _SEARCHED,
    'nas_remove_os32_stride': _SEARCHED,
    'is_video_model': 'leave it out: networks of video are not here',
    'num_frames': 'leave it out: networks of video are not here',
    **dict.fromkeys(
        ('write_inference_graph', 'save_inference_graph', 'write_text_graphdef'),
        'leave it out: --mode=export writes a SavedModel, which holds the graph and the values',
    ),
    'additional_output_tensor_names': (
        'leave it out: what --mode=export writes has all outputs (saved_model_cli show --all)'
    ),
    **dict.fromkeys(
        ('use_side_inputs', 'side_input_shapes', 'side_input_types', 'side_input_names'), _SIDE
    ),
    'add_postprocessing_op': f'{_LITE}, with the suppression in it',
    **dict.fromkeys(('use_regular_nms', 'ssd_use_regular_nms'), _NMS),
    **dict.fromkeys(('centernet_include_keypoints', 'keypoint_label_map_path'), _NO_CENTER_NET),
    **dict.fromkeys(
        (
            'graph_def_file',
            'quantized_graph_def_path',
            'output_tflite_path',
            'input_tensor_name',
            'input_arrays',
            'input_shapes',
            'output_arrays',
            'allow_custom_ops',
        ),
        _LITE,
    ),
    **dict.fromkeys(
        (
            'inference_type',
            'inference_input_type',
            'mean_values',
            'std_dev_values',
            'default_ranges_min',
            'default_ranges_max',
        ),
        _LITE_RANGES,
    ),
    # absl's, of programs that absl.app runs.
    'log_dir': 'the log goes to standard error; to have it in a file: 2> FILE',
    'stderrthreshold': '--verbosity=-2 for errors, -1 for warnings too, 0 for progress too',
    'showprefixforinfo': 'leave it out: lines begin with the time',
    'logger_levels': '--verbosity=... for all loggers',
    **dict.fromkeys(
        ('pdb', 'pdb_post_mortem', 'run_with_pdb', 'run_with_profiling', 'profile_file'), _DEBUG
    ),
    'use_cprofile_for_profiling': _DEBUG,
    'only_check_args': '--mode=check, which checks the config and the data too',
    'helpxml': '--help',
}

_KNOWN = {*_FLAGS, *_FIELDS, *_SAYINGS}
# Flags of this program too, which takes a name there: anything else is of another program.
_NUMBERS = {'task'}
