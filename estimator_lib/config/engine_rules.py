"""The engine's rules: fields of training, readers, evaluation, export and the cluster.

What makes a field supported moves its name. Fields of these messages that only some tasks mean
something by (boxes, masks, metrics) are in the tasks' rules.
"""

from __future__ import annotations

from estimator_lib.config import rules
from estimator_lib.config.rules import (
    ALL,
    AT_LEAST_0,
    AT_LEAST_1,
    COUNT,
    DECAY,
    FEW,
    FRACTION,
    NOT_POSITIVE,
    POSITIVE,
    because,
    names,
    or_0,
    ranges,
)

_READS_BY_ITSELF = 'the input pipeline chooses its own parallelism and buffers'
_QUEUES = 'there are no queues: the input pipeline feeds the network directly'
_PICTURES = 'what pictures are drawn on is kept as it is needed'

_SUPPORTED = {
    'TrainEvalPipelineConfig': names(
        'model train_config train_input_reader eval_config eval_input_reader export_config'
    ),
    'TrainConfig': names(
        'batch_size keep_checkpoint_every_n_hours optimizer gradient_clipping_by_norm '
        'fine_tune_checkpoint fine_tune_checkpoint_type fine_tune_checkpoint_version '
        'from_detection_checkpoint num_steps bias_grad_multiplier update_trainable_variables '
        'freeze_variables add_regularization_loss use_bfloat16 summarize_gradients checkpoints '
        'progress non_finite_loss_policy gradient_multipliers last_layer_gradient_multiplier '
        'random_seed early_stopping cluster checkpoint_exclude_scopes trainable_scopes '
        'sync_replicas replicas_to_aggregate startup_delay_steps '
        'ignore_missing_variables initialize_last_layer gradient_clipping max_skipped_steps '
        'checkpoint_include_scopes checkpoint_names min_restored_fraction loop steps_per_call '
        'loss_scale'
    ),
    'InputReader': names(
        'name label_map_path shuffle shuffle_buffer_size filenames_shuffle_buffer_size num_epochs '
        'sample_1_of_n_examples num_readers read_block_length num_parallel_batches '
        'num_prefetch_batches drop_remainder input_type tf_record_input_reader '
        'sample_from_datasets_weights corrupt_record_policy examples_per_batch cache '
        'max_image_pixels cache_max_megabytes cache_folder'
    ),
    'EvalConfig': names(
        'batch_size num_visualizations num_examples visualization_export_dir use_moving_averages '
        'schedule'
    ),
    **dict.fromkeys(
        names(
            'CheckpointConfig ProgressConfig GradientMultiplier EarlyStopping ClusterConfig '
            'TFRecordInputReader EvaluationSchedule ExportConfig BestExport LatestExport '
            'FinalExport Optimizer RMSPropOptimizer MomentumOptimizer AdamOptimizer SgdOptimizer '
            'AdagradOptimizer AdadeltaOptimizer FtrlOptimizer LearningRate ConstantLearningRate '
            'ExponentialDecayLearningRate ExponentialDecayWithWarmupLearningRate '
            'ManualStepLearningRate ManualStepLearningRate.LearningRateSchedule '
            'CosineDecayLearningRate PolynomialDecayLearningRate DeepLabLearningRate CheckpointName'
        ),
        ALL,
    ),
}

_IGNORED = {
    'TrainConfig': {
        **because(_QUEUES, 'batch_queue_capacity num_batch_queue_threads prefetch_queue_capacity'),
        'retain_original_images': _PICTURES,
        'run_fine_tune_checkpoint_dummy_computation': (
            'it is for checkpoints of TensorFlow 2; these are restored by variable name'
        ),
    },
    'InputReader': {
        **because(_READS_BY_ITSELF, 'prefetch_size num_parallel_map_calls'),
        **because(_QUEUES, 'queue_capacity min_after_dequeue'),
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
    },
}

_UNSUPPORTED = {
    'InputReader': {
        'external_input_reader': 'records are read from TFRecord files: tf_record_input_reader',
    },
    'EvalConfig': {
        'eval_master': 'TF_CONFIG says what a process does in a cluster',
        'export_path': 'metrics are written to model_dir/metrics.json',
        'ignore_groundtruth': 'an evaluation needs the labels of its examples',
        'use_dummy_loss_in_eval': 'evaluation always reports the loss',
    },
}


