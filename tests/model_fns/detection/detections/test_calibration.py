import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.detections import calibration
from protos import post_processing_pb2

tf1 = tf.compat.v1

SCORES = np.array([[[0.0, 0.2, 0.4], [0.5, 0.6, 0.8], [0.9, 1.0, 0.25]]], np.float32)
POINTS = ((0.1, 0.0), (0.5, 0.3), (0.5, 0.4), (0.9, 1.0))


def run(function, scores=SCORES, *arguments):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(function(tf.constant(scores), *arguments))


def build(text, columns=3):
    config = text_format.Parse(text, post_processing_pb2.CalibrationConfig())
    return calibration.build_calibration(Section(config, 'calibration_config'), columns)


def test_piecewise_linear_by_hand():
    expected = [[0.0, 0.075, 0.225], [0.4, 0.55, 0.85], [1.0, 1.0, 0.1125]]
    values = run(calibration.piecewise_linear, SCORES, POINTS)
    np.testing.assert_allclose(values, [expected], atol=1e-6)


def test_one_point_is_a_constant():
    np.testing.assert_array_equal(run(calibration.piecewise_linear, SCORES, ((0.5, 0.25),)), 0.25)


def test_piecewise_linear_is_interpolation():
    rng = np.random.RandomState(0)
    scores = rng.uniform(-0.2, 1.2, [2, 50, 4]).astype(np.float32)
    points = {
        column: list(zip(np.sort(rng.uniform(size=count)), rng.uniform(size=count)))
        for column, count in ((0, 5), (2, 17), (3, 2))
    }
    values = run(calibration.piecewise_linear_by_column, scores, points)
    for column in range(4):
        expected = scores[..., column]
        if column in points:
            expected = np.interp(expected, *zip(*points[column]))
        np.testing.assert_allclose(values[..., column], expected, atol=1e-5)


def test_sigmoid():
    np.testing.assert_allclose(run(calibration.sigmoid, SCORES, -1.0, 0.0), SCORES, atol=1e-6)
    # logit(0.8) = log 4, so 1 / (1 + exp(-2 log 4 + log 2)) = 1 / (1 + 2 / 16).
    values = run(calibration.sigmoid, SCORES, -2.0, np.float32(np.log(2)))
    assert values[0, 1, 2] == pytest.approx(8 / 9)
    np.testing.assert_allclose(run(calibration.sigmoid, SCORES, 0.0, 0.0), 0.5)


def test_sigmoid_by_column():
    values = run(calibration.sigmoid_by_column, SCORES, {1: (-2.0, 0.0)})
    np.testing.assert_array_equal(values[..., [0, 2]], SCORES[..., [0, 2]])
    # 0.6^2 / (0.6^2 + 0.4^2)
    assert values[0, 1, 1] == pytest.approx(0.36 / 0.52)


def test_build_function_approximation():
    built = build(
        'function_approximation { x_y_pairs { x_y_pair { x: 0 y: 0.5 } x_y_pair { x: 1 y: 1 } } }'
    )
    np.testing.assert_allclose(run(built.score_function), 0.5 + SCORES / 2)
    assert built.temperature == 1.0


def test_build_function_approximation_by_class():
    points = 'x_y_pair { x: 0 y: 1 } x_y_pair { x: 1 y: 0 } training_data_type: CLASS_SPECIFIC'
    built = build(
        'class_id_function_approximations { '
        f'class_id_xy_pairs_map {{ key: 2 value {{ {points} }} }} }}'
    )
    values = run(built.score_function)
    np.testing.assert_allclose(values[..., 2], 1 - SCORES[..., 2])
    np.testing.assert_array_equal(values[..., :2], SCORES[..., :2])


def test_build_sigmoids():
    built = build('sigmoid_calibration { sigmoid_parameters { a: -2 } }')
    assert run(built.score_function)[0, 1, 1] == pytest.approx(0.36 / 0.52)
    built = build(
        'class_id_sigmoid_calibrations { class_id_sigmoid_parameters_map { '
        'key: 0 value { a: 0 b: 100 } } }'
    )
    values = run(built.score_function)
    np.testing.assert_allclose(values[..., 0], 0, atol=1e-6)
    np.testing.assert_array_equal(values[..., 1:], SCORES[..., 1:])


def test_build_temperature():
    built = build('temperature_scaling_calibration { scaler: 2.5 }')
    assert (built.temperature, built.score_function) == (2.5, None)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', 'calibration_config: empty; expected one of: function_approximation, '),
        (
            'function_approximation { x_y_pairs { x_y_pair { x: 0.5 } x_y_pair { x: 0.25 } } }',
            'x_y_pairs.x_y_pair.1.x: 0.25 after 0.5',
        ),
        (
            'class_id_function_approximations { '
            'class_id_xy_pairs_map { key: 3 value { x_y_pair { x: 0 y: 0 } } } }',
            'class 3; the model has 3 columns',
        ),
        (
            'class_id_sigmoid_calibrations { '
            'class_id_sigmoid_parameters_map { key: -1 value { a: 0 } } }',
            'class -1; the model has 3 columns',
        ),
        ('class_id_sigmoid_calibrations {}', 'class_id_sigmoid_parameters_map: empty'),
    ],
)
def test_what_is_no_calibration_is_refused(text, message):
    with pytest.raises(errors.ConfigError) as error:
        build(text)
    assert str(error.value).startswith('calibration_config') and message in str(error.value)
