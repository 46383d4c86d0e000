import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import axis_aligned, rotated
from model_fns.detection.losses import losses
from protos import losses_pb2

tf1 = tf.compat.v1
log, exp = np.log, np.exp

IOU = losses.OverlapLoss(axis_aligned.elementwise_iou)
GIOU = losses.OverlapLoss(axis_aligned.elementwise_giou)


def run(loss, predictions, targets, weights):
    arrays = [np.asarray(part, np.float32) for part in (predictions, targets, weights)]
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(loss(*(tf.constant(array) for array in arrays)))


def gradient(loss, predictions, targets, weights):
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf.constant(np.asarray(predictions, np.float32))
        value = loss(variable, *(tf.constant(part, tf.float32) for part in (targets, weights)))
        return session.run(tf.gradients(value, variable)[0])


def run_with(loss, *arguments):
    """Compute a loss that takes overlaps too."""
    return loss(*(tf.constant(each, tf.float32) for each in arguments)).numpy()


class TestLocalization:
    PREDICTIONS = np.array([[[1.0, 2.0, -3.0, 0.0], [0.5, 0.0, 0.0, 0.0]]])
    TARGETS = np.array([[[0.0, 2.5, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]]])
    WEIGHTS = np.array([[1.0, 0.5]])

    def run(self, loss):
        return run(loss, self.PREDICTIONS, self.TARGETS, self.WEIGHTS)

    def test_l2_squares_the_weight_too(self):
        # (1 + 0.25 + 9) / 2, and (0.25^2 + 1^2) / 2.
        np.testing.assert_allclose(self.run(losses.l2), [[5.125, 0.53125]])

    def test_smooth_l1(self):
        # 0.5 + 0.125 + 2.5, and half of 0.125 + 1.5.
        np.testing.assert_allclose(self.run(losses.smooth_l1()), [[3.125, 0.8125]])

    def test_smooth_l1_turns_at_delta(self):
        # delta (error - delta / 2) from delta = 0.5 on: 0.375 + 0.125 + 1.375, 0.125 + 0.875.
        np.testing.assert_allclose(self.run(losses.smooth_l1(0.5)), [[1.875, 0.5]])

    def test_smooth_l1_has_a_gradient_of_delta_at_most(self):
        slope = gradient(losses.smooth_l1(2.0), [[[1.0, 5.0, -9.0, 0.0]]], [[[0.0] * 4]], [[3.0]])
        np.testing.assert_allclose(slope, [[[3.0, 6.0, -6.0, 0.0]]])

    def test_l1(self):
        np.testing.assert_allclose(self.run(losses.l1), [[4.5, 1.25]])

    BOXES = np.array([[[0, 0, 2, 2], [0, 0, 1, 1], [0, 0, 0, 0.0]]])
    OTHERS = np.array([[[0, 1, 2, 3], [2, 2, 3, 3], [0, 0, 0, 0.0]]])

    def test_iou(self):
        # Half of each box is shared: 2 / 6. No weight: no loss.
        values = run(IOU, self.BOXES, self.OTHERS, [[1.0, 0.5, 0.0]])
        np.testing.assert_allclose(values, [[2 / 3, 0.5, 0.0]], rtol=1e-6)

    def test_giou(self):
        # Within their frame of 6 the first two leave nothing; the others leave 7 of 9.
        values = run(GIOU, self.BOXES, self.OTHERS, [[1.0, 0.5, 0.0]])
        np.testing.assert_allclose(values, [[2 / 3, (1 + 7 / 9) / 2, 0.0]], rtol=1e-6)

    @pytest.mark.parametrize('loss', [IOU, GIOU])
    def test_boxes_without_area_have_a_finite_gradient(self, loss):
        slope = gradient(loss, self.BOXES, self.OTHERS, [[1.0, 1.0, 1.0]])
        assert np.isfinite(slope).all()