_RANGES = {
    **ranges(COUNT, 'TrainConfig.batch_size EvalConfig.batch_size InputReader.read_block_length'),
    **ranges(FEW, 'InputReader.num_readers InputReader.num_parallel_batches'),
    **ranges(
        or_0(COUNT),
        'InputReader.shuffle_buffer_size InputReader.filenames_shuffle_buffer_size '
        'EvalConfig.num_visualizations',
    ),
    'InputReader.num_prefetch_batches': or_0(FEW),
    **ranges(
        AT_LEAST_1,
        'EvalConfig.num_examples TrainConfig.max_skipped_steps '
        'CheckpointConfig.save_every_n_steps CheckpointConfig.save_every_n_seconds '
        'ProgressConfig.every_n_steps EarlyStopping.patience_evaluations '
        'BestExport.keep_max LatestExport.keep_max '
        'InputReader.sample_1_of_n_examples InputReader.max_image_pixels '
        'ExponentialDecayLearningRate.decay_steps CosineDecayLearningRate.total_steps '
        'ExponentialDecayWithWarmupLearningRate.decay_steps '
        'DeepLabLearningRate.learning_rate_decay_step',
    ),
    **ranges(
        AT_LEAST_0,
        'TrainConfig.startup_delay_steps TrainConfig.loss_scale '
        'TrainConfig.gradient_clipping_by_norm TrainConfig.bias_grad_multiplier '
        'TrainConfig.last_layer_gradient_multiplier GradientMultiplier.multiplier '
        'EarlyStopping.min_delta InputReader.sample_from_datasets_weights '
        'AdamOptimizer.epsilon '
        'FtrlOptimizer.initial_accumulator_value FtrlOptimizer.l1 FtrlOptimizer.l2 '
        'ConstantLearningRate.learning_rate ExponentialDecayLearningRate.initial_learning_rate '
        'ExponentialDecayLearningRate.burnin_learning_rate '
        'ExponentialDecayLearningRate.min_learning_rate '
        'ManualStepLearningRate.initial_learning_rate '
        'ManualStepLearningRate.LearningRateSchedule.learning_rate '
        'CosineDecayLearningRate.learning_rate_base CosineDecayLearningRate.warmup_learning_rate '
        'PolynomialDecayLearningRate.initial_learning_rate '
        'PolynomialDecayLearningRate.end_learning_rate '
        'ExponentialDecayWithWarmupLearningRate.learning_rate_base '
        'ExponentialDecayWithWarmupLearningRate.warmup_learning_rate '
        'ExponentialDecayWithWarmupLearningRate.min_learning_rate '
        'DeepLabLearningRate.base_learning_rate DeepLabLearningRate.end_learning_rate '
        'DeepLabLearningRate.learning_rates DeepLabLearningRate.slow_start_learning_rate',
    ),
    **ranges(
        POSITIVE,
        'TrainConfig.keep_checkpoint_every_n_hours '
        'RMSPropOptimizer.epsilon '
        'AdagradOptimizer.initial_accumulator_value AdadeltaOptimizer.epsilon '
        'ExponentialDecayLearningRate.decay_factor '
        'ExponentialDecayWithWarmupLearningRate.decay_factor '
        'PolynomialDecayLearningRate.power DeepLabLearningRate.learning_power '
        'DeepLabLearningRate.learning_rate_decay_factor',
    ),
    **ranges(
        DECAY,
        'Optimizer.moving_average_decay RMSPropOptimizer.momentum_optimizer_value '
        'RMSPropOptimizer.decay MomentumOptimizer.momentum_optimizer_value AdamOptimizer.beta1 '
        'AdamOptimizer.beta2 AdadeltaOptimizer.rho',
    ),
    **ranges(FRACTION, 'TrainConfig.min_restored_fraction'),
    **ranges(NOT_POSITIVE, 'FtrlOptimizer.learning_rate_power'),
}

_REQUIRES = {
    **rules.requires(
        'fine_tune_checkpoint',
        'TrainConfig.fine_tune_checkpoint_type TrainConfig.fine_tune_checkpoint_version '
        'TrainConfig.from_detection_checkpoint TrainConfig.checkpoint_exclude_scopes '
        'TrainConfig.checkpoint_include_scopes TrainConfig.checkpoint_names '
        'TrainConfig.ignore_missing_variables TrainConfig.initialize_last_layer '
        'TrainConfig.min_restored_fraction',
    ),
    'TrainConfig.gradient_clipping': 'gradient_clipping_by_norm',
    'TrainConfig.max_skipped_steps': 'non_finite_loss_policy: SKIP_STEP',
    'TrainConfig.steps_per_call': 'loop: TF_FUNCTION',
    'TrainConfig.loss_scale': 'use_bfloat16',
    'TrainConfig.summarize_gradients': 'progress.summary_every_n_steps',
    'ProgressConfig.summarize_variables': 'summary_every_n_steps',
    **rules.requires(
        'use_moving_average', 'Optimizer.moving_average_decay Optimizer.moving_averages'
    ),
    'ExponentialDecayLearningRate.burnin_learning_rate': 'burnin_steps',
    'ExponentialDecayWithWarmupLearningRate.warmup_learning_rate': 'warmup_steps',
    'ManualStepLearningRate.warmup': 'schedule',
    'CosineDecayLearningRate.warmup_learning_rate': 'warmup_steps',
    'InputReader.cache_max_megabytes': 'cache: MEMORY|FILE',
    'InputReader.cache_folder': 'cache: FILE',
    **rules.requires(
        'shuffle', 'InputReader.shuffle_buffer_size InputReader.filenames_shuffle_buffer_size'
    ),
    'EvalConfig.visualization_export_dir': 'num_visualizations',
}

ENGINE = rules.ConfigRules(
    supported=_SUPPORTED,
    ignored=_IGNORED,
    unsupported=_UNSUPPORTED,
    ranges=_RANGES,
    requires=_REQUIRES,
    same_in_readers={'max_image_pixels': ''},
)
