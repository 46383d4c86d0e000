"""The first stage, held against recorded cases of its parts."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import model, regions, sampling
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.detections import suppression
from tests.model_fns.detection.architectures.faster_rcnn import oracles

EVERYTHING = sampling.BalancedSampler(100000, 1.0)
LOSSES = regions.RegionLosses(model.CODER, EVERYTHING, localization_weight=2.0)


def test_head():
    case = oracles.case('rpn_head')
    head = regions.RegionHead(layers.LayerStyle(activation=None), depth=6, rate=2)
    codes, logits = oracles.run(lambda: head.predict([tf.constant(case['features'])], [12]), case)
    np.testing.assert_allclose(codes, case['encodings'], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(logits, case['objectness'], rtol=1e-4, atol=1e-5)


def test_several_maps_share_the_first_layer_and_have_heads_of_their_own():
    random = np.random.RandomState(0)
    maps = [random.normal(size=[2, *size, 3]).astype(np.float32) for size in ((4, 6), (2, 3))]
    shared = {
        'var/Conv/weights': random.normal(size=[3, 3, 3, 5]),
        'var/Conv/biases': random.normal(size=[5]),
    }
    heads = [
        {
            'BoxEncodingPredictor/weights': random.normal(size=[1, 1, 5, 8]),
            'BoxEncodingPredictor/biases': random.normal(size=[8]),
            'ClassPredictor/weights': random.normal(size=[1, 1, 5, 4]),
            'ClassPredictor/biases': random.normal(size=[4]),
        }
        for _ in maps
    ]
    head = regions.RegionHead(layers.LayerStyle(activation=None), depth=5)
    of_each = []
    for features, values in zip(maps, heads):
        named = {f'var/FirstStageBoxPredictor/{name}': one for name, one in values.items()}
        of_each.append(oracles.run(lambda f=features: head.predict([f], [2]), {**shared, **named}))
    named = {
        f'var/FirstStageBoxPredictor_{index}/{name}': one
        for index, values in enumerate(heads)
        for name, one in values.items()
    }
    together = oracles.run(lambda: head.predict(maps, [2, 2]), {**shared, **named})
    for ours, parts in zip(together, zip(*of_each)):
        np.testing.assert_allclose(ours, np.concatenate(parts, axis=1), rtol=1e-5, atol=1e-5)
    assert together[0].shape == (2, 2 * (24 + 6), 4)


class TestAnchorsInside:
    def test_recorded(self):
        case = oracles.case('prune_clip')
        rows = regions.rows_inside(case['boxes'], case['window'][2:], 'here')
        np.testing.assert_array_equal(rows, case['kept_indices'])
        clipped = axis_aligned.clip_to_window(case['boxes'], case['window'])
        np.testing.assert_array_equal(clipped, case['clipped_all'])

    def test_of_a_size_that_is_known_at_run_time(self):
        case = oracles.case('prune_clip')
        size = tuple(tf.constant(case['window'][2:].astype(int)))
        rows = regions.rows_inside(tf.constant(case['boxes']), size, 'here')
        np.testing.assert_array_equal(rows, case['kept_indices'])

    def test_there_is_none(self):
        boxes = np.array([[-1, 0, 5, 5], [0, 0, 50, 5]], np.float32)
        with pytest.raises(errors.ConfigError, match=r'^here: at 40x60 pixels no anchor is inside'):
            regions.rows_inside(boxes, (40, 60), 'here')
        with pytest.raises(tf.errors.InvalidArgumentError, match='here: no anchor is inside'):
            regions.rows_inside(tf.constant(boxes), (tf.constant(40), tf.constant(60)), 'here')


@pytest.mark.parametrize(
    'name',
    [
        'rpn_targets',
        'rpn_targets_no_boxes',
        'rpn_targets_zero_iou',
        'rpn_targets_zero_iou_weight0',
    ],
)
def test_targets(name):
    case = oracles.case(name)
    boxes = case.get('boxes', np.zeros([0, 4], np.float32))
    weights = case.get('box_weights', np.zeros([0], np.float32))
    groundtruth = oracles.groundtruth([boxes], [np.ones([len(boxes), 3])], [weights])
    assigned = LOSSES.targets(tf.constant(case['anchors']), groundtruth)
    check_targets(assigned, case, assigned.class_targets[0, :, 1:])


def test_background_is_not_known_where_not_all_classes_were_looked_for():
    anchors = tf.constant([[0.0, 0.0, 8.0, 8.0], [40.0, 40.0, 48.0, 48.0]])
    box = np.float32([[0, 0, 8, 8]])
    groundtruth = oracles.groundtruth([box, box], [np.eye(2)[:1]] * 2, [np.ones(1)] * 2)
    known = tf.constant([[1.0, 0.0], [1.0, 1.0]])
    groundtruth = dataclasses.replace(groundtruth, labeled_classes=known)
    assigned = LOSSES.targets(anchors, groundtruth)
    # The matched anchor counts in both images, the other one in the second only.
    assert assigned.class_weights.numpy().max(axis=-1).tolist() == [[1, 0], [1, 1]]
    assert assigned.class_weights.numpy()[1, 1].tolist() == [1, 1]


def check_targets(assigned, case, classes):
    np.testing.assert_array_equal(assigned.matches[0], case['match'])
    np.testing.assert_array_equal(classes, case['cls_targets'])
    weights = assigned.class_weights[0, :, : case['cls_weights'].shape[1]]
    np.testing.assert_array_equal(weights, case['cls_weights'])
    np.testing.assert_array_equal(assigned.box_weights[0], case['reg_weights'])
    np.testing.assert_allclose(assigned.box_targets[0], case['reg_targets'], rtol=1e-4, atol=1e-5)


def recorded_groundtruth():
    case = oracles.case('rpn_loss')
    pairs = [
        [case[f'{name}{image}'] for image in range(2)] for name in ('boxes', 'classes', 'weights')
    ]
    boxes = [oracles.in_pixels(one, case['image_shapes'][0]) for one in pairs[0]]
    return oracles.groundtruth(boxes, *pairs[1:])


class TestLosses:
    def test_recorded(self):
        case = oracles.case('rpn_loss')
        inputs = [case[name] for name in ('encodings', 'objectness', 'anchors')]
        losses = oracles.run(lambda: LOSSES(*map(tf.constant, inputs), recorded_groundtruth()))
        np.testing.assert_allclose(losses, case['losses'], rtol=1e-5)

    def test_of_an_image_without_boxes_all_drawn_anchors_are_background(self):
        def build():
            nothing = oracles.groundtruth([np.zeros([0, 4])], [np.zeros([0, 3])])
            boxes = tf.constant(np.tile([[0, 0, 9, 9]], [6, 1]), tf.float32)
            sampler = sampling.BalancedSampler(4, 0.5)
            return regions.RegionLosses(model.CODER, sampler, objectness_weight=3.0)(
                tf.ones([1, 6, 4]), tf.zeros([1, 6, 2]), boxes, nothing
            )

        losses = oracles.run(build)
        np.testing.assert_allclose(losses, [0, 3 * np.log(2)], rtol=1e-6)


def proposals_of(case):
    boxes = model.CODER.decode(tf.constant(case['encodings']), tf.constant(case['anchors']))
    rules = suppression.Rules(0.0, 0.7, 4, 4)
    true = case['true_image_shapes'][:, :2].astype(np.float32)
    windows = np.concatenate([np.zeros_like(true), true], 1)
    return regions.propose(boxes, tf.constant(case['objectness']), rules, tf.constant(windows))


def test_proposals():
    case = oracles.case('rpn_postprocess')
    found = proposals_of(case)
    np.testing.assert_array_equal(found.counts, case['num'])
    expected = oracles.in_pixels(case['proposals'], case['image_shapes'][0])
    np.testing.assert_allclose(found.boxes, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.scores[..., 1], case['scores'], rtol=1e-5)
    np.testing.assert_allclose(found.scores, case['multiclass_scores'], rtol=1e-5)


class TestSampledProposals:
    def sampled(self, size=16, fraction=0.25):
        case = oracles.case('proposal_sampling')

        def build():
            boxes = [
                oracles.in_pixels(case[f'boxes{image}'], case['image_shapes'][0])
                for image in range(2)
            ]
            groundtruth = oracles.groundtruth(boxes, [np.eye(3)[: len(one)] for one in boxes])
            proposals = tf.constant(case['proposals'])
            scores = tf.random.stateless_uniform([2, 40, 2], [0, 1])
            made = regions.Proposals(proposals, scores, tf.constant(case['num']))
            assigned = second_stage_targets(proposals, groundtruth)
            sampler = sampling.BalancedSampler(size, fraction)
            found = made.sampled(sampler, assigned, tf.range(2))
            return found.boxes, found.counts, assigned.matches

        return case, oracles.run(build)

    def test_counts_and_order(self):
        case, (boxes, counts, matches) = self.sampled()
        np.testing.assert_array_equal(counts, case['kept'])
        places = [
            [int(np.flatnonzero((case['proposals'][image] == box).all(1))[0]) for box in kept]
            for image, kept in enumerate(boxes)
        ]
        assert all(places[image] == sorted(places[image]) for image in range(2))
        assert all(place < case['num'][image] for image in range(2) for place in places[image])
        assert (matches[0][places[0]] >= 0).sum() == case['positives_image0'][0]

    def test_zeros_behind_the_last(self):
        _, (boxes, counts, _) = self.sampled(size=39)
        assert counts.tolist()[1] == 35
        assert not boxes[1, 35:].any() and boxes[1, :35].any(1).all()


def second_stage_targets(proposals, groundtruth):
    from model_fns.detection.architectures.faster_rcnn import second_stage
    from model_fns.detection.losses import losses, mining

    return second_stage.BoxLosses(model.CODER, losses.softmax(), mining.Sum()).targets(
        proposals, groundtruth
    )
