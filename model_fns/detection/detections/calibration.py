"""Calibration of scores, so that they are probabilities.

Functions are indexed by column of the class predictions. If the first column is background, the
column of a class is its id in the label map.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.config_rules import checks
from protos import post_processing_pb2

# Points (x, y) of a piecewise linear function, ordered by x.
Points = Sequence[Tuple[float, float]]

# Bounds of scores, because the logits of 0 and 1 are infinite.
_LEAST, _MOST = 1e-30, 1.0 - 2.0**-24


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Changes of logits before, and of scores after, their conversion.

    Attributes:
        temperature: divisor of logits.
        score_function: float32 [B, A, columns] -> the same shape; None: scores stay.
    """

    temperature: float = 1.0
    score_function: Optional[Callable[[tf.Tensor], tf.Tensor]] = None


def piecewise_linear(scores: tf.Tensor, points: Points) -> tf.Tensor:
    """Apply one piecewise linear function to all scores; it is constant beyond its ends.

    Args:
        scores: float32, of any shape.
        points: points of the function.
    """
    flat = tf.reshape(scores, [1, -1])
    return tf.reshape(_interpolated(flat, [points]), tf.shape(scores))


def piecewise_linear_by_column(scores: tf.Tensor, points: Mapping[int, Points]) -> tf.Tensor:
    """Apply a piecewise linear function to each column of [B, A, columns]; others stay."""
    columns = scores.shape[2]
    identity = ((0.0, 0.0), (1.0, 1.0))
    by_column = tf.transpose(scores, [2, 0, 1])
    calibrated = _interpolated(
        tf.reshape(by_column, [columns, -1]), [points.get(k, identity) for k in range(columns)]
    )
    calibrated = tf.transpose(tf.reshape(calibrated, tf.shape(by_column)), [1, 2, 0])
    return tf.where(_has_function(points, columns), calibrated, scores)


def sigmoid(scores: tf.Tensor, a: float, b: float) -> tf.Tensor:
    """Compute 1 / (1 + exp(a logit(score) + b)) (Platt 1999), the identity for a = -1, b = 0.

    Returns:
        A tensor of the shape of `scores`.
    """
    scores = tf.clip_by_value(scores, _LEAST, _MOST)
    logits = tf.math.log(scores) - tf.math.log1p(-scores)
    return tf.sigmoid(-(a * logits + b))


def sigmoid_by_column(
    scores: tf.Tensor, parameters: Mapping[int, Tuple[float, float]]
) -> tf.Tensor:
    """Apply `sigmoid` with (a, b) for each column of [B, A, columns]; others stay."""
    columns = scores.shape[2]
    a, b = np.transpose([parameters.get(k, (-1.0, 0.0)) for k in range(columns)])
    calibrated = sigmoid(scores, tf.constant(a, tf.float32), tf.constant(b, tf.float32))
    return tf.where(_has_function(parameters, columns), calibrated, scores)


def build_calibration(
    section: Section[post_processing_pb2.CalibrationConfig], columns: int
) -> Calibration:
    """Build the calibration that a config describes.

    Args:
        section: configuration message, with at most one function.
        columns: number of columns of the class predictions.

    Raises:
        errors.ConfigError: the message is empty, or its points are not a function.
    """
    config = section.message
    checks.check_part(section)
    kind = config.WhichOneof('calibrator')
    chosen = section.child(kind)
    if kind == 'temperature_scaling_calibration':
        return Calibration(temperature=chosen.message.scaler)
    return Calibration(score_function=_FUNCTIONS[kind](chosen, columns))


ScoreFunction = Callable[[tf.Tensor], tf.Tensor]


def _build_points(
    section: Section[post_processing_pb2.FunctionApproximation], columns: int
) -> ScoreFunction:
    del columns
    points = _points(section.child('x_y_pairs'))
    return lambda scores: piecewise_linear(scores, points)


def _build_points_by_column(
    section: Section[post_processing_pb2.ClassIdFunctionApproximations], columns: int
) -> ScoreFunction:
    by_column = section.message.class_id_xy_pairs_map
    _check_columns(section, 'class_id_xy_pairs_map', columns)
    pairs = section.children('class_id_xy_pairs_map')
    points = {column: _points(pair) for column, pair in zip(sorted(by_column), pairs)}
    return lambda scores: piecewise_linear_by_column(scores, points)


def _build_sigmoid(
    section: Section[post_processing_pb2.SigmoidCalibration], columns: int
) -> ScoreFunction:
    del columns
    parameters = section.message.sigmoid_parameters
    return lambda scores: sigmoid(scores, parameters.a, parameters.b)


def _build_sigmoid_by_column(
    section: Section[post_processing_pb2.ClassIdSigmoidCalibrations], columns: int
) -> ScoreFunction:
    by_column = section.message.class_id_sigmoid_parameters_map
    _check_columns(section, 'class_id_sigmoid_parameters_map', columns)
    parameters = {column: (pair.a, pair.b) for column, pair in sorted(by_column.items())}
    return lambda scores: sigmoid_by_column(scores, parameters)


_FUNCTIONS = {
    'function_approximation': _build_points,
    'class_id_function_approximations': _build_points_by_column,
    'sigmoid_calibration': _build_sigmoid,
    'class_id_sigmoid_calibrations': _build_sigmoid_by_column,
}


def _points(section: Section[post_processing_pb2.XYPairs]) -> Points:
    pairs = section.children('x_y_pair')
    for before, after in zip(pairs, pairs[1:]):
        low, high = before.message.x, after.message.x
        if not high >= low:
            raise after.error('x', f'{high:g} after {low:g}; expected points by growing x.')
    return [(pair.message.x, pair.message.y) for pair in pairs]


def _check_columns(section: Section[Any], field: str, num_columns: int) -> None:
    for column in sorted(getattr(section.message, field)):
        if not 0 <= column < num_columns:
            raise section.error(
                field,
                f'class {column}; the model has {num_columns} columns of class predictions, so '
                f'expected 0 to {num_columns - 1}.',
            )


def _has_function(functions: Mapping[int, object], columns: int) -> tf.Tensor:
    return tf.constant([column in functions for column in range(columns)])


def _interpolated(values: tf.Tensor, functions: Sequence[Points]) -> tf.Tensor:
    """Apply one piecewise linear function to each row.

    Args:
        values: float32 [rows, n].
        functions: points of the function of each row.
    """
    most = max(2, *(len(points) for points in functions))
    # Rows get the same length by repeating the last point.
    padded = [[*points, *[points[-1]] * (most - len(points))] for points in functions]
    x, y = (tf.constant(part) for part in np.moveaxis(np.array(padded, np.float32), 2, 0))
    inside = tf.clip_by_value(values, x[:, :1], x[:, -1:])
    after = tf.searchsorted(x, inside, side='right')
    # The last point has none after it, and a search on the right of it returns the length.
    after = tf.clip_by_value(after, 1, most - 1)
    x0, x1, y0, y1 = (
        tf.gather(knots, rows, batch_dims=1)
        for knots, rows in ((x, after - 1), (x, after), (y, after - 1), (y, after))
    )
    return y0 + (y1 - y0) * tf.math.divide_no_nan(inside - x0, x1 - x0)
