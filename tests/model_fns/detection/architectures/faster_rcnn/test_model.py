"""Whole two-stage detectors, held against what the published ones compute with the same weights."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import config as config_lib
from model_fns.detection import detector, fields
from model_fns.detection.architectures.faster_rcnn import model as two_stage
from model_fns.detection.architectures.faster_rcnn import regions, stages
from model_fns.detection.boxes import targets
from model_fns.detection.detections import suppression
from protos import model_pb2
from tests import matched_rows, rounding, tiny_two_stage
from tests.conftest import shared_folder
from tests.model_fns.backbones import recorded_backbones
from tests.model_fns.detection.architectures.faster_rcnn import oracles

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

BOXES, MASKS = 'faster_rcnn_resnet50_256x320', 'mask_rcnn_inception_v2_256x320'
of_both = pytest.mark.parametrize('case', [BOXES, MASKS])
# The one with masks has all losses of the other.
of_both_in_training = pytest.mark.parametrize(
    'case', [pytest.param(BOXES, marks=pytest.mark.published), MASKS]
)


@functools.cache
def recorded(case):
    folder = shared_folder() / 'golden'
    if not (folder / f'{case}.npz').is_file():
        pytest.skip(f'the recorded case {case} is not in ../shared/golden')
    text = (folder / f'{case}.config').read_text()
    config = text_format.Parse(text, model_pb2.DetectionModel())
    with np.load(folder / f'{case}.npz') as arrays:
        return config, {name: arrays[name] for name in arrays.files}


def preprocessed(model, arrays):
    return model.preprocess(tf.constant(arrays['input_image_uint8'], tf.float32), None)


@functools.cache
def inferred(case):
    config, arrays = recorded(case)
    model = detector.build_detector(config)
    with tf.Graph().as_default(), tf1.Session() as session:
        images = preprocessed(model, arrays)
        predictions = model.predict(images, None, None, is_training=False)
        predictions[fields.PREPROCESSED] = images
        outputs = model.postprocess(predictions, None)
        recorded_backbones.set_weights(session)
        return session.run((predictions, outputs))


def left_halves(boxes, height, width):
    """Return the masks of the recorded groundtruth, uint8 [n, height, width]."""
    masks = np.zeros([len(boxes), height, width], np.uint8)
    for mask, box in zip(masks, boxes):
        ymin, xmin, ymax, xmax = (box * [height, width, height, width]).astype(int)
        mask[ymin:ymax, xmin : (xmin + xmax) // 2] = 1
    return masks


@functools.cache
def trained(case):
    config, arrays = recorded(case)
    model = detector.build_detector(config)
    boxes, classes = arrays['train/boxes0'], arrays['train/classes0']
    with tf.Graph().as_default(), tf1.Session() as session:
        images = preprocessed(model, arrays)
        groundtruth = targets.Groundtruth(
            boxes=tf.constant(boxes[np.newaxis]),
            classes=tf.one_hot(classes[np.newaxis], model.num_classes),
            weights=tf.ones([1, len(boxes)]),
            valid=tf.fill([1, len(boxes)], True),
            masks=tf.constant(left_halves(boxes, 256, 320)[np.newaxis]),
        )
        predictions = model.predict(images, None, groundtruth, is_training=True)
        predictions[fields.PREPROCESSED] = images
        losses = model.losses(predictions, None, groundtruth)
        total = tf.add_n(list(losses.values()))
        by_name = {variable.op.name: variable for variable in tf1.trainable_variables()}
        names = [str(name) for name in arrays['train/grad_norm_names']]
        gradients = tf.gradients(total, list(by_name.values()))
        without = {name for name, one in zip(by_name, gradients) if one is None}
        norms = [
            tf.norm(one) for name in names for key, one in zip(by_name, gradients) if key == name
        ]
        recorded_backbones.set_weights(session)
        predictions, losses, norms = session.run((predictions, losses, norms))
    return predictions, losses, np.array(norms), without


OF_PROPOSALS = (
    fields.PROPOSAL_BOXES,
    fields.REFINED_BOX_ENCODINGS,
    fields.CLASS_LOGITS,
    fields.RAW_DETECTION_BOXES,
    fields.RAW_DETECTION_SCORES,
)


def proposals_as_recorded(case, mode):
    """Order the rows of our proposals like the recorded ones, by score."""
    predictions = {'infer': inferred, 'train': trained}[mode](case)[0]
    expected = recorded(case)[1][f'{mode}/pred__proposal_boxes']
    return matched_rows.nearest_rows(predictions[fields.PROPOSAL_BOXES][0], expected[0])


def detections_as_recorded(case):
    """Order the rows of our detections like the recorded ones, by score."""
    names = fields.DETECTION_BOXES, fields.DETECTION_SCORES, fields.DETECTION_CLASSES
    outputs, arrays = inferred(case)[1], recorded(case)[1]
    ours = [outputs[name] for name in names]
    expected = [arrays[f'infer/det__{name}'] for name in names]
    rows = [
        np.column_stack([boxes[0], scores[0], classes[0]])
        for boxes, scores, classes in (ours, expected)
    ]
    return matched_rows.nearest_rows(*rows)


def close(ours, expected, tolerance=1e-4):
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def check_predictions(case, mode, name, expected):
    predictions = {'infer': inferred, 'train': trained}[mode](case)[0]
    values = predictions[name].reshape(expected.shape)
    if name in OF_PROPOSALS:
        axis = 1 if name == fields.PROPOSAL_BOXES else 0
        values = np.take(values, proposals_as_recorded(case, mode), axis)
    close(values, expected)


class TestRecordedInference:
    @of_both
    @pytest.mark.parametrize(
        ('ours', 'published'),
        [
            (fields.ANCHORS, 'anchors'),
            (fields.RPN_BOX_ENCODINGS, 'rpn_box_encodings'),
            (fields.RPN_OBJECTNESS, 'rpn_objectness_predictions_with_background'),
            (fields.PROPOSAL_BOXES, 'proposal_boxes'),
            (fields.NUM_PROPOSALS, 'num_proposals'),
            (fields.REFINED_BOX_ENCODINGS, 'refined_box_encodings'),
            (fields.CLASS_LOGITS, 'class_predictions_with_background'),
        ],
    )
    def test_predictions(self, case, ours, published):
        expected = recorded(case)[1][f'infer/pred__{published}']
        check_predictions(case, 'infer', ours, expected)

    @of_both
    @pytest.mark.parametrize(
        'name',
        [
            fields.NUM_DETECTIONS,
            fields.DETECTION_SCORES,
            fields.DETECTION_CLASSES,
            fields.DETECTION_BOXES,
            fields.DETECTION_MULTICLASS_SCORES,
            fields.DETECTION_ANCHOR_INDICES,
            fields.RAW_DETECTION_BOXES,
            fields.RAW_DETECTION_SCORES,
        ],
    )
    def test_detections(self, case, name):
        values, expected = inferred(case)[1][name], recorded(case)[1][f'infer/det__{name}']
        if name in OF_PROPOSALS:
            values = values[:, proposals_as_recorded(case, 'infer')]
        elif values.ndim > 1:
            values = values[:, detections_as_recorded(case)]
        if name == fields.DETECTION_ANCHOR_INDICES:  # of proposals
            values = np.argsort(proposals_as_recorded(case, 'infer'))[values.astype(int)]
        close(values, expected)

    def test_masks(self):
        (predictions, outputs), arrays = inferred(MASKS), recorded(MASKS)[1]
        logits, order = predictions[fields.MASK_LOGITS], detections_as_recorded(MASKS)
        name = 'infer/pred__mask_predictions'
        assert logits.shape == tuple(arrays[f'{name}__shape'])
        sampled = logits[order].ravel()[:: int(arrays[f'{name}__stride'])]
        close(sampled, arrays[f'{name}__sub'])
        close(outputs[fields.DETECTION_MASKS][:, order], arrays['infer/det__detection_masks'])


class TestRecordedTraining:
    @of_both_in_training
    @pytest.mark.parametrize(
        ('ours', 'published'),
        [
            (fields.ANCHORS, 'anchors'),
            (fields.RPN_BOX_ENCODINGS, 'rpn_box_encodings'),
            (fields.RPN_OBJECTNESS, 'rpn_objectness_predictions_with_background'),
            (fields.PROPOSAL_BOXES, 'proposal_boxes'),
            (fields.REFINED_BOX_ENCODINGS, 'refined_box_encodings'),
            (fields.CLASS_LOGITS, 'class_predictions_with_background'),
        ],
    )
    def test_predictions(self, case, ours, published):
        expected = recorded(case)[1][f'train/pred__{published}']
        check_predictions(case, 'train', ours, expected)

    @of_both_in_training
    def test_losses(self, case):
        arrays, losses = recorded(case)[1], trained(case)[1]
        # Both localization losses were recorded under one name: the second stage's is left.
        expected = {
            'RPNLoss/objectness_loss': arrays['train/loss__objectness_loss'],
            'BoxClassifierLoss/localization_loss': arrays['train/loss__localization_loss'],
            'BoxClassifierLoss/classification_loss': arrays['train/loss__classification_loss'],
        }
        names = {*two_stage.REGION_LOSSES, *two_stage.BOX_LOSSES}
        if case == MASKS:
            expected[stages.MASK_LOSS] = arrays['train/loss__mask_loss']
            names.add(stages.MASK_LOSS)
        for name, value in expected.items():
            rounding.check_close(f'{case}: losses', losses[name], value)
        rounding.check_close(f'{case}: losses', sum(losses.values()), arrays['train/total_loss'])
        assert set(losses) == names

    @of_both_in_training
    def test_gradients(self, case):
        arrays, (_, _, ours, without) = recorded(case)[1], trained(case)
        assert without == {str(name) for name in arrays['train/no_grad_vars']}
        rounding.check_gradient_norms(case, ours, arrays['train/grad_norms'])


def test_coder():
    case = oracles.case('coder')
    inputs = {name: tf.constant(one) for name, one in case.items()}
    codes = two_stage.CODER.encode(inputs['boxes'], inputs['anchors'])
    np.testing.assert_allclose(codes, case['encoded'], rtol=1e-4, atol=1e-5)
    boxes = two_stage.CODER.decode(inputs['codes'], inputs['anchors'])
    np.testing.assert_allclose(boxes, case['decoded'], rtol=1e-5)


SMALL, SMALL_MASKS = (
    one.replace('clip_anchors_to_image: true', '{more}')
    for one in (tiny_two_stage.MODEL, tiny_two_stage.MASKS)
)


def small(stages=2, more='', template=SMALL):
    stages = 3 if template == SMALL_MASKS else stages
    text = template.format(stages=stages, more=more)
    return detector.build_detector(config_lib.parse_pipeline_config(text, 'text').model)


def groundtruth_of(batch, rows=3, num_classes=2):
    """Build groundtruth with one box per image, whose upper left quarter is its mask."""
    boxes = np.zeros([batch, rows, 4], np.float32)
    boxes[:, 0] = [0.2, 0.2, 0.5, 0.5]
    valid = np.zeros([batch, rows], bool)
    valid[:, 0] = True
    classes = np.zeros([batch, rows, num_classes], np.float32)
    classes[:, 0, 0] = 1
    arrays = boxes, classes, valid.astype(np.float32), valid
    masks = np.zeros([batch, 1, 64, 64], np.uint8)
    masks[:, 0, 12:22, 12:22] = 1
    return targets.Groundtruth(*map(tf.constant, arrays), masks=tf.constant(masks))


class TestOneStage:
    def test_recorded(self):
        """Boxes were recorded normalized to the padded input; ours are to the image."""
        case, inputs = oracles.case('first_stage_only'), oracles.case('rpn_postprocess')
        made = small(stages=1)
        true, padded = inputs['true_image_shapes'], inputs['image_shapes']
        share = (padded / true)[:, np.newaxis, [0, 1, 0, 1]]
        images = tf.zeros([2, *padded[0]])
        rules = suppression.Rules(0.0, 0.7, 4, 4)
        windows = np.concatenate([np.zeros_like(true[:, :2]), true[:, :2]], 1).astype(np.float32)
        anchors, codes = tf.constant(inputs['anchors']), tf.constant(inputs['encodings'])
        found = regions.propose(
            two_stage.CODER.decode(codes, anchors),
            tf.constant(inputs['objectness']),
            rules,
            tf.constant(windows),
        )
        predictions = {
            fields.PREPROCESSED: images,
            fields.ANCHORS: anchors,
            fields.RPN_BOX_ENCODINGS: codes,
            fields.RPN_OBJECTNESS: tf.constant(inputs['objectness']),
            fields.PROPOSAL_BOXES: found.boxes,
            fields.PROPOSAL_SCORES: found.scores,
            fields.NUM_PROPOSALS: found.counts,
        }
        outputs = made.postprocess(predictions, tf.constant(true))
        for name, expected in case.items():
            if name.endswith('boxes'):
                expected = expected * share
            close(outputs[name].numpy(), expected)
        assert not outputs[fields.DETECTION_CLASSES].numpy().any()


@functools.cache
def built(template, size, is_padded):
    """Build outputs and losses of fed images, and of their shapes where they have padding."""
    made = small(template=template)
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, size)
        shapes = tf1.placeholder(tf.int32, [size[0], 3]) if is_padded else None
        inputs = made.preprocess(images, shapes)
        predictions = made.predict(inputs, shapes, None, is_training=False)
        predictions[fields.PREPROCESSED] = inputs
        outputs = made.postprocess(predictions, shapes)
        losses = made.losses(predictions, shapes, groundtruth_of(size[0]))
    return graph, images, shapes, (outputs, losses)


class TestBatches:
    def run(self, images, true_shapes=None, template=SMALL):
        graph, fed, shapes, fetches = built(template, images.shape, true_shapes is not None)
        feed = {fed: images} if shapes is None else {fed: images, shapes: true_shapes}
        with tf1.Session(graph=graph) as session:
            recorded_backbones.set_weights(session)
            return session.run(fetches, feed)

    @pytest.mark.parametrize('template', [tiny_two_stage.POSITION_SENSITIVE, SMALL_MASKS])
    def test_an_image_is_detected_as_it_is_alone(self, template):
        images = np.random.RandomState(0).uniform(0, 255, [3, 64, 64, 3]).astype(np.float32)
        together, _ = self.run(images, template=template)
        alone, _ = self.run(images[1:2], template=template)
        for name, value in alone.items():
            np.testing.assert_allclose(together[name][1], value[0], rtol=1e-3, atol=1e-4)

    def test_masks_are_of_boxes_in_pixels_of_the_padded_input(self):
        random, made = np.random.RandomState(0), small(template=SMALL_MASKS)
        images = random.uniform(0, 255, [1, 128, 160, 3]).astype(np.float32)
        with tf.Graph().as_default(), tf1.Session() as session:
            shapes = tf.constant([[64, 96, 3]])
            inputs = made.preprocess(tf.constant(images), shapes)
            predictions = made.predict(inputs, shapes, None, is_training=False)
            recorded_backbones.set_weights(session)
            found = session.run(predictions)
        boxes = found[fields.INSTANCE_BOXES]
        np.testing.assert_allclose(boxes, found[fields.DETECTION_BOXES] * [64, 96, 64, 96])
        assert 64 < boxes.max() <= 96

    def test_nothing_is_predicted_for_rows_without_a_detection(self):
        images = np.zeros([2, 64, 64, 3], np.float32)
        outputs, losses = self.run(images, template=SMALL_MASKS)
        masks, counts = outputs[fields.DETECTION_MASKS], outputs[fields.NUM_DETECTIONS]
        assert masks.shape == (2, 6, 7, 9)
        for image, count in zip(masks, counts.astype(int)):
            assert image[:count].min() > 0 and not image[count:].any()
        assert np.isfinite(losses[stages.MASK_LOSS])

    def test_losses_are_means_over_images(self):
        images = np.random.RandomState(0).uniform(0, 255, [2, 64, 64, 3]).astype(np.float32)
        # All anchors are drawn, so that none depends on the place in the batch.
        _, both = self.run(images)
        alone = [self.run(images[index : index + 1])[1] for index in range(2)]
        for name in two_stage.BOX_LOSSES:
            expected = (alone[0][name] + alone[1][name]) / 2
            np.testing.assert_allclose(both[name], expected, rtol=1e-3)

    def test_boxes_stay_in_their_images(self):
        images = np.random.RandomState(0).uniform(0, 255, [2, 64, 96, 3]).astype(np.float32)
        outputs, _ = self.run(images, np.array([[64, 96, 3], [32, 48, 3]], np.int32))
        shown = fields.SHOWN_PROPOSALS
        assert shown not in small().export_outputs(outputs)
        for name in (fields.DETECTION_BOXES, fields.RAW_DETECTION_BOXES, shown):
            assert outputs[name].min() >= 0 and outputs[name].max() <= 1
        # The second image's boxes, in units of its own size, use all of it.
        count = int(outputs[fields.NUM_DETECTIONS][1])
        assert outputs[fields.DETECTION_BOXES][1, :count].max() > 0.6


def memory_of(made, batch):
    """Build the side inputs of a model that attends to other images; None for others."""
    if not made.side_inputs:
        return None
    features = np.random.RandomState(1).normal(size=[batch, 3, 5]).astype(np.float32)
    counts = np.array([3, 1, 0])[np.arange(batch) % 3]
    return {
        fields.CONTEXT_FEATURES: tf.constant(features),
        fields.NUM_CONTEXT_FEATURES: tf.constant(counts, tf.int32),
    }


def test_attention_to_crops_comes_before_the_second_stage():
    after = small(template=tiny_two_stage.CONTEXT)
    position = 'context_config {{ attention_position: POST_RPN'
    before = small(template=tiny_two_stage.CONTEXT.replace('context_config {{', position))
    channels = []
    for made in (after, before):
        with tf.Graph().as_default():
            images = tf.zeros([2, 64, 64, 3])
            made.predict(images, None, None, False, memory_of(made, 2))
            (projection,) = tf1.global_variables('fully_connected/weights')
            channels.append(projection.shape.as_list())
    # Of the second stage's features, and of the first's.
    assert channels == [[8, 256], [8, 128]]


def built_for_training(template, batch, num_classes=2, proposals=8):
    """Build a model with its predictions and losses in the default graph."""
    stages = 3 if template == SMALL_MASKS else 2
    text = template.format(stages=stages, more='clip_anchors_to_image: true')
    config = config_lib.parse_pipeline_config(text, 'text').model
    config.faster_rcnn.num_classes = num_classes
    config.faster_rcnn.first_stage_max_proposals = proposals
    made = detector.build_detector(config)
    images = np.random.RandomState(0).uniform(0, 255, [batch, 64, 64, 3]).astype(np.float32)
    given = groundtruth_of(batch, num_classes=num_classes)
    inputs = made.preprocess(tf.constant(images), None)
    predictions = made.predict(inputs, None, given, True, memory_of(made, batch))
    predictions[fields.PREPROCESSED] = inputs
    losses = made.losses(predictions, None, given)
    made.postprocess(predictions, None)
    return predictions, losses


@pytest.mark.parametrize(
    'template', [tiny_two_stage.POSITION_SENSITIVE, tiny_two_stage.CONTEXT, SMALL_MASKS]
)
def test_training_repeats_a_step_and_samples_anew_and_the_graph_does_not_grow(template):
    with tf.Graph().as_default() as larger:
        tf1.train.get_or_create_global_step()
        built_for_training(template, batch=5, num_classes=40, proposals=300)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        step = tf1.train.get_or_create_global_step()
        predictions, losses = built_for_training(template, batch=2)
        assert len(graph.get_operations()) == len(larger.get_operations())
        # Static, so that the memory that training takes can be told.
        assert predictions[fields.CLASS_LOGITS].shape == [2, 8, 3]
        gradients = tf.gradients(tf.add_n(list(losses.values())), tf1.trainable_variables())
        assert all(one is not None for one in gradients)
        recorded_backbones.set_weights(session)
        step.load(3, session)
        first, again = session.run(losses), session.run(losses)
        step.load(4, session)
        other = session.run(losses)
    # 16 cells with two anchors each are all drawn: the proposals' sample is what differs.
    assert first == again
    name = 'BoxClassifierLoss/classification_loss'
    assert np.isfinite(first[name]) and set(first) == set(other)


def test_mined_proposals_of_position_sensitive_heads():
    """All proposals are looked at, and losses are of those that lose most."""
    miner = 'hard_example_miner {{ num_hard_examples: %d iou_threshold: 1.0 loss_type: BOTH }}'
    template = tiny_two_stage.POSITION_SENSITIVE.replace('%', '%%')
    place = 'second_stage_balance_fraction'
    found = []
    for count in (1, 0):
        made = small(template=template.replace(place, f'{miner % count} {place}'))
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.train.get_or_create_global_step()
            images = np.random.RandomState(0).uniform(0, 255, [1, 64, 64, 3])
            given = groundtruth_of(1)
            inputs = made.preprocess(tf.constant(images, tf.float32), None)
            predictions = made.predict(inputs, None, given, is_training=True)
            predictions[fields.PREPROCESSED] = inputs
            losses = made.losses(predictions, None, given)
            recorded_backbones.set_weights(session)
            losses, valid = session.run((losses, predictions[fields.NUM_PROPOSALS]))
            assert valid[0] > 1
            found.append(losses['BoxClassifierLoss/classification_loss'])
    # The hardest one loses more than the mean of all.
    one, every = found
    assert every / valid[0] < one < every


def inferred_above(threshold):
    """Compute predictions for two images, and the number of rows of the second stage."""
    setting = f'first_stage_nms_score_threshold: {threshold} initial_crop_size'
    made = small(template=SMALL.replace('initial_crop_size', setting))
    images = np.random.RandomState(0).uniform(0, 255, [2, 64, 64, 3]).astype(np.float32)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        inputs = made.preprocess(tf.constant(images), None)
        predictions = made.predict(inputs, None, None, is_training=False)
        recorded_backbones.set_weights(session)
        (pooled,) = [op for op in graph.get_operations() if op.name.endswith('AvgPool')]
        found, rows = session.run((predictions, pooled.outputs[0]))
    return found, len(rows)


def test_nothing_is_computed_for_rows_without_a_proposal():
    every, rows = inferred_above(0.0)
    assert rows == every[fields.NUM_PROPOSALS].sum() == 16
    scores = np.sort(every[fields.PROPOSAL_SCORES][..., 1], axis=None)
    best, rows = inferred_above(float(scores[-5]) + 1e-6)
    counts = best[fields.NUM_PROPOSALS]
    assert rows == counts.sum() == 4
    for image, count in enumerate(counts):
        logits = best[fields.CLASS_LOGITS][image]
        expected = every[fields.CLASS_LOGITS][image, :count]
        np.testing.assert_allclose(logits[:count], expected, rtol=1e-3, atol=1e-4)
        assert not logits[count:].any()
    # No network takes nothing: there is a row where there is no proposal at all.
    none, rows = inferred_above(1.0)
    assert rows == 1 and not none[fields.CLASS_LOGITS].any()


def test_predictions_of_one_image():
    random = np.random.RandomState(0)
    predictions = {
        fields.ANCHORS: random.rand(5, 4),
        fields.RPN_BOX_ENCODINGS: random.rand(2, 5, 4),
        fields.INSTANCE_BOXES: random.rand(2, 3, 4),
        fields.BOX_FEATURES: random.rand(6, 7),
        # Two boxes of the first image, and the second one of the second image.
        fields.INSTANCE_ROWS: np.int32([0, 2, 4]),
        fields.MASK_LOGITS: random.rand(3, 1, 2, 2),
    }
    model = object.__new__(two_stage.FasterRcnnModel)
    with tf.Graph().as_default(), tf1.Session() as session:
        tensors = {name: tf.constant(value) for name, value in predictions.items()}
        second, first = (session.run(model.select_example(tensors, tf.constant(i))) for i in (1, 0))
    assert second.keys() == predictions.keys() - {fields.BOX_FEATURES}
    for index, found in enumerate((first, second)):
        np.testing.assert_array_equal(found[fields.ANCHORS], predictions[fields.ANCHORS])
        for name in (fields.RPN_BOX_ENCODINGS, fields.INSTANCE_BOXES):
            np.testing.assert_array_equal(found[name], predictions[name][index : index + 1])
    assert first[fields.INSTANCE_ROWS].tolist() == [0, 2] and second[
        fields.INSTANCE_ROWS
    ].tolist() == [1]
    np.testing.assert_array_equal(first[fields.MASK_LOGITS], predictions[fields.MASK_LOGITS][:2])
    np.testing.assert_array_equal(second[fields.MASK_LOGITS], predictions[fields.MASK_LOGITS][2:])
