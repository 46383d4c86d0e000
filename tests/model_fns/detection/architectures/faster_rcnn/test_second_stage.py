"""The second stage, held against recorded cases of its parts."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import fields
from model_fns.detection.architectures.faster_rcnn import model, second_stage
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.detections import post_processing
from model_fns.detection.losses import losses, mining
from protos import losses_pb2, post_processing_pb2
from tests.model_fns.detection.architectures.faster_rcnn import oracles
from tests.model_fns.detection.architectures.faster_rcnn.test_regions import (
    check_targets,
    recorded_groundtruth,
)

# An image of one pixel: recorded boxes are normalized.
UNIT = (1.0, 1.0)


class TestCrops:
    def test_recorded(self):
        case = oracles.case('crop_and_resize')
        inputs = [tf.constant(case['feature_map'])], tf.constant(case['boxes'])
        # Borders on the edge are read a 2^21st of the image inside of it.
        tolerance = 1e-5 * np.abs(case['native']).max()
        crops, pooled = second_stage.Crops(4), second_stage.Crops(4, 2, 2)
        np.testing.assert_allclose(crops(*inputs, UNIT), case['native'][0], rtol=0, atol=tolerance)
        np.testing.assert_allclose(pooled(*inputs, UNIT), case['pooled'], rtol=0, atol=tolerance)

    def test_each_image_has_its_own_boxes(self):
        features = tf.constant(np.arange(2 * 2 * 2).reshape([2, 2, 2, 1]), tf.float32)
        boxes = tf.constant([[[0.0, 0, 1, 1], [0, 0, 0, 0]], [[1, 1, 1, 1], [0, 0, 0, 1]]])
        crops = second_stage.Crops(2)([features], boxes, UNIT).numpy()[..., 0]
        expected = [[[0, 1], [2, 3]], [[0, 0], [0, 0]], [[7, 7], [7, 7]], [[4, 5], [4, 5]]]
        np.testing.assert_allclose(crops, expected, rtol=0, atol=1e-5)

    def test_gradients_reach_features_and_not_boxes(self):
        features, boxes = tf.ones([1, 3, 3, 1]), tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([features, boxes])
            total = tf.reduce_sum(second_stage.Crops(3)([features], boxes, UNIT))
        np.testing.assert_allclose(tape.gradient(total, features), np.ones([1, 3, 3, 1]), rtol=1e-5)
        assert tape.gradient(total, boxes) is None


class TestBoxHead:
    @pytest.mark.parametrize(
        ('name', 'shared'), [('heads', False), ('heads_shared_agnostic', True)]
    )
    def test_recorded(self, name, shared):
        case = oracles.case(name)
        head = second_stage.BoxHead(layers.LayerStyle(), 3, shared)
        codes, logits = oracles.run(lambda: head.predict(tf.constant(case['features'])), case)
        np.testing.assert_allclose(codes, case['box_encodings'][:, 0], rtol=1e-4, atol=1e-6)
        expected = case['class_predictions_with_background'][:, 0]
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-6)

    def test_dropout_is_another_one_for_boxes_and_classes(self):
        def build():
            style = layers.LayerStyle(is_training=True, initializer=layers.ONES)
            head = second_stage.BoxHead(style, 3, shared=True, keep_prob=0.5)
            codes, logits = head.predict(tf.ones([1, 2, 2, 4000]))
            return codes, logits, tf.compat.v1.global_variables_initializer()

        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            codes, logits, init = build()
            session.run(init)
            codes, logits = session.run((codes, logits))
        # Sums of 4000 features that are 0 or 2: a deviation of 63.
        for sums in (codes, logits):
            assert np.ptp(sums) == 0 and 0 < abs(sums.flat[0] - 4000) < 5 * 63
        assert codes.flat[0] != logits.flat[0]


def box_losses(**changes):
    arguments = {
        'classification': losses.softmax(),
        'reduction': mining.Sum(),
        'localization_weight': 2.0,
        **changes,
    }
    return second_stage.BoxLosses(model.CODER, **arguments)


def test_targets():
    case = oracles.case('detection_targets')
    groundtruth = oracles.groundtruth(
        [case['boxes']], [case['box_classes'][:, 1:]], [case['box_weights']]
    )
    assigned = box_losses().targets(tf.constant(case['anchors'][np.newaxis]), groundtruth)
    check_targets(assigned, case, assigned.class_targets[0])


def losses_of(compute, codes='encodings', counts=None):
    """Compute (localization, classification) of the recorded proposals."""
    case = oracles.case('second_stage_loss')
    codes = case[codes].reshape([2, 4, -1, 4])
    counts = case['num_proposals'] if counts is None else counts
    return oracles.run(
        lambda: compute(
            tf.constant(codes),
            tf.constant(case['class_logits'].reshape([2, 4, 4])),
            tf.constant(case['proposals']),
            tf.constant(counts),
            recorded_groundtruth(),
        )
    )


class TestLosses:
    @pytest.mark.parametrize(
        ('codes', 'recorded'), [('encodings', 'per_class'), ('shared_encodings', 'shared')]
    )
    def test_recorded(self, codes, recorded):
        expected = oracles.case('second_stage_loss')[recorded]
        np.testing.assert_allclose(losses_of(box_losses(), codes)[::-1], expected, rtol=1e-5)

    @pytest.mark.parametrize(
        ('kind', 'index'),
        [
            ('weighted_sigmoid {}', 0),
            ('weighted_softmax { logit_scale: 2 }', 1),
            ('weighted_sigmoid_focal { gamma: 2 alpha: 0.25 }', 2),
        ],
    )
    def test_kinds_of_classification(self, kind, index):
        config = text_format.Parse(kind, losses_pb2.ClassificationLoss())
        loss = losses.build_classification_loss(Section(config, 'here'), 2)
        _, classification = losses_of(box_losses(classification=loss))
        expected = oracles.case('second_stage_classification_kinds')['losses'][index]
        np.testing.assert_allclose(classification, expected, rtol=1e-5)

    def miner(self, **arguments):
        return mining.HardExamples(
            iou_threshold=0.5, localization_weight=2.0, classification_weight=1.0, **arguments
        )

    def test_mined(self):
        """As recorded, where the second image, which was left out, has no proposals."""
        expected = oracles.case('second_stage_loss')['hard_mining']
        compute = box_losses(reduction=self.miner(limit=2))
        ours = losses_of(compute, counts=np.array([3, 0], np.int32))
        np.testing.assert_allclose(ours[::-1], expected, rtol=1e-5)

    def test_every_image_is_mined(self):
        compute = box_losses(reduction=self.miner(limit=2))
        first = losses_of(compute, counts=np.array([3, 0], np.int32))
        second = losses_of(compute, counts=np.array([0, 4], np.int32))
        np.testing.assert_allclose(losses_of(compute), np.add(first, second), rtol=1e-5)
        assert second[1] > 0.1


def test_miner():
    case = oracles.case('hard_example_miner')
    kinds = losses_pb2.HardExampleMiner
    rows = [
        (kind, count)
        for kind in (kinds.BOTH, kinds.CLASSIFICATION, kinds.LOCALIZATION)
        for count in (2, 3, 0)
    ]
    for (kind, count), expected in zip(rows, case['mined']):
        config = kinds(num_hard_examples=count, iou_threshold=0.7, loss_type=kind)
        miner = mining.build_hard_examples(config, 2.0, 1.0, balanced=False)
        of_rows = mining.AnchorLosses(
            tf.constant(case['cls_losses'][np.newaxis]), tf.constant(case['loc_losses'][np.newaxis])
        )
        boxes = tf.constant(case['boxes'][np.newaxis])
        mined = miner.reduce(of_rows, None, lambda boxes=boxes: boxes)
        np.testing.assert_allclose(mined[::-1], expected, rtol=1e-5)


POST_PROCESSING = """
batch_non_max_suppression {
  score_threshold: 0.05 iou_threshold: 0.5 max_detections_per_class: 4 max_total_detections: 5 %s
}
score_converter: SOFTMAX
"""


@pytest.mark.parametrize(
    ('variant', 'codes', 'text'),
    [
        ('det', 'encodings', ''),
        ('shared', 'shared_encodings', ''),
        ('agnostic', 'encodings', 'use_class_agnostic_nms: true'),
    ],
)
def test_post_processing(variant, codes, text):
    case, inputs = oracles.case('second_stage_postprocess'), oracles.case('second_stage_loss')
    true = oracles.case('rpn_postprocess')['true_image_shapes'][:, :2].astype(np.float32)
    windows = tf.constant(np.concatenate([np.zeros_like(true), true], 1))
    config = text_format.Parse(POST_PROCESSING % text, post_processing_pb2.PostProcessing())
    processor = post_processing.build_post_processing(
        Section(config, 'here'), 3, axis_aligned, change_frame=True
    )
    proposals = tf.constant(inputs['proposals'])[:, :, tf.newaxis]
    boxes = model.CODER.decode(tf.constant(inputs[codes].reshape([2, 4, -1, 4])), proposals)
    logits = tf.constant(inputs['class_logits'].reshape([2, 4, 4]))
    found = processor.apply(boxes, logits, windows, tf.constant(inputs['num_proposals']))
    recorded = {
        key.partition('/')[2]: one for key, one in case.items() if key.startswith(f'{variant}/')
    }
    for name in set(recorded) - {fields.DETECTION_MASKS, fields.RAW_DETECTION_BOXES}:
        np.testing.assert_allclose(found[name], recorded[name], rtol=1e-4, atol=1e-5, err_msg=name)
    raw = axis_aligned.change_frame(found[fields.RAW_DETECTION_BOXES], windows[:, tf.newaxis])
    expected = recorded[fields.RAW_DETECTION_BOXES]
    np.testing.assert_allclose(np.clip(raw, 0, 1), expected, rtol=1e-4, atol=1e-5)
