"""What a task may return."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.graphs import task_checks
from tests.estimator_lib.line_task import Line

LINE = Line()
SCALAR = tf.constant(1.0)


@pytest.mark.parametrize(
    ('found', 'message'),
    [
        (None, "task 'line' .Line.: predict.. returned None; expected tensors by name"),
        ({}, 'at least one'),
        ({'y': 3}, "returned 'y': 3; expected tensors"),
        ({4: SCALAR}, 'returned 4: '),
    ],
)
def test_predictions_are_tensors_by_name(found, message):
    task_checks.require_tensors(LINE, 'predict', {'y': SCALAR})
    with pytest.raises(errors.UserError, match=message):
        task_checks.require_tensors(LINE, 'predict', found)


@pytest.mark.parametrize(
    ('found', 'message'),
    [
        ({'square': SCALAR}, "returned 'square'; expected the names of loss_names.., squared"),
        ({'squared': tf.zeros([2])}, 'float32 .2,.; expected float scalars'),
        ({'squared': tf.constant(1)}, 'int32'),
    ],
)
def test_losses_are_known_scalars(found, message):
    task_checks.require_losses(LINE, {'squared': SCALAR}, ('total_loss',))
    with pytest.raises(errors.UserError, match=message):
        task_checks.require_losses(LINE, found, ('total_loss',))


def test_names_of_the_engines_losses_are_taken():
    with pytest.raises(errors.UserError, match="returned 'squared'"):
        task_checks.require_losses(LINE, {'squared': SCALAR}, ('squared',))


@pytest.mark.parametrize('metric', [SCALAR, (SCALAR,), (1.0, SCALAR)])
def test_metrics_are_pairs(metric):
    task_checks.require_metrics(LINE, {'error': (SCALAR, SCALAR)})
    with pytest.raises(errors.UserError, match="metrics.. returned 'error'"):
        task_checks.require_metrics(LINE, {'error': metric})


def test_outputs_have_a_batch():
    task_checks.require_batches(LINE, 'postprocess', {'y': tf.zeros([2])})
    with pytest.raises(errors.UserError, match='expected a leading batch dimension'):
        task_checks.require_batches(LINE, 'postprocess', {'y': SCALAR})


def test_metrics_have_the_names_that_were_told():
    task_checks.require_known_metrics(LINE, {'error': 1.0})
    with pytest.raises(errors.UserError, match='returned mistake, wrong; expected the names of'):
        task_checks.require_known_metrics(LINE, {'error': 1.0, 'wrong': 1.0, 'mistake': 0.0})