class TestClassification:
    LOGITS = np.array([[[0.0, log(3.0)], [-log(3.0), 0.0]]])  # probabilities 1/2 3/4 and 1/4 1/2
    TARGETS = np.array([[[0.0, 1.0], [1.0, 0.5]]])
    WEIGHTS = np.array([[[1.0, 1.0], [2.0, 1.0]]])
    ENTROPIES = np.array([[[log(2), log(4 / 3)], [log(4), log(2)]]])

    def run(self, loss):
        return run(loss, self.LOGITS, self.TARGETS, self.WEIGHTS)

    def test_sigmoid(self):
        values = self.run(losses.sigmoid)
        np.testing.assert_allclose(values, self.ENTROPIES * self.WEIGHTS, rtol=1e-6)

    def test_sigmoid_of_large_logits_is_finite(self):
        values = run(losses.sigmoid, [[[100.0, -100.0]]], [[[0.0, 1.0]]], [[[1.0, 1.0]]])
        np.testing.assert_allclose(values, [[[100.0, 100.0]]])

    def test_focal(self):
        # 1 - p_t is 1/2, 1/4, 3/4 and 1/2.
        misses = np.array([[[1 / 2, 1 / 4], [3 / 4, 1 / 2]]])
        for gamma in (0.0, 1.0, 2.0, 3.5):
            expected = misses**gamma * self.ENTROPIES * self.WEIGHTS
            values = self.run(losses.sigmoid_focal(gamma))
            np.testing.assert_allclose(values, expected, rtol=1e-5)

    @pytest.mark.parametrize('gamma', [0.01, 0.5, 1.0, 1.5])
    def test_focal_of_certain_predictions_has_a_gradient(self, gamma):
        logits = tf.constant([[[200.0, -200.0, 20.0, -20.0, 200.0, -200.0]]])
        targets = tf.constant([[[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]]])
        with tf.GradientTape() as tape:
            tape.watch(logits)
            values = losses.sigmoid_focal(gamma)(logits, targets, tf.ones_like(logits))
        # What is right for certain has no slope, what is wrong for certain that of its entropy.
        np.testing.assert_allclose(values[0, 0], [0, 0, 0, 0, 200, 200], atol=1e-6)
        slopes = tape.gradient(values, logits)[0, 0]
        np.testing.assert_allclose(slopes, [0, 0, 0, 0, 1, -1], atol=1e-6)

    def test_focal_with_alpha(self):
        alphas = np.array([[[0.75, 0.25], [0.25, 0.5]]])
        expected = alphas * self.run(losses.sigmoid_focal(2.0))
        np.testing.assert_allclose(self.run(losses.sigmoid_focal(2.0, 0.25)), expected, rtol=1e-5)

    def test_quality_focal(self):
        # Targets 0.5, 0, 0.25 and 0: entropies for the probability 1/2 are log 2, for 3/4 with the
        # target 0.25 they are 3/4 log 4 + 1/4 log 4/3.
        logits, targets = [[[0.0, log(3)], [log(3), 0.0]]], [[[1.0, 0.0], [1.0, 0.0]]]
        values = run_with(losses.QualityFocalLoss(), logits, targets, self.WEIGHTS, [[0.5, 0.25]])
        hard = (0.75 * log(4) + 0.25 * log(4 / 3)) / 4
        expected = [[[0, 9 / 16 * log(4)], [2 * hard, log(2) / 4]]]
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-9)

    def test_softmax(self):
        # Probabilities 1/4 3/4 and 1/4 3/4; an anchor weighs the mean of its classes' weights.
        expected = [[-log(3 / 4), 1.5 * (-log(1 / 4) - 0.5 * log(3 / 4))]]
        np.testing.assert_allclose(self.run(losses.softmax()), expected, rtol=1e-6)

    def test_softmax_with_a_scale(self):
        values = run(losses.softmax(2.0), 2 * self.LOGITS, self.TARGETS, self.WEIGHTS)
        np.testing.assert_allclose(values, self.run(losses.softmax()), rtol=1e-6)

    def test_softmax_against_logits(self):
        teacher = [[[0.0, 2 * log(4.0)], [0.0, 0.0]]]  # halved: 1/5 4/5 and 1/2 1/2
        values = run(losses.softmax_against_logits(2.0), 2 * self.LOGITS, teacher, self.WEIGHTS)
        expected = [
            [
                -0.2 * log(1 / 4) - 0.8 * log(3 / 4),
                1.5 * -0.5 * (log(1 / 4) + log(3 / 4)),
            ]
        ]
        np.testing.assert_allclose(values, expected, rtol=1e-6)

    def test_bootstrapped_sigmoid(self):
        # Targets 0.8 t + 0.2 p.
        mixed = 0.8 * self.TARGETS + 0.2 * np.array([[[1 / 2, 3 / 4], [1 / 4, 1 / 2]]])
        p = 1 / (1 + exp(-self.LOGITS))
        expected = -(mixed * log(p) + (1 - mixed) * log(1 - p)) * self.WEIGHTS
        values = self.run(losses.bootstrapped_sigmoid(0.8))
        np.testing.assert_allclose(values, expected, rtol=1e-5)

    def test_hard_bootstrapped_sigmoid(self):
        mixed = 0.8 * self.TARGETS + 0.2 * np.array([[[0, 1], [0, 0]]])
        p = 1 / (1 + exp(-self.LOGITS))
        expected = -(mixed * log(p) + (1 - mixed) * log(1 - p)) * self.WEIGHTS
        values = self.run(losses.bootstrapped_sigmoid(0.8, hard=True))
        np.testing.assert_allclose(values, expected, rtol=1e-5)


