"""Losses of examples, gradients and activations of a step, against numbers by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from model_fns import layers
from tests.vision_extras.replay import wrong_label_run as case
from vision_extras.replay import diagnosis

STEP = 11  # after a checkpoint


def diagnose(run):
    return diagnosis.diagnose(run, run.checkpoint_before(STEP))


def check_numbers(found):
    slope, records = case.by_hand(STEP)[-1]
    assert [each.record for each in found.examples] == records
    wrong_by = case.errors_of(slope, records)
    losses = [each.losses['squared'] for each in found.examples]
    np.testing.assert_allclose(losses, np.square(wrong_by), rtol=1e-4)
    assert found.losses['total_loss'] == pytest.approx(np.mean(np.square(wrong_by)), rel=1e-4)
    x = np.array([case.POINTS[record] for record in records])
    norm = abs(np.mean(2.0 * wrong_by * x))
    assert found.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert found.gradient_norms == {'slope': found.gradient_norm}
    largest = [value for _, value in found.activations]
    assert largest[0] == pytest.approx(max(slope, 1.0) * max(x), rel=1e-5)
    assert largest == sorted(largest, reverse=True)


def test_numbers_of_a_step(run):
    check_numbers(diagnose(run))


def test_micro_batches_have_means(run):
    config = type(run.config)()
    config.CopyFrom(run.config)
    config.train_config.accumulate_steps = 2
    check_numbers(diagnose(dataclasses.replace(run, config=config)))


class DroppedLine(case.MislabeledLine):
    """A task that drops half of its predictions in training."""

    def predict(self, features, mode, labels=None):
        return {
            name: layers.dropout(values, 0.5, mode == 'train', 'drop')
            for name, values in super().predict(features, mode, labels).items()
        }


def test_micro_batches_draw_what_they_drew_in_training(tmp_path):
    config = case.create_config(tmp_path, accumulate_steps=2, num_steps=STEP)
    task = DroppedLine()
    case.training.train_and_evaluate(task, config, str(tmp_path / 'run'), evaluate=False)
    run = case.read(tmp_path, config, task)
    found = diagnose(run)
    # The loss of an example whose prediction is dropped is the square of its label.
    recorded = run.recorded[STEP]['train/loss']
    assert found.losses['total_loss'] == pytest.approx(recorded, rel=1e-5)


class WholeBatch(case.MislabeledLine):
    """A task with a prediction that has no row for each example."""

    def predict(self, features, mode, labels=None):
        return {**super().predict(features, mode, labels), 'weights': tf.ones([3])}


def test_without_losses_of_single_examples_those_of_the_batch_remain(run):
    found = diagnose(dataclasses.replace(run, task=WholeBatch()))
    assert [each.losses for each in found.examples] == [{}, {}]
    slope, records = case.by_hand(STEP)[-1]
    assert found.losses['squared'] == pytest.approx(case.loss_of(slope, records), rel=1e-4)
