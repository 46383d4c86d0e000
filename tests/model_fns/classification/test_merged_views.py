"""The mean of the scores of views, against a slow computation of each view."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, model_fn, tf_estimator
from estimator_lib.task import IMAGE, SOURCE_ID
from model_fns import build_task
from protos import pipeline_pb2

pytestmark = pytest.mark.usefixtures('shallow_networks')

ModeKeys = tf_estimator.ModeKeys
tf1 = tf.compat.v1

TINY = (
    'num_classes: 3 image_height: 32 image_width: 48 '
    "backbone { name: 'mobilenet_v1' depth_multiplier: 0.1 }"
)
VIEWS = 'flip_horizontally: true scales: [0.5, 1.0, 1.25]'
IMAGES = np.random.RandomState(0).uniform(-1, 1, [2, 32, 48, 3]).astype(np.float32)


def config_of(views=VIEWS, model=TINY):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text = f'model {{ classification {{ {model} }} }}'
    text_format.Parse(f'{text} eval_config {{ test_time_augmentation {{ {views} }} }}', config)
    return config


def slowly_resized(image, height, width):
    """Resize by the weights of the four nearest pixels, whose centers are at half numbers."""
    result = np.zeros([height, width, image.shape[2]])
    for row in range(height):
        for column in range(width):
            y = min(max((row + 0.5) * image.shape[0] / height - 0.5, 0), image.shape[0] - 1)
            x = min(max((column + 0.5) * image.shape[1] / width - 0.5, 0), image.shape[1] - 1)
            top, left = int(y), int(x)
            bottom = min(top + 1, image.shape[0] - 1)
            right = min(left + 1, image.shape[1] - 1)
            above = image[top, left] * (1 - x + left) + image[top, right] * (x - left)
            below = image[bottom, left] * (1 - x + left) + image[bottom, right] * (x - left)
            result[row, column] = above * (1 - y + top) + below * (y - top)
    return result


def random_weights(variable):
    """Return weights that keep the size of activations, so that views differ in their scores."""
    shape = variable.shape.as_list()
    inputs = 9 if 'depthwise' in variable.name else np.prod(shape[:-1])
    size = np.sqrt((30.0 if 'Logits' in variable.name else 2.0) / inputs)
    return np.random.RandomState(len(variable.name)).normal(0.0, size, shape)


def score(logits, is_multi_label):
    if is_multi_label:
        return 1 / (1 + np.exp(-logits))
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize('rest', ['', ' multi_label: true'], ids=['softmax', 'sigmoid'])
def test_scores_are_the_mean_of_those_of_each_view(rest):
    task = build_task(config_of(model=TINY + rest))
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(3)
        tf1.train.create_global_step()
        features = {IMAGE: tf.constant(IMAGES)}
        predictions = task.predict(features, ModeKeys.EVAL)
        outputs = task.postprocess(predictions, features)
        variables = tf1.global_variables()
        # The task as it is exported computes one view at a time, with the same variables.
        pixels = tf1.placeholder(tf.float32, [1, None, None, 3])
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=True):
            one = task.as_exported().predict({IMAGE: pixels}, ModeKeys.PREDICT)
        assert set(one) == {'logits'} and tf1.global_variables() == variables
        session.run(tf1.global_variables_initializer())
        for variable in variables:
            if 'weights' in variable.name:
                variable.load(random_weights(variable), session)
        plain, found = session.run([predictions['logits'], outputs])
        expected = []
        for image in IMAGES:
            scores = []
            for height, width in ((16, 24), (32, 48), (40, 60)):
                view = slowly_resized(image.astype(np.float64), height, width)
                for seen in (view, view[:, ::-1]):
                    logits = session.run(one['logits'], {pixels: seen[np.newaxis]})[0]
                    scores.append(score(logits.astype(np.float64), bool(rest)))
            expected.append(np.mean(scores, axis=0))
    np.testing.assert_allclose(found['probabilities'], expected, atol=2e-5)
    np.testing.assert_allclose(score(found['logits'], bool(rest)), expected, atol=2e-5)
    # A test of nothing if all views had the same scores.
    assert np.abs(score(plain, bool(rest)) - expected).max() > 1e-3
    chosen = np.array(expected) >= 0.5 if rest else np.argmax(expected, axis=1)
    np.testing.assert_array_equal(found['classes'], chosen)


@pytest.mark.usefixtures('no_initial_values')
def test_estimators_get_the_views_in_evaluation_and_prediction_alone():
    config = config_of()
    build = model_fn.create_model_fn(build_task(config), config)
    for mode, passes in ((ModeKeys.EVAL, 4), (ModeKeys.PREDICT, 4), (ModeKeys.TRAIN, 1)):
        with tf.Graph().as_default() as graph:
            tf1.train.create_global_step()
            batch = {IMAGE: tf.zeros([2, 32, 48, 3]), SOURCE_ID: tf.constant(['a', 'b'])}
            if mode == ModeKeys.TRAIN:
                build_task(config).predict(batch, mode)
            else:
                labels = {'label': tf.constant([0, 1], tf.int64)}
                spec = build(batch, labels if mode == ModeKeys.EVAL else None, mode)
                assert spec.predictions['probabilities'].shape == [2, 3]
            kinds = [op.type for op in graph.get_operations()]
        assert kinds.count('DepthwiseConv2dNative') == 4 * passes


@pytest.mark.parametrize(
    ('model', 'views', 'problem'),
    [
        (
            "num_classes: 2 backbone { name: 'lenet' }",
            'scales: [1, 0.5]',
            'eval_config.test_time_augmentation.scales: 0.5; lenet takes only images of the size '
            'that it is trained with; expected 1.',
        ),
        (
            "num_classes: 2 backbone { name: 'inception_v3' } image_height: 80 image_width: 100",
            'scales: 0.9',
            'eval_config.test_time_augmentation.scales: 0.9; it gives images of 72 x 90 pixels, '
            'and inception_v3 takes at least 75 x 75.',
        ),
    ],
)
def test_scales_that_a_network_does_not_take(model, views, problem):
    with pytest.raises(errors.ConfigError) as caught:
        build_task(config_of(views, model))
    assert str(caught.value) == problem


def test_a_prediction_is_told_too():
    """Its mode does not check the parts of evaluations."""
    with pytest.raises(errors.ConfigError, match='scales: 0.5; lenet takes only images'):
        build_task(config_of('scales: 0.5', "num_classes: 2 backbone { name: 'lenet' }"), 'predict')


def test_segmentation_has_views_of_its_own():
    config = config_of()
    config.model.Clear()
    config.model.segmentation.backbone.name = 'mobilenet_v2'
    config.model.segmentation.num_classes = 2
    with pytest.raises(errors.ConfigError) as caught:
        build_task(config)
    assert str(caught.value).startswith(
        'eval_config.test_time_augmentation: not supported: segmentation has '
        'model.segmentation.evaluation.scales and add_flipped_images'
    )