def build_classification(text):
    config = text_format.Parse(text, losses_pb2.ClassificationLoss())
    return losses.build_classification_loss(Section(config, 'here.classification_loss'), 2)


def build_localization(text):
    config = text_format.Parse(text, losses_pb2.LocalizationLoss())
    return losses.build_localization_loss(Section(config, 'here.localization_loss'), axis_aligned)


@pytest.mark.parametrize(
    ('text', 'loss'),
    [
        ('weighted_l2 {}', losses.l2),
        ('weighted_smooth_l1 { delta: 0.5 }', losses.smooth_l1(0.5)),
        ('weighted_smooth_l1 {}', losses.smooth_l1(1.0)),
        ('l1_localization_loss {}', losses.l1),
        ('weighted_iou {}', IOU),
        ('weighted_giou {}', GIOU),
    ],
)
def test_build_localization_loss(text, loss):
    arguments = [[[0.0, 0.0, 2.0, 2.0]]], [[[0.0, 0.0, 1.0, 0.6]]], [[0.5]]
    np.testing.assert_array_equal(run(build_localization(text), *arguments), run(loss, *arguments))


def test_losses_of_decoded_boxes():
    decoded = [build_localization(f'{kind} {{}}') for kind in ('weighted_iou', 'weighted_giou')]
    assert decoded == [IOU, GIOU]
    assert not isinstance(build_localization('weighted_l2 {}'), losses.OverlapLoss)


def test_the_weight_of_a_class_does_not_depend_on_the_overlap():
    weighted = losses.weight_classes(losses.QualityFocalLoss(), [3.0, 1.0])
    arguments = [[[0.5, -2.0]]], [[[1.0, 0.0]]], [[[0.5, 0.5]]], [[0.25]]
    values = run_with(weighted, *arguments)
    np.testing.assert_allclose(values, 3 * run_with(losses.QualityFocalLoss(), *arguments))


