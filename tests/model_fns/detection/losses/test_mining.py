import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import targets
from model_fns.detection.losses import mining
from protos import losses_pb2
from tests.model_fns.detection import slow_suppression

tf1 = tf.compat.v1


def build(text):
    losses = {'weighted_sigmoid': {}}, {'weighted_smooth_l1': {}}
    config = losses_pb2.Loss(classification_loss=losses[0], localization_loss=losses[1])
    return mining.build_reduction(Section(text_format.Merge(text, config), 'model.ssd.loss'))


def assigned_of(matches, weights=None, columns=3):
    matches = np.asarray(matches, np.int32)
    weights = matches > -2 if weights is None else weights
    of_classes = np.repeat(np.asarray(weights, np.float32)[..., None], columns, axis=-1)
    return targets.Targets(None, tf.constant(of_classes), None, None, tf.constant(matches))


def reduce(reduction, classification, localization, matches, boxes=None, step=None, seed=None):
    """Compute both sums, and the weight of each anchor (the gradient of the total)."""
    with tf.Graph().as_default(), tf1.Session() as session:
        if seed is not None:
            tf1.set_random_seed(seed)
        if step is not None:
            tf1.train.create_global_step()
        losses = mining.AnchorLosses(
            tf.constant(np.asarray(classification, np.float32)),
            tf.constant(np.asarray(localization, np.float32)),
        )
        sums = reduction.reduce(
            losses,
            assigned_of(matches),
            lambda: tf.constant(np.asarray(boxes, np.float32)),
        )
        weights = tf.gradients(sums[0] + sums[1], [losses.classification, losses.localization])
        if step is not None:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.assign(tf1.train.get_global_step(), step))
        return session.run((sums, weights))


def apart(count):
    """Return boxes that do not overlap."""
    corners = np.stack([np.arange(count), np.zeros(count)], axis=-1)
    return np.concatenate([corners, corners + 0.9], axis=-1)


def test_sum():
    of_classes = [[[1, 2, 0], [0, 0, 3]], [[1, 1, 1], [0, 4, 0]]]
    (classification, localization), weights = reduce(
        build(''), of_classes, [[1, 2], [3, 4]], [[0, -1], [-1, -1]]
    )
    assert (classification, localization) == (13, 10)
    assert np.unique(weights[0]).tolist() == [1]


BOXES = [[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [4, 4, 5, 5], [6, 6, 7, 7]]]


