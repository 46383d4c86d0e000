"""The whole detector, held against what the published ones compute with the same weights."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection import fields
from model_fns.detection.architectures.ssd import build as ssd_build
from model_fns.detection.architectures.ssd import model as ssd
from model_fns.detection.boxes import quadrilaterals, targets
from protos import ssd_pb2
from tests import initial_values, rounding
from tests.model_fns.detection import recorded_detectors

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

WHERE = 'model.ssd'

HYPERPARAMS = 'regularizer { l2_regularizer {} } initializer { truncated_normal_initializer {} }'
SMALL = """
num_classes: %d
image_resizer { fixed_shape_resizer { height: 96 width: 96 } }
feature_extractor {
  type: "ssd_mobilenet_v1" depth_multiplier: 0.25 min_depth: 8 conv_hyperparams { %s }
}
box_coder { faster_rcnn_box_coder {} }
matcher { argmax_matcher { force_match_for_each_row: true } }
similarity_calculator { iou_similarity {} }
box_predictor { convolutional_box_predictor { use_dropout: false conv_hyperparams { %s } } }
anchor_generator { ssd_anchor_generator { aspect_ratios: 1.0 aspect_ratios: 2.0 } }
post_processing { score_converter: SIGMOID }
loss {
  localization_loss { weighted_smooth_l1 {} }
  classification_loss { weighted_sigmoid {} }
}
"""


def groundtruth_of(case):
    """Build the groundtruth of a recorded case, padded to 5 boxes."""
    count, classes = len(case.images), case.config.num_classes
    boxes = np.zeros([count, 5, 4], np.float32)
    labels = np.zeros([count, 5, classes], np.float32)
    valid = np.zeros([count, 5], bool)
    for image, (of_image, of_classes) in enumerate(case.groundtruth()):
        boxes[image, : len(of_image)] = of_image
        labels[image, np.arange(len(of_image)), of_classes] = 1
        valid[image, : len(of_image)] = True
    return targets.Groundtruth(*map(tf.constant, (boxes, labels, valid.astype(np.float32), valid)))


@functools.cache
def inferred(name):
    """Compute the detections of a recorded case's images."""
    case = recorded_detectors.load(name)
    model = ssd_build.build_ssd(Section(case.config, WHERE))
    with tf.Graph().as_default(), tf1.Session() as session:
        images = model.preprocess(recorded_detectors.resized(case.config, case.images), None)
        outputs = model.postprocess(model.predict(images, None, None, is_training=False), None)
        recorded_detectors.set_weights(session)
        return session.run(outputs)


@functools.cache
def trained(name):
    """Compute losses, targets and gradient norms of a recorded case."""
    case = recorded_detectors.load(name)
    model = ssd_build.build_ssd(Section(case.config, WHERE))
    with tf.Graph().as_default(), tf1.Session() as session:
        images = model.preprocess(recorded_detectors.resized(case.config, case.images), None)
        predictions = model.predict(images, None, None, is_training=True)
        groundtruth = groundtruth_of(case)
        assigned = model.targets(predictions, groundtruth)
        values = dict(model.losses(predictions, None, groundtruth))
        values['regularization_loss'] = tf1.losses.get_regularization_loss()
        values['total_loss'] = tf.add_n(list(values.values()))
        by_name = {variable.op.name: variable for variable in tf1.trainable_variables()}
        names = [str(variable) for variable in case.arrays['train/grad_norm_names']]
        gradients = tf.gradients(values['total_loss'], [by_name[each] for each in names])
        values['gradient_norms'] = [tf.norm(gradient) for gradient in gradients]
        values['box_targets'] = assigned.box_targets
        values['box_weights'] = assigned.box_weights
        values['class_targets'] = assigned.class_targets
        recorded_detectors.set_weights(session)
        return session.run(values)