@pytest.mark.parametrize(
    ('text', 'loss'),
    [
        ('weighted_sigmoid {}', losses.sigmoid),
        ('weighted_sigmoid_focal {}', losses.sigmoid_focal(2.0)),
        (
            'weighted_sigmoid_focal { gamma: 1.5 alpha: 0.25 }',
            losses.sigmoid_focal(1.5, 0.25),
        ),
        ('weighted_softmax { logit_scale: 3 }', losses.softmax(3.0)),
        ('weighted_logits_softmax { logit_scale: 3 }', losses.softmax_against_logits(3.0)),
        ('bootstrapped_sigmoid { alpha: 0.7 }', losses.bootstrapped_sigmoid(0.7)),
        (
            'bootstrapped_sigmoid { alpha: 0.7 hard_bootstrap: true }',
            losses.bootstrapped_sigmoid(0.7, True),
        ),
    ],
)
def test_build_classification_loss(text, loss):
    arguments = [[[0.5, -2.0, 1.0]]], [[[1.0, 0.0, 0.0]]], [[[0.5, 0.5, 0.5]]]
    np.testing.assert_array_equal(
        run(build_classification(text), *arguments), run(loss, *arguments)
    )


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', 'empty'),
        ('penalty_reduced_logistic_focal_loss {}', 'penalty_reduced_logistic_focal_loss'),
        ('weighted_dice_classification_loss {}', 'weighted_dice_classification_loss'),
    ],
)
def test_what_is_no_classification_loss_of_anchors_is_refused(text, message):
    with pytest.raises(errors.ConfigError) as error:
        build_classification(text)
    assert str(error.value).startswith('here.classification_loss') and message in str(error.value)


def test_an_empty_localization_loss_is_refused():
    with pytest.raises(errors.ConfigError, match='^here.localization_loss: empty'):
        build_localization('')


class TestGaussian:
    def build(self, text, family=rotated):
        config = text_format.Parse(text, losses_pb2.LocalizationLoss())
        return losses.build_localization_loss(Section(config, 'here'), family)

    def test_wasserstein_by_hand(self):
        # Circles of the standard deviation 1, 3 apart: 3 / (2 * 1).
        boxes, others = [[[0.0, 0, 2, 2, 0.4]]], [[[0.0, 3, 2, 2, 0]]]
        found = run(self.build('gaussian_wasserstein {}'), boxes, others, [[0.5]])
        np.testing.assert_allclose(found, [[0.5 * (1 - 1 / (1 + log(2.5)))]], rtol=1e-4)

    def test_kullback_leibler_by_hand(self):
        # 9 / 2 with equal covariances.
        boxes, others = [[[0.0, 0, 2, 2, 0.4]]], [[[0.0, 3, 2, 2, 0]]]
        loss = self.build('gaussian_kullback_leibler { tau: 2 function: SQRT }')
        expected = 1 - 1 / (2 + np.sqrt(4.5))
        np.testing.assert_allclose(run(loss, boxes, others, [[1.0]]), [[expected]], rtol=1e-4)

    @pytest.mark.parametrize(
        'text, family',
        [('gaussian_wasserstein {}', axis_aligned), ('weighted_giou {}', rotated)],
    )
    def test_losses_of_other_boxes(self, text, family):
        with pytest.raises(errors.ConfigError, match='not for these boxes'):
            self.build(text, family)


@pytest.mark.parametrize('columns', [2, 3])
@pytest.mark.parametrize('kind', ['weighted_sigmoid', 'weighted_softmax', 'weighted_sigmoid_focal'])
def test_class_weights_multiply_the_loss_of_matched_anchors(kind, columns):
    config = text_format.Parse(f'{kind} {{ }}', losses_pb2.ClassificationLoss())
    random = np.random.RandomState(0)
    logits, weights = random.normal(size=[1, 3, columns]), random.uniform(size=[1, 3, columns])
    # Anchors of class 1, of class 2 and of background.
    targets = np.eye(3)[[1, 2, 0]][np.newaxis, :, 3 - columns :]
    plain = run(
        losses.build_classification_loss(Section(config, 'here'), 2), logits, targets, weights
    )
    config.class_weights.extend([0.5, 3.0])
    weighted = run(
        losses.build_classification_loss(Section(config, 'here'), 2), logits, targets, weights
    )
    factors = np.array([0.5, 3.0, 1.0]).reshape([1, 3] + [1] * (plain.ndim - 2))
    np.testing.assert_allclose(weighted, plain * factors, rtol=1e-5)


def test_a_weight_too_few_is_refused():
    text = 'weighted_sigmoid { } class_weights: 2'
    config = text_format.Parse(text, losses_pb2.ClassificationLoss())
    with pytest.raises(errors.ConfigError, match='here.class_weights: 1 numbers; expected one for'):
        losses.build_classification_loss(Section(config, 'here'), 2)
