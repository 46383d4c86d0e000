"""The range of each number in a config that has one."""

from __future__ import annotations

import dataclasses
import math
from typing import Dict, Mapping


@dataclasses.dataclass(frozen=True)
class Range:
    """An interval.

    Attributes:
        low: its lower end.
        high: its upper end.
        open_low: whether `low` itself is out.
        open_high: whether `high` itself is out.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is in it."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        ends = []
        if self.low > -math.inf:
            ends.append(f'{"more than" if self.open_low else "at least"} {self.low:g}')
        if self.high < math.inf:
            ends.append(f'{"less than" if self.open_high else "at most"} {self.high:g}')
        return ' and '.join(ends)


AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)
POSITIVE = Range(0, open_low=True)
FRACTION = Range(0, 1, open_high=True)  # what a decay or a momentum is
KEPT_SHARE = Range(0, 1, open_low=True)
NOT_POSITIVE = Range(high=0)


def _of(allowed: Range, fields: str) -> Dict[str, Range]:
    return dict.fromkeys(fields.split(), allowed)


# By `Message.field`. Values that are not set are not looked at: defaults are in range.
RANGES: Mapping[str, Range] = {
    **_of(
        AT_LEAST_1,
        'TrainConfig.batch_size EvalConfig.batch_size EvalConfig.num_examples '
        'CheckpointConfig.save_every_n_steps CheckpointConfig.save_every_n_seconds '
        'ProgressConfig.every_n_steps EarlyStopping.patience_evaluations '
        'BestExport.keep_max LatestExport.keep_max '
        'InputReader.sample_1_of_n_examples InputReader.num_readers InputReader.read_block_length '
        'InputReader.num_parallel_batches '
        'Classification.num_classes Backbone.min_depth Backbone.multi_grid '
        'ExponentialDecayLearningRate.decay_steps CosineDecayLearningRate.total_steps '
        'ExponentialDecayWithWarmupLearningRate.decay_steps '
        'DeepLabLearningRate.learning_rate_decay_step',
    ),
    **_of(
        AT_LEAST_0,
        'TrainConfig.gradient_clipping_by_norm TrainConfig.bias_grad_multiplier '
        'TrainConfig.last_layer_gradient_multiplier GradientMultiplier.multiplier '
        'EarlyStopping.min_delta InputReader.sample_from_datasets_weights '
        'InputReader.num_prefetch_batches '
        'Classification.auxiliary_loss_weight Classification.labels_offset '
        'Backbone.weight_decay AdamOptimizer.epsilon '
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
    **_of(
        POSITIVE,
        'TrainConfig.keep_checkpoint_every_n_hours Backbone.depth_multiplier '
        'Backbone.batch_norm_epsilon RMSPropOptimizer.epsilon '
        'AdagradOptimizer.initial_accumulator_value AdadeltaOptimizer.epsilon '
        'ExponentialDecayLearningRate.decay_factor '
        'ExponentialDecayWithWarmupLearningRate.decay_factor '
        'PolynomialDecayLearningRate.power DeepLabLearningRate.learning_power '
        'DeepLabLearningRate.learning_rate_decay_factor',
    ),
    **_of(
        FRACTION,
        'Classification.label_smoothing Backbone.batch_norm_decay '
        'Optimizer.moving_average_decay RMSPropOptimizer.momentum_optimizer_value '
        'RMSPropOptimizer.decay MomentumOptimizer.momentum_optimizer_value AdamOptimizer.beta1 '
        'AdamOptimizer.beta2 AdadeltaOptimizer.rho',
    ),
    **_of(KEPT_SHARE, 'Classification.dropout_keep_prob'),
    **_of(NOT_POSITIVE, 'FtrlOptimizer.learning_rate_power'),
}