@pytest.mark.parametrize(
    'name',
    [
        'ssd_mobilenet_v1_coco',
        'ssd_mobilenet_v1_fpn_320',
        # Its backbone and heads: `test_recorded_objects.py`, `test_box_predictors.py`.
        pytest.param('ssdlite_mobilenet_v2_coco', marks=pytest.mark.published),
    ],
)
class TestRecordedCases:
    def test_detections(self, name):
        recorded = recorded_detectors.load(name).arrays
        ours = inferred(name)
        expected = {key[len('infer/det__') :]: value for key, value in recorded.items()}
        np.testing.assert_array_equal(ours[fields.NUM_DETECTIONS], expected['num_detections'])
        for image, count in enumerate(ours[fields.NUM_DETECTIONS].astype(int)):
            self._compare(
                {key: ours[key][image, :count] for key in expected if key in ours and key in PAIRS},
                {key: expected[key][image, :count] for key in PAIRS},
            )

    def _compare(self, ours, expected):
        """Compare pairs of class and anchor, except those whose scores tie with the last."""

        def by_pair(found):
            pairs = zip(found[fields.DETECTION_CLASSES], found[fields.DETECTION_ANCHOR_INDICES])
            return {(int(label), int(anchor)): row for row, (label, anchor) in enumerate(pairs)}

        np.testing.assert_allclose(
            ours[fields.DETECTION_SCORES], expected[fields.DETECTION_SCORES], rtol=1e-4
        )
        rows, expected_rows = by_pair(ours), by_pair(expected)
        last = expected[fields.DETECTION_SCORES][-1]
        for pair in expected_rows.keys() - rows.keys():
            assert expected[fields.DETECTION_SCORES][expected_rows[pair]] - last < 1e-6
        both = sorted(expected_rows.keys() & rows.keys())
        assert len(both) >= len(expected_rows) - 3
        for key in PAIRS:
            np.testing.assert_allclose(
                ours[key][[rows[pair] for pair in both]],
                expected[key][[expected_rows[pair] for pair in both]],
                rtol=1e-4,
                atol=1e-5,
            )

    def test_raw_detections(self, name):
        case, ours = recorded_detectors.load(name), inferred(name)
        case.check('infer/det__raw_detection_boxes', ours[fields.RAW_DETECTION_BOXES], 1e-4)
        case.check('infer/det__raw_detection_scores', ours[fields.RAW_DETECTION_SCORES], 1e-4)

    def test_targets(self, name):
        recorded, ours = recorded_detectors.load(name).arrays, trained(name)
        classes = ours['class_targets']
        # A class target of zeros stands for background.
        labels = np.where(classes.any(-1), classes.argmax(-1), 0)
        np.testing.assert_array_equal(labels, recorded['train/targets__cls'])
        np.testing.assert_array_equal(ours['box_weights'], recorded['train/targets__reg_weights'])
        np.testing.assert_allclose(
            ours['box_targets'], recorded['train/targets__reg'], rtol=1e-4, atol=1e-5
        )

    def test_losses(self, name):
        recorded, ours = recorded_detectors.load(name).arrays, trained(name)
        for key in (ssd.LOCALIZATION_LOSS, ssd.CLASSIFICATION_LOSS):
            rounding.check_close(f'{name}: losses', ours[key], recorded[f'train/loss__{key}'])
        for key in ('regularization_loss', 'total_loss'):
            rounding.check_close(f'{name}: losses', ours[key], recorded[f'train/{key}'])

    def test_gradients(self, name):
        recorded = recorded_detectors.load(name).arrays
        ours = trained(name)['gradient_norms']
        rounding.check_gradient_norms(name, ours, recorded['train/grad_norms'])


PAIRS = (
    fields.DETECTION_BOXES,
    fields.DETECTION_SCORES,
    fields.DETECTION_CLASSES,
    fields.DETECTION_ANCHOR_INDICES,
    fields.DETECTION_MULTICLASS_SCORES,
)


def small_config(num_classes=3, text=''):
    config = text_format.Parse(SMALL % (num_classes, HYPERPARAMS, HYPERPARAMS), ssd_pb2.Ssd())
    return text_format.Merge(text, config)


def losses_of_zeros(config):
    """Compute the losses if all predictions are 0: one image, one box of class 1 on an anchor."""
    model = ssd_build.build_ssd(Section(config, WHERE))
    boxes = np.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0], [0.5, 0.0, 1.0, 0.5]])
    columns = config.num_classes + int(config.add_background_class)
    with tf.Graph().as_default(), tf1.Session() as session:
        predictions = {
            fields.ANCHORS: tf.constant(boxes, tf.float32),
            fields.BOX_ENCODINGS: tf.zeros([1, 3, 4]),
            fields.CLASS_LOGITS: tf.zeros([1, 3, columns]),
        }
        groundtruth = targets.Groundtruth(
            boxes=tf.constant([[[0.05, 0.05, 0.55, 0.55]]]),
            classes=tf.one_hot([[1]], config.num_classes),
            weights=tf.constant([[0.5]]),
            valid=tf.constant([[True]]),
        )
        return session.run(model.losses(predictions, None, groundtruth))


