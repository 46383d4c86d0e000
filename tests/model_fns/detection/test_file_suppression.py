"""The one op of files against suppression by its definition, in TensorFlow and in TFLite."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.boxes import box_coders
from model_fns.detection.deployment import file_suppression
from model_fns.detection.detections import suppression
from tests.model_fns.detection import slow_suppression

tf1 = tf.compat.v1

BOXES, SCORES = fields.DETECTION_BOXES, fields.DETECTION_SCORES
CLASS_NUMBERS, COUNT = fields.DETECTION_CLASSES, fields.NUM_DETECTIONS
SCALES = (10.0, 8.0, 5.0, 4.0)
CODER = box_coders.FasterRcnnBoxCoder(SCALES)
CLASSES = 3
RULES = suppression.Rules(
    max_total=9,
    max_per_class=4,
    score_threshold=0.25,
    iou_threshold=0.4,
    drop_empty=False,
    portable=True,
)
ANCHORS = 40


def case(background, seed=0):
    """Return codes [1, A, 4], scores [1, A, C'] and anchors [A, 4] that overlap."""
    random = np.random.RandomState(seed)
    centers, sizes = random.uniform(0.2, 0.8, [ANCHORS, 2]), random.uniform(0.1, 0.4, [ANCHORS, 2])
    anchors = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1)
    codes = random.normal(0.0, 1.0, [1, ANCHORS, 4])
    scores = random.permutation(3 * ANCHORS).reshape([1, ANCHORS, 3]) / (3 * ANCHORS)
    if background:
        scores = np.concatenate([np.ones([1, ANCHORS, 1]), scores], -1)
    return [one.astype(np.float32) for one in (codes, scores, anchors)]


def expected(codes, scores, anchors, rules):
    """Compute (class, score, box) of the best detections, by the definitions."""
    low, high = anchors[:, :2], anchors[:, 2:]
    centers = codes[0, :, :2] / SCALES[:2] * (high - low) + (low + high) / 2
    sizes = np.exp(codes[0, :, 2:] / SCALES[2:]) * (high - low)
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1).astype(np.float32)
    found = slow_suppression.detections(boxes[:, np.newaxis], scores[0][:, -CLASSES:], rules)
    return [(label, score, box) for score, label, _, box in found]


def check(found, wanted):
    count = len(wanted)
    assert 1 < count < RULES.max_total or count == RULES.max_total
    assert float(found[COUNT][0]) == count
    assert found[BOXES].shape == (1, RULES.max_total, 4)
    np.testing.assert_array_equal(found[CLASS_NUMBERS][0][:count], [one[0] for one in wanted])
    np.testing.assert_allclose(found[SCORES][0][:count], [one[1] for one in wanted], rtol=1e-6)
    np.testing.assert_allclose(found[BOXES][0][:count], [one[2] for one in wanted], atol=1e-5)


KINDS = [(False, False), (True, False), (False, True), (True, True)]


def run_one_op(codes, scores, anchors, rules, folder=None):
    """Return the detections of TensorFlow's op."""
    del folder
    boxes, scores = CODER.decode(tf.constant(codes), anchors), tf.constant(scores[..., -CLASSES:])
    return file_suppression.suppress_in_one_op(boxes, scores, rules)


@pytest.mark.parametrize(('background', 'fast'), KINDS)
def test_one_op_keeps_what_suppression_by_its_definition_keeps(background, fast):
    rules = dataclasses.replace(RULES, class_agnostic=fast)
    arrays = case(background)
    check(run_one_op(*arrays, rules), expected(*arrays, rules))


def run_tflite(codes, scores, anchors, rules, folder, candidates=25):
    """Return the detections of a file that has the op alone."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = {
            'codes': tf1.placeholder(tf.float32, codes.shape),
            'scores': tf1.placeholder(tf.float32, scores.shape),
        }
        outputs = file_suppression.suppress_in_tflite(
            *inputs.values(), tf.constant(anchors), CODER, CLASSES, rules, candidates
        )
        path = str(folder / 'saved_model')
        tf1.saved_model.simple_save(session, path, inputs, outputs)
    converter = tf.lite.TFLiteConverter.from_saved_model(path)
    converter.allow_custom_ops = True
    content = converter.convert()
    assert file_suppression.TFLITE_OP.encode() in content
    run = tf.lite.Interpreter(model_content=content).get_signature_runner()
    return run(codes=codes, scores=scores)


@pytest.mark.parametrize('candidates', [ANCHORS, 25])
@pytest.mark.parametrize(('background', 'fast'), KINDS)
def test_so_does_the_op_of_tflite(background, fast, candidates, tmp_path):
    rules = dataclasses.replace(RULES, class_agnostic=fast)
    arrays = case(background, seed=1)
    wanted = expected(*arrays, rules)
    if candidates < ANCHORS and not fast:
        # Anchors whose best score is below those of the detections change nothing, and have none.
        bests = np.sort(arrays[1][0, :, -3:].max(-1))
        assert bests[-candidates] < wanted[-1][1]
    check(run_tflite(*arrays, rules, tmp_path, candidates), wanted)


@pytest.mark.parametrize('run', [run_one_op, run_tflite])
@pytest.mark.parametrize(('background', 'fast'), [(False, False), (True, True)])
def test_boxes_outside_of_the_image_take_no_place_of_others(background, fast, run, tmp_path):
    rules = dataclasses.replace(RULES, class_agnostic=fast, drop_empty=True, max_total=3)
    codes, scores, anchors = case(background)
    best = np.argsort(-scores[0, :, -3:].max(-1))[:5]
    anchors[best] += 3.0  # with any code they stay outside
    found = run(codes, scores, anchors, rules, tmp_path)
    scores[:, best, -3:] = 0.0
    wanted = expected(codes, scores, anchors, rules)
    assert len(wanted) == found[COUNT][0] == 3
    np.testing.assert_allclose(found[SCORES][0], [one[1] for one in wanted], rtol=1e-6)
    np.testing.assert_allclose(found[BOXES][0], [one[2] for one in wanted], atol=1e-5)
