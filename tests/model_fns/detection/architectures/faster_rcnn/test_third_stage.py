"""Masks of boxes: the head and the loss, held against recorded cases; which rows are computed."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import model, second_stage, third_stage
from model_fns.detection.boxes import targets
from model_fns.detection.losses import losses, mining
from tests.model_fns import edge_cases
from tests.model_fns.detection.architectures.faster_rcnn import oracles
from tests.model_fns.detection.architectures.faster_rcnn.test_regions import recorded_groundtruth

ASSIGNER = second_stage.BoxLosses(model.CODER, losses.softmax(), mining.Sum())


def test_automatic_depth():
    table = oracles.case('mask_conv_depth')['table']
    ours = [third_stage.automatic_depth(int(channels), int(count)) for channels, count, _ in table]
    np.testing.assert_array_equal(ours, table[:, 2])


class TestMaskHead:
    @pytest.mark.parametrize(
        ('name', 'options'),
        [
            ('heads', {}),
            ('heads_shared_agnostic', {'shared': True}),
            ('heads_convolve_then_upsample', {'enlarges_late': True}),
        ],
    )
    def test_recorded(self, name, options):
        case = oracles.case(name)
        style = layers.LayerStyle()
        head = third_stage.MaskHead(style, 3, 8, 8, depth=0, num_layers=3, **options)
        ours = oracles.run(lambda: head.predict(tf.constant(case['features'])), case)
        np.testing.assert_allclose(ours, case['mask_predictions'][:, 0], rtol=1e-4, atol=1e-6)

    def test_sizes_that_repeated_cells_do_not_reach(self):
        head = third_stage.MaskHead(
            layers.LayerStyle(), 2, 8, 15, enlarges_late=True, where='model.head'
        )
        with tf.Graph().as_default(), pytest.raises(errors.ConfigError) as caught:
            head.predict(tf.zeros([1, 4, 4, 8]))
        assert str(caught.value) == (
            'model.head.mask_width: 15; with convolve_then_upsample_masks expected a multiple of '
            '4, the width of the features of a box.'
        )


def with_masks(size=(64, 96)):
    """Return the recorded groundtruth of two images, with its masks."""
    case = oracles.case('second_stage_loss')
    masks = np.zeros([2, 2, *size], np.uint8)
    masks[0], masks[1, :1] = case['gt_masks0'], case['gt_masks1']
    return dataclasses.replace(recorded_groundtruth(), masks=tf.constant(masks))


def loss_of(logits, boxes, rows, weight=4.0, **changes):
    groundtruth = dataclasses.replace(with_masks(), **changes)
    boxes = tf.constant(boxes)
    assigned = ASSIGNER.targets(boxes, groundtruth)
    loss = third_stage.MaskLoss(weight)
    given = tf.constant(logits[rows]), tf.constant(rows, tf.int32), boxes
    return loss(*given, assigned, groundtruth).numpy()


class TestMaskLoss:
    def test_targets(self):
        case = oracles.case('mask_targets')
        height, width = case['masks'].shape[1:]
        none = tf.zeros([1, 0, 4])
        groundtruth = targets.Groundtruth(
            none, none, none, none, masks=tf.constant(case['masks'][np.newaxis])
        )
        boxes = tf.constant(oracles.in_pixels(case['boxes'], [height, width]))
        matches = tf.constant(case['mask_of_box'], tf.int32)
        images = tf.zeros([3], tf.int32)
        ours = third_stage.MaskLoss().targets(groundtruth, boxes, images, matches, [5, 5])
        np.testing.assert_allclose(ours, case['targets'], rtol=1e-5, atol=1e-6)
        unmatched = tf.constant([-1, 0, -2])
        ours = third_stage.MaskLoss().targets(groundtruth, boxes, images, unmatched, [5, 5])
        assert not ours.numpy()[[0, 2]].any()

    def test_the_last_bit_of_a_box_on_the_edge_moves_no_target_out(self):
        """Of a mask of the whole image, all targets are 1."""
        masks = np.ones([1, 1, 256, 256], np.uint8)
        none = tf.zeros([1, 0, 4])
        groundtruth = targets.Groundtruth(none, none, none, none, masks=tf.constant(masks))
        nears = np.linspace(0, 230, 30)
        boxes = [[near, near, far, far] for near in nears for far in edge_cases.neighbors(256)]
        rows = tf.zeros([len(boxes)], tf.int32)
        boxes = tf.constant(boxes, tf.float32)
        ours = third_stage.MaskLoss().targets(groundtruth, boxes, rows, rows, [15, 15])
        np.testing.assert_allclose(ours, np.ones(ours.shape), rtol=1e-5)

    def test_recorded(self):
        case = oracles.case('second_stage_loss')
        assert list(case['names'])[-1].endswith('mask_loss')
        ours = loss_of(case['mask_logits'], case['proposals'], np.arange(8))
        np.testing.assert_allclose(ours, case['with_masks'][2], rtol=1e-5)

    def test_rows_without_an_object_need_not_be_there(self):
        case = oracles.case('second_stage_loss')
        matches = ASSIGNER.targets(tf.constant(case['proposals']), with_masks()).matches.numpy()
        rows = np.flatnonzero(matches.ravel() >= 0)
        assert 0 < len(rows) < 8
        ours = loss_of(case['mask_logits'], case['proposals'], rows)
        np.testing.assert_allclose(ours, case['with_masks'][2], rtol=1e-5)

    def test_recorded_in_evaluation(self):
        case = oracles.case('eval_mask_loss')
        shape = oracles.case('rpn_postprocess')['image_shapes'][0]
        boxes = oracles.in_pixels(case['detection_boxes'], shape)
        rows = np.array([0, 1, 2, 3, 4])
        ours = loss_of(case['mask_logits'], boxes, rows)
        np.testing.assert_allclose(ours, case['mask_loss'], rtol=1e-5)

    def test_masks_that_count_for_nothing(self):
        case = oracles.case('second_stage_loss')
        given = case['mask_logits'], case['proposals'], np.arange(8)
        size = recorded_groundtruth().weights.shape
        assert loss_of(*given, mask_weights=tf.zeros(size)) == 0
        whole = loss_of(*given)
        np.testing.assert_allclose(loss_of(*given, mask_weights=tf.ones(size)), whole)

    def test_no_masks(self):
        case = oracles.case('second_stage_loss')
        with pytest.raises(errors.UserError) as caught:
            loss_of(case['mask_logits'], case['proposals'], np.arange(8), masks=None)
        assert 'load_instance_masks: true' in str(caught.value)


class TestRows:
    def test_rows_depend_on_each_other_by_statistics_of_the_batch_alone(self):
        def is_by_row(**style):
            return third_stage.is_by_row(layers.LayerStyle(**style))

        assert is_by_row(is_training=True)
        assert not is_by_row(is_training=True, batch_norm=layers.BatchNorm())
        assert is_by_row(is_training=True, batch_norm=layers.BatchNorm(train=False))
        assert is_by_row(batch_norm=layers.BatchNorm())

    def test_marked_ones_come_back(self):
        marks = tf.constant([[True, False, True], [False, False, True]])
        rows = third_stage.true_rows(marks)
        np.testing.assert_array_equal(rows, [0, 2, 5])
        values = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        spread = third_stage.spread(values, rows, marks)
        expected = [[[1, 2], [0, 0], [3, 4]], [[0, 0], [0, 0], [5, 6]]]
        np.testing.assert_array_equal(spread, expected)

    def test_there_is_always_one(self):
        marks = tf.zeros([2, 2], tf.bool)
        rows = third_stage.true_rows(marks)
        assert rows.shape == [1]
        assert not third_stage.spread(tf.constant([float('nan')]), rows, marks).numpy().any()


def test_probabilities():
    logits = np.zeros([2, 3, 1, 1], np.float32)
    logits[0, 2] = logits[1, 0] = np.log(3)
    ours = third_stage.probabilities(tf.constant(logits), tf.constant([2, 1]))
    np.testing.assert_allclose(ours, [[[0.75]], [[0.5]]], rtol=1e-6)
    of_all = third_stage.probabilities(tf.constant(logits[:, :1]), tf.constant([2, 1]))
    np.testing.assert_allclose(of_all, [[[0.5]], [[0.75]]], rtol=1e-6)