class TestLosses:
    # The anchor's code is (0.1, 0.1) of its size times 10 with logarithms of 0: twice 1 / 2.
    LOCALIZATION = 1.0

    def test_by_hand(self):
        values = losses_of_zeros(small_config())
        # Weights of 0.5, 1 and 1; 4 columns of log 2 each. At least 1 matched weight is counted.
        assert values[ssd.CLASSIFICATION_LOSS] == pytest.approx(2.5 * 4 * np.log(2), rel=1e-5)
        assert values[ssd.LOCALIZATION_LOSS] == pytest.approx(0.5 * self.LOCALIZATION, rel=1e-5)

    def test_weights_of_losses(self):
        text = 'loss { classification_weight: 3 localization_weight: 5 }'
        values = losses_of_zeros(small_config(text=text))
        assert values[ssd.CLASSIFICATION_LOSS] == pytest.approx(30 * np.log(2), rel=1e-5)
        assert values[ssd.LOCALIZATION_LOSS] == pytest.approx(2.5, rel=1e-5)

    def test_normalization_by_code_size(self):
        values = losses_of_zeros(small_config(text='normalize_loc_loss_by_codesize: true'))
        assert values[ssd.LOCALIZATION_LOSS] == pytest.approx(0.125, rel=1e-5)

    def test_negative_class_weight(self):
        values = losses_of_zeros(small_config(text='negative_class_weight: 0.25'))
        assert values[ssd.CLASSIFICATION_LOSS] == pytest.approx(4 * np.log(2), rel=1e-5)

    def test_hard_examples(self):
        text = 'loss { hard_example_miner { max_negatives_per_positive: 1 } }'
        values = losses_of_zeros(small_config(text=text))
        assert values[ssd.CLASSIFICATION_LOSS] == pytest.approx(1.5 * 4 * np.log(2), rel=1e-5)

    @pytest.mark.parametrize(
        ('kind', 'expected'),
        [
            ('weighted_iou', 1 - 0.2025 / (0.5 - 0.2025)),
            ('weighted_giou', 1 - 0.2025 / 0.2975 + 0.005 / 0.3025),
        ],
    )
    def test_losses_of_decoded_boxes(self, kind, expected):
        config = small_config()
        config.loss.localization_loss.Clear()
        getattr(config.loss.localization_loss, kind).SetInParent()
        values = losses_of_zeros(config)
        assert values[ssd.LOCALIZATION_LOSS] == pytest.approx(0.5 * expected, rel=1e-4)

    def test_scores_that_are_overlaps(self):
        # The IoU of the anchor itself is 0.2025 / 0.2975. The probabilities are 1/2, whose entropy
        # is log 2, whatever the target. Background is no class.
        text = 'encode_background_as_zeros: true'
        config = small_config(text=text)
        config.loss.classification_loss.Clear()
        config.loss.classification_loss.quality_focal.beta = 2.0
        values = losses_of_zeros(config)
        own = (0.2025 / 0.2975 - 0.5) ** 2
        expected = (0.5 * (own + 3 / 4) + 2 * 4 / 4) * np.log(2)
        assert values[ssd.CLASSIFICATION_LOSS] == pytest.approx(expected, rel=1e-4)


# Its first steps are those of `atss_matcher`.
ADAPTIVE = (
    'matcher { dynamic_matcher { static_steps: 3 } } '
    'loss { classification_loss { quality_focal {} } }'
)


def test_the_graph_does_not_grow():
    def count(batch, num_classes):
        model = ssd_build.build_ssd(Section(small_config(num_classes, ADAPTIVE), WHERE))
        with tf.Graph().as_default() as graph:
            images = tf1.placeholder(tf.float32, [batch, 96, 96, 3])
            predictions = {
                **model.predict(images, None, None, is_training=True),
                fields.PREPROCESSED: images,
            }
            groundtruth = targets.Groundtruth(
                boxes=tf1.placeholder(tf.float32, [batch, 10, 4]),
                classes=tf1.placeholder(tf.float32, [batch, 10, num_classes]),
                weights=tf1.placeholder(tf.float32, [batch, 10]),
                valid=tf1.placeholder(tf.bool, [batch, 10]),
            )
            model.losses(predictions, None, groundtruth)
            model.postprocess(predictions, None)
        definition = graph.as_graph_def()
        inner = sum(len(function.node_def) for function in definition.library.function)
        return len(definition.node) + inner

    assert count(2, 20) == count(5, 90)


