"""The metric that a config chooses the best model by, and the direction in which it improves."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Sequence, Tuple, Union

from estimator_lib import errors
from protos import export_pb2, pipeline_pb2, train_pb2

Choice = Union[export_pb2.BestExport, train_pb2.EarlyStopping]

_LOWER = frozenset(
    (
        *('loss', 'losses', 'error', 'errors', 'mae', 'mse', 'rmse'),
        *('distance', 'distances', 'time', 'seconds', 'latency'),
    )
)
_HIGHER = frozenset(
    (
        *('accuracy', 'precision', 'recall', 'sensitivity', 'specificity', 'f', 'score', 'auc'),
        *('ap', 'map', 'ar', 'mar', 'iou', 'miou', 'dice', 'quality', 'pq', 'sq', 'rq'),
        *('psnr', 'ssim'),
    )
)
# A value to choose, or an amount: neither end is better.
_NEITHER = frozenset(['threshold', 'thresholds', 'count', 'counts'])
# Of letters alone: `F1` is `F`. `mAP` is one word, `MeanError` two.
_WORDS = re.compile(r'm?[A-Z]+(?![a-z])|[A-Z]?[a-z]+')


def improves_upward(name: str) -> Optional[bool]:
    """Return whether larger values of a metric are better; None if its name does not say.

    The first part between slashes with a word of known direction decides, because a class may have
    any name. In the part the last such word decides: an `iou_loss` is a loss.

    Args:
        name: a name that an evaluation reports.

    Example:
        `loss`, `mae_age` and `Loss/iou` are better when lower, `accuracy_class_1` and
        `PascalBoxes_PerformanceByCategory/AP@0.5IOU/error` when higher; `height` does not say.
    """
    # `_WORDS` would find the two words `Io` and `U` in it.
    written = name.replace('IoU', 'IOU')
    parts = [list(map(str.lower, _WORDS.findall(part))) for part in written.split('/')]
    if any(word in _NEITHER for part in parts for word in part):
        return None
    for part in parts:
        for word in reversed(part):
            if word in _LOWER or word in _HIGHER:
                return word in _HIGHER
    return None


def higher_is_better(choice: Choice) -> bool:
    """Return whether larger values of the chosen metric are better.

    Args:
        choice: a choice that passes `check`.
    """
    known = improves_upward(choice.metric)
    if choice.HasField('higher_is_better') or known is None:
        return choice.higher_is_better
    return known


def direction(config: pipeline_pb2.TrainEvalPipelineConfig, name: str) -> Optional[bool]:
    """Return whether larger values of a metric are better; None if nothing says so.

    Args:
        config: may say it, where it chooses the metric.
        name: of the metric.
    """
    chosen = [choice for _, choice in choices(config) if choice.metric == name]
    return higher_is_better(chosen[0]) if chosen else improves_upward(name)


def check(config: pipeline_pb2.TrainEvalPipelineConfig, known: Sequence[str], owner: str) -> None:
    """Check that each chosen metric is known, and whether larger values of it are better.

    Args:
        config: the config of a run.
        known: the names that its evaluations may report.
        owner: what has these metrics, for messages.

    Raises:
        errors.ConfigError: a metric is unknown, or has no direction.
    """
    for field, choice in choices(config):
        name = choice.metric
        if name and name not in known:
            raise errors.ConfigError(
                f'{field}.metric: {owner} has no metric {name!r}{errors.did_you_mean(name, known)}'
            )
        if name and not choice.HasField('higher_is_better') and improves_upward(name) is None:
            raise errors.ConfigError(
                f'{field}.higher_is_better is not set, and the name of the metric, {name!r}, does '
                'not say whether larger values are better; expected true or false.'
            )


def contradictions(config: pipeline_pb2.TrainEvalPipelineConfig) -> Iterator[str]:
    """Yield a warning for each choice that says the opposite of its metric's name."""
    for field, choice in choices(config):
        known = improves_upward(choice.metric)
        if choice.HasField('higher_is_better') and known is (not choice.higher_is_better):
            yield (
                f'{field}.higher_is_better is {str(choice.higher_is_better).lower()}, and '
                f'{choice.metric!r} is better when {"higher" if known else "lower"}: the worst '
                'model counts as the best.'
            )


def choices(config: pipeline_pb2.TrainEvalPipelineConfig) -> Iterator[Tuple[str, Choice]]:
    """Yield each choice of a metric in a config, with the path of its field."""
    if config.train_config.HasField('early_stopping'):
        yield 'train_config.early_stopping', config.train_config.early_stopping
    if config.export_config.HasField('best'):
        yield 'export_config.best', config.export_config.best