class TestHardExamples:
    def kept(self, text, classification, localization=(0,) * 5, matches=(-1,) * 5, boxes=BOXES):
        _, weights = reduce(
            build(f'hard_example_miner {{ {text} }}'),
            [classification],
            [localization],
            [matches],
            boxes,
        )
        np.testing.assert_array_equal(*weights)
        return np.flatnonzero(weights[0][0]).tolist()

    def test_of_overlapping_anchors_the_hardest_counts(self):
        assert self.kept('', [1, 2, 3, 4, 5]) == [1, 2, 3, 4]
        assert self.kept('', [2, 1, 3, 4, 5]) == [0, 2, 3, 4]
        assert self.kept('iou_threshold: 0.95', [2, 1, 3, 4, 5]) == [0, 1, 2, 3, 4]

    def test_the_hardest_count(self):
        assert self.kept('num_hard_examples: 2', [1, 5, 2, 4, 3]) == [1, 3]
        assert self.kept('num_hard_examples: 0', [1, 5, 2, 4, 3]) == [1, 2, 3, 4]

    def test_hard_by_which_loss(self):
        losses = [1, 1, 9, 1, 1], [1, 1, 1, 5, 1]
        assert self.kept('num_hard_examples: 1 loss_type: CLASSIFICATION', *losses) == [2]
        assert self.kept('num_hard_examples: 1 loss_type: LOCALIZATION', *losses) == [3]
        assert self.kept('num_hard_examples: 1 loss_type: BOTH', *losses) == [2]

    def test_both_losses_are_weighted(self):
        config = 'localization_weight: 3 hard_example_miner { num_hard_examples: 1 }'
        _, weights = reduce(build(config), [[1, 1, 9, 1, 1]], [[1, 1, 1, 5, 1]], [[-1] * 5], BOXES)
        assert np.flatnonzero(weights[0][0]).tolist() == [3]

    def test_negatives_by_positives(self):
        # By falling loss: 4 (negative), 3 (ignored), 2 (negative), 0 (positive), 5, 6, 7, 1.
        losses = [5, 1, 6, 7, 8, 4, 3, 2]
        matches = [0, -1, -1, -2, -1, -1, -1, -1]
        boxes = [apart(8)]
        text = 'max_negatives_per_positive: '
        zeros = [0] * 8
        assert self.kept(text + '1', losses, zeros, matches, boxes) == [0, 4]
        assert self.kept(text + '3', losses, zeros, matches, boxes) == [0, 2, 4, 5]
        assert self.kept(text + '1 min_negatives_per_image: 2', losses, zeros, matches, boxes) == [
            0,
            2,
            4,
        ]
        # The positive is not among the hard ones.
        assert self.kept('num_hard_examples: 3 ' + text + '2', losses, zeros, matches, boxes) == []

    def test_an_image_without_positives_has_its_least_negatives(self):
        assert self.kept('max_negatives_per_positive: 3', [1, 2, 3, 4, 5]) == []
        text = 'max_negatives_per_positive: 3 min_negatives_per_image: 2'
        assert self.kept(text, [1, 2, 3, 4, 5]) == [3, 4]

    def test_sums(self):
        of_classes = np.arange(30, dtype=np.float32).reshape([2, 5, 3])
        of_boxes = np.arange(10, dtype=np.float32).reshape([2, 5])
        sums, _ = reduce(
            build('hard_example_miner { num_hard_examples: 2 }'),
            of_classes,
            of_boxes,
            [[-1] * 5] * 2,
            BOXES * 2,
        )
        assert sums == (of_classes[:, 3:].sum(), of_boxes[:, 3:].sum())

    @pytest.mark.parametrize('limit', [0, 40])
    @pytest.mark.parametrize('threshold', [0.0, 0.5, 0.9, 0.95, 1.0])
    def test_is_its_definition(self, threshold, limit):
        rng = np.random.RandomState(limit)
        batch, anchors = 4, 150
        corners = rng.uniform(0, 4, [batch, 40, 2])[:, rng.randint(40, size=anchors)]
        corners += rng.uniform(0, 0.02, corners.shape)
        boxes = np.concatenate([corners, corners + 1.0], axis=-1).astype(np.float32)
        losses = rng.randint(12, size=[batch, anchors]).astype(np.float32)
        matches = rng.choice([-2, -1, -1, -1, 0], size=[batch, anchors])
        text = 'num_hard_examples: %d iou_threshold: %g max_negatives_per_positive: 1'
        _, weights = reduce(
            build(f'hard_example_miner {{ {text % (limit, threshold)} }}'),
            losses,
            np.zeros_like(losses),
            matches,
            boxes,
        )
        for image in range(batch):
            hard, _ = slow_suppression.greedy(
                boxes[image], losses[image], limit or anchors, threshold
            )
            positive = [row for row in hard if matches[image, row] >= 0]
            negative = [row for row in hard if matches[image, row] == -1]
            expected = sorted(positive + negative[: len(positive)])
            assert np.flatnonzero(weights[0][image]).tolist() == expected


class TestSampledExamples:
    MATCHES = np.array([[0, 1, -2] + [-1] * 97, [2] + [-1] * 99, [-1] * 100])

    def drawn(self, fraction, step=None, seed=None, also=''):
        text = f'random_example_sampler {{ positive_sample_fraction: {fraction} }} {also}'
        losses = np.ones([3, 100]) + np.arange(100)
        return reduce(
            build(text), losses, losses, self.MATCHES, np.stack([apart(100)] * 3), step, seed
        )

    def test_negatives_make_up_the_rest(self):
        sums, weights = self.drawn(0.1)
        positive = weights[0][:, 0]
        assert positive.tolist() == [1, 1, 0]
        assert weights[0].sum(1).tolist() == [2 + 18, 1 + 9, 0]
        assert weights[0][0, 2] == 0  # an ignored anchor is never drawn
        np.testing.assert_array_equal(*weights)
        assert sums[0] == pytest.approx((weights[0] * (1 + np.arange(100))).sum())

    def test_there_may_not_be_enough_negatives(self):
        _, weights = self.drawn(0.01)
        assert weights[0].sum(1).tolist() == [99, 100, 0]

    def test_positives_alone(self):
        _, weights = self.drawn(1.0)
        assert weights[0].sum(1).tolist() == [2, 1, 0]

    def test_draws_depend_on_seed_and_step_alone(self):
        def draw(step, seed):
            return self.drawn(0.1, step, seed)[1][0]

        first = draw(3, 1)
        np.testing.assert_array_equal(first, draw(3, 1))
        assert (first != draw(4, 1)).any()
        assert (first != draw(3, 2)).any()

    def test_draws_are_even(self):
        with tf.Graph().as_default(), tf1.Session() as session:
            step = tf1.train.create_global_step()
            text = 'random_example_sampler { positive_sample_fraction: 0.1 }'
            weights = build(text).anchor_weights(
                mining.AnchorLosses(tf.ones([3, 100]), tf.ones([3, 100])),
                assigned_of(self.MATCHES),
                lambda: None,
            )
            session.run(tf1.global_variables_initializer())
            counts = np.zeros(100)
            for _ in range(40):
                counts += session.run(weights)[1]
                session.run(tf1.assign_add(step, 1))
        # 40 draws of 9 out of 99.
        assert counts[0] == 40
        assert counts[1:].max() < 14
        assert counts[1:].sum() == 40 * 9

    def test_hard_ones_of_those_that_were_drawn(self):
        _, weights = self.drawn(0.1)
        _, hard = self.drawn(0.1, also='hard_example_miner { num_hard_examples: 4 }')
        for all_drawn, kept in zip(weights[0][:2], hard[0][:2]):
            np.testing.assert_array_equal(np.flatnonzero(kept), np.flatnonzero(all_drawn)[-4:])