@pytest.mark.parametrize(
    ('text', 'path'),
    [
        ('use_confidences_as_targets: true', 'model.ssd.use_confidences_as_targets'),
        ('mask_head_config {}', 'model.ssd.mask_head_config'),
        ('explicit_background_class: true', 'model.ssd.explicit_background_class'),
        (
            'box_coder { keypoint_box_coder { num_keypoints: 3 } }',
            'model.ssd.box_coder.keypoint_box_coder',
        ),
        (
            'feature_extractor { conv_hyperparams { group_norm {} } }',
            'model.ssd.feature_extractor.conv_hyperparams.group_norm',
        ),
        (
            'feature_extractor { conv_hyperparams { op: FC } }',
            'model.ssd.feature_extractor.conv_hyperparams.op',
        ),
        (
            'post_processing { batch_non_max_suppression { iou_threshold: 2 } }',
            'model.ssd.post_processing.batch_non_max_suppression.iou_threshold',
        ),
        (
            'loss { random_example_sampler { positive_sample_fraction: -1 } }',
            'model.ssd.loss.random_example_sampler.positive_sample_fraction',
        ),
    ],
)
def test_what_is_not_honored_is_refused(text, path):
    with pytest.raises(errors.ConfigError, match=path):
        ssd_build.build_ssd(Section(small_config(text=text), WHERE))


def test_what_only_names_what_is_done_anyway_is_accepted():
    config = small_config(text='return_raw_detections_during_predict: true')
    ssd_build.build_ssd(Section(config, WHERE))


def test_anchors_for_other_feature_maps_are_refused():
    config = small_config()
    config.anchor_generator.ssd_anchor_generator.num_layers = 2
    model = ssd_build.build_ssd(Section(config, WHERE))
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 96, 96, 3])
        with pytest.raises(errors.ConfigError, match=r'anchor_generator: anchors for 2 feature'):
            model.predict(images, None, None, is_training=False)


def rotated_model(more=''):
    text = SMALL % (2, HYPERPARAMS, HYPERPARAMS) + 'box_type: ROTATED'
    text = text.replace('faster_rcnn_box_coder', 'rotated_box_coder').replace(
        'aspect_ratios: 1.0 aspect_ratios: 2.0',
        'aspect_ratios: 1.0 aspect_ratios: 2.0 angles: [0.0, 0.5, 1.0]',
    )
    config = text_format.Parse(text, ssd_pb2.Ssd())
    return ssd_build.build_ssd(Section(text_format.Merge(more, config), WHERE))


@pytest.mark.usefixtures('initial_values')
def test_rotated_anchors_find_themselves():
    """Groundtruth that is an anchor is its target, with a code of zeros, and is decoded again."""
    model = rotated_model()
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf.zeros([1, 96, 96, 3])
        predictions = model.predict(images, None, None, is_training=False)
        anchors = predictions[fields.ANCHORS]
        rows = [103, 400]  # neither is a square, which has two names
        boxes = quadrilaterals.from_boxes(tf.gather(anchors, rows), 96.0, 96.0)[tf.newaxis]
        groundtruth = targets.Groundtruth(
            boxes, tf.one_hot([[0, 1]], 2), tf.ones([1, 2]), tf.fill([1, 2], True)
        )
        predictions = {**predictions, fields.PREPROCESSED: images}
        assigned = model.targets(predictions, groundtruth)
        logits = tf.one_hot([rows], anchors.shape[0], on_value=8.0, off_value=-8.0)
        found = model.postprocess(
            {
                **predictions,
                fields.BOX_ENCODINGS: tf.zeros([1, anchors.shape[0], 5]),
                # Background is the first column.
                fields.CLASS_LOGITS: tf.pad(
                    tf.transpose(logits, [0, 2, 1]), [[0, 0], [0, 0], [1, 0]]
                ),
            },
            tf.constant([[96, 48, 3]]),
        )
        session.run(tf1.global_variables_initializer())
        matches, codes, corners, expected, count = session.run(
            [
                assigned.matches,
                assigned.box_targets,
                found[fields.DETECTION_BOXES],
                boxes,
                found[fields.NUM_DETECTIONS],
            ]
        )
    assert matches[0, rows].tolist() == [0, 1]
    np.testing.assert_allclose(codes[0, rows], np.zeros([2, 5]), atol=1e-3)
    # Half of the input's width is padding: boxes are normalized to the rest.
    assert count >= 2
    expected = expected[0].reshape([2, 4, 2]) * [1, 2]
    distances = np.abs(corners[0, :, np.newaxis].reshape([-1, 1, 4, 2]) - expected).max(axis=(2, 3))
    assert distances.min(axis=0).max() < 1e-3