class TestWeightedNegatives:
    MATCHES = np.array([[0, 1, -2, -1, -1, -1, -1], [-1] * 7])

    def weights(self, text):
        _, weights = reduce(build(text), np.ones([2, 7]), np.ones([2, 7]), self.MATCHES)
        np.testing.assert_array_equal(*weights)
        return weights[0]

    def test_expected_sampling(self):
        # 4 negatives for 2 positives: of 4 negatives all, of the second image's none.
        weights = self.weights(
            'expected_loss_weights: EXPECTED_SAMPLING desired_negative_sampling_ratio: 1.5'
        )
        np.testing.assert_allclose(weights, [[1, 1, 0] + [0.75] * 4, [0] * 7])

    def test_expected_sampling_cannot_draw_more_than_there_are(self):
        weights = self.weights('expected_loss_weights: EXPECTED_SAMPLING')
        np.testing.assert_allclose(weights, [[1, 1, 0, 1, 1, 1, 1], [0] * 7])

    def test_reweighting_unmatched_anchors(self):
        weights = self.weights('expected_loss_weights: REWEIGHTING_UNMATCHED_ANCHORS')
        np.testing.assert_allclose(weights, [[1, 1, 0] + [1.5] * 4, [0] * 7])

    def test_least_negatives(self):
        text = 'min_num_negative_samples: 3.5 desired_negative_sampling_ratio: 1'
        weights = self.weights(f'expected_loss_weights: REWEIGHTING_UNMATCHED_ANCHORS {text}')
        np.testing.assert_allclose(weights, [[1, 1, 0] + [3.5 / 4] * 4, [0.5] * 7], rtol=1e-6)


@pytest.mark.parametrize(
    ('text', 'path', 'value'),
    [
        ('hard_example_miner { iou_threshold: 1.5 }', 'hard_example_miner.iou_threshold', '1.5'),
        ('hard_example_miner { num_hard_examples: -1 }', 'num_hard_examples', '-1'),
        ('hard_example_miner { min_negatives_per_image: -2 }', 'min_negatives_per_image', '-2'),
        ('hard_example_miner { max_negatives_per_positive: -3 }', 'negatives_per_positive', '-3'),
        ('random_example_sampler { positive_sample_fraction: 0 }', 'positive_sample_fraction', '0'),
        (
            'random_example_sampler { positive_sample_fraction: 1.5 }',
            'random_example_sampler.positive_sample_fraction',
            '1.5',
        ),
        (
            'expected_loss_weights: EXPECTED_SAMPLING min_num_negative_samples: -1',
            'min_num_negative_samples',
            '-1',
        ),
        (
            'expected_loss_weights: EXPECTED_SAMPLING hard_example_miner {}',
            'expected_loss_weights',
            'hard_example_miner',
        ),
        (
            'classification_loss { weighted_sigmoid_focal {} } hard_example_miner {}',
            'hard_example_miner',
            'weighted_sigmoid_focal',
        ),
        ('equalization_loss { weight: 0.5 }', 'equalization_loss.weight', 'leave it out'),
    ],
)
def test_what_cannot_be_is_refused(text, path, value):
    with pytest.raises(errors.ConfigError) as error:
        build(text)
    assert str(error.value).startswith('model.ssd.loss.')
    assert path in str(error.value) and value in str(error.value)


@pytest.mark.parametrize(
    'text',
    [
        'hard_example_miner { iou_threshold: 0.99 max_negatives_per_positive: 3 }',
        'random_example_sampler { positive_sample_fraction: 0.2 }',
        'expected_loss_weights: EXPECTED_SAMPLING',
    ],
)
def test_the_graph_does_not_grow(text):
    def count(batch, anchors, columns):
        with tf.Graph().as_default() as graph:
            losses = mining.AnchorLosses(
                tf1.placeholder(tf.float32, [batch, anchors, columns]),
                tf1.placeholder(tf.float32, [batch, anchors]),
            )
            boxes = tf1.placeholder(tf.float32, [batch, anchors, 4])
            matches = tf1.placeholder(tf.int32, [batch, anchors])
            weights = tf1.placeholder(tf.float32, [batch, anchors, columns])
            assigned = targets.Targets(None, weights, None, None, matches)
            build(text).reduce(losses, assigned, lambda: boxes)
            return len(graph.get_operations())

    assert count(2, 100, 4) == count(24, 2000, 91) < 220