@pytest.fixture(scope='module')
def rotated_predictions():
    """Compute what a detector predicts for a black image, whatever its losses are."""
    with tf.Graph().as_default(), tf1.Session() as session, initial_values.drawn():
        images = tf.zeros([1, 96, 96, 3])
        found = rotated_model(ADAPTIVE).predict(images, None, None, is_training=True)
        session.run(tf1.global_variables_initializer())
        return session.run(found)


@pytest.mark.parametrize(
    'more',
    [
        'loss { hard_example_miner { num_hard_examples: 20 iou_threshold: 0.99 } }',
        'loss { localization_loss { gaussian_wasserstein {} } }',
        'loss { localization_loss { gaussian_kullback_leibler { tau: 2 } } }',
        'matcher { atss_matcher {} }',
        ADAPTIVE,
        'matcher { dynamic_matcher {} }',
    ],
)
def test_rotated_losses_have_slopes(more, rotated_predictions):
    model = rotated_model(more)
    with tf.Graph().as_default(), tf1.Session() as session:
        predictions = {name: tf.constant(one) for name, one in rotated_predictions.items()}
        predictions[fields.PREPROCESSED] = tf.zeros([1, 96, 96, 3])
        boxes = quadrilaterals.from_boxes(tf.constant([[[40.0, 50, 20, 50, 0.7]]]), 96.0, 96.0)
        groundtruth = targets.Groundtruth(
            boxes, tf.one_hot([[1]], 2), tf.ones([1, 1]), tf.fill([1, 1], True)
        )
        losses = model.losses(predictions, None, groundtruth)
        codes = predictions[fields.BOX_ENCODINGS]
        slopes = tf.gradients(losses[ssd.LOCALIZATION_LOSS], codes)[0]
        values, found = session.run([losses, slopes])
    assert all(np.isfinite(value) and value > 0 for value in values.values())
    assert np.all(np.isfinite(found)) and np.any(found != 0)


def of_type(kind, text=''):
    config = small_config(text=text)
    config.feature_extractor.type = kind
    config.feature_extractor.pad_to_multiple = 128  # which the levels of an EfficientDet need
    return ssd_build.build_ssd(Section(config, 'model.ssd'))


@pytest.mark.parametrize(
    ('kind', 'end'),
    [
        ('ssd_mobilenet_v2_keras', ', or the type ssd_mobilenet_v2.'),
        ('ssd_efficientnet-b0_bifpn_keras', 'a checkpoint of ssd_efficientnet-b0_bifpn_keras.'),
    ],
)
def test_a_foreign_checkpoint_names_the_other_type_where_there_is_one(kind, end):
    assert of_type(kind).foreign_checkpoint(['FeatureExtractor/a']).endswith(end)


COLORS = np.array([[[[200.0, 100.0, 50.0]], [[0.0] * 3]]], np.float32)
# What each extractor makes of the color, by hand: minus the mean, over the deviation.
NORMALIZED = {
    'ssd_efficientnet-b0_bifpn_keras': [
        (200 / 255 - 0.485) / 0.229,
        (100 / 255 - 0.456) / 0.224,
        (50 / 255 - 0.406) / 0.225,
    ],
    'ssd_mobilenet_v2_keras': [200 / 127.5 - 1, 100 / 127.5 - 1, 50 / 127.5 - 1],
    'ssd_resnet50_v1_fpn_keras': [200 - 123.68, 100 - 116.779, 50 - 103.939],
}


@pytest.mark.parametrize('kind', NORMALIZED)
def test_padding_is_zero_on_the_normalized_scale(kind):
    seen = of_type(kind).preprocess(tf.constant(COLORS), tf.constant([[1, 1, 3]])).numpy()
    np.testing.assert_allclose(seen[0, 0, 0], NORMALIZED[kind], rtol=1e-4)
    np.testing.assert_array_equal(seen[0, 1, 0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize('kind', NORMALIZED)
def test_gray_is_that_of_normalized_colors_and_padding(kind):
    padded = """image_resizer { keep_aspect_ratio_resizer {
      min_dimension: 96 max_dimension: 96 pad_to_max_dimension: true convert_to_grayscale: true
      per_channel_pad_value: [1, 2, 3]
    } }"""
    seen = of_type(kind, padded).preprocess(tf.constant(COLORS), tf.constant([[1, 1, 3]])).numpy()
    weights = np.array([0.2989, 0.587, 0.114])
    assert seen.shape == (1, 2, 1, 1)
    expected = [weights @ NORMALIZED[kind], weights @ [1, 2, 3]]
    np.testing.assert_allclose(seen[0, :, 0, 0], expected, rtol=1e-4)
