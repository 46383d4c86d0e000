from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import generations
from model_fns.detection.networks import box_predictors
from model_fns.detection.networks.box_predictors import (
    ConvolutionalBoxPredictor,
    Head,
    WeightSharedBoxPredictor,
)
from protos import box_predictors_pb2
from tests.model_fns.detection import slow_networks
from tests.model_fns.detection.slow_networks import layer, relu6

tf1 = tf.compat.v1

STYLE = layers.LayerStyle(
    activation=tf.nn.relu6,
    batch_norm=layers.BatchNorm(scale=True),
    regularizer=layers.l2(0.1),
    regularize_depthwise=True,
)
BOX = Head(4, 'BoxEncodingPredictor')
CLASS = Head(3, 'ClassPredictor')
SHARED_BOX = Head(4, 'BoxPredictor')
SIZES = [(3, 2, 5), (2, 1, 5)]
SHARED = 'WeightSharedConvolutionalBoxPredictor'


def images(sizes=SIZES):
    random = np.random.RandomState(0)
    return [random.normal(size=[2, *size]).astype(np.float32) for size in sizes]


def run(predictor, maps, anchors_per_location):
    """Return codes, logits, and the variables' random values."""
    with tf.Graph().as_default(), tf1.Session() as session:
        outputs = predictor.predict([tf.constant(one) for one in maps], anchors_per_location)
        values = slow_networks.randomize(session)
        return (*session.run(outputs), values)


def names_of(predictor, sizes=SIZES, anchors_per_location=(1, 1)):
    """Return the names of the variables without batch norm's, and the number of losses."""
    with tf.Graph().as_default():
        predictor.predict([tf.zeros([1, *size]) for size in sizes], anchors_per_location)
        names = {v.op.name for v in tf1.global_variables()}
        penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    return {name for name in names if 'BatchNorm' not in name}, len(penalties)


def by_anchor(predictions, count, outputs):
    """Reorder slowly: rows, then columns, then the anchors of a cell."""
    batch, height, width, _ = predictions.shape
    rows = []
    for y in range(height):
        for x in range(width):
            for anchor in range(count):
                rows.append(predictions[:, y, x, anchor * outputs : (anchor + 1) * outputs])
    return np.stack(rows, axis=1).reshape(batch, height * width * count, outputs)


@pytest.mark.parametrize('use_depthwise', [False, True])
@pytest.mark.parametrize('num_layers', [0, 2])
def test_heads_of_their_own_equal_their_definition(use_depthwise, num_layers):
    predictor = ConvolutionalBoxPredictor(
        BOX,
        CLASS,
        STYLE,
        kernel_size=3,
        num_layers=num_layers,
        depth_range=(2, 4),
        use_depthwise=use_depthwise,
    )
    maps, counts = images(), (2, 3)
    codes, logits, values = run(predictor, maps, counts)
    expected = {BOX: [], CLASS: []}
    for level, (features, count) in enumerate(zip(maps, counts)):
        for number in range(num_layers):
            scope = f'BoxPredictor_{level}/Conv2d_{number}_1x1_4'
            features = relu6(layer(features, values, scope))
        for head, parts in expected.items():
            scope = f'BoxPredictor_{level}/{head.scope}'
            filtered = features
            if use_depthwise:
                filtered = relu6(layer(features, values, f'{scope}_depthwise'))
            parts.append(by_anchor(layer(filtered, values, scope), count, head.num_outputs))
    assert codes.shape == (2, 6 * 2 + 2 * 3, 4) and logits.shape == (2, 18, 3)
    np.testing.assert_allclose(codes, np.concatenate(expected[BOX], 1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(logits, np.concatenate(expected[CLASS], 1), rtol=1e-4, atol=1e-4)


def test_a_single_map_has_no_scope_of_its_own():
    names, _ = names_of(ConvolutionalBoxPredictor(BOX, CLASS, STYLE), SIZES[:1], (3,))
    assert names == {
        f'{head}/{leaf}'
        for head in ('BoxEncodingPredictor', 'ClassPredictor')
        for leaf in ('weights', 'biases')
    }


@pytest.mark.parametrize(
    'depth_range, depth', [((0, 0), None), ((0, 3), 3), ((0, 64), 5), ((8, 64), 8), ((8, 0), 8)]
)
def test_depth_before_the_heads(depth_range, depth):
    predictor = ConvolutionalBoxPredictor(BOX, CLASS, STYLE, num_layers=1, depth_range=depth_range)
    names, _ = names_of(predictor)
    before = {name.split('/')[1] for name in names if 'Conv2d' in name}
    assert before == ({f'Conv2d_0_1x1_{depth}'} if depth else set())


@pytest.mark.parametrize('use_depthwise', [False, True])
@pytest.mark.parametrize('share_tower', [False, True])
def test_shared_heads_equal_their_definition(use_depthwise, share_tower):
    predictor = WeightSharedBoxPredictor(
        SHARED_BOX,
        CLASS,
        STYLE,
        depth=6,
        num_layers=2,
        kernel_size=3,
        share_tower=share_tower,
        use_depthwise=use_depthwise,
    )
    maps = images()
    codes, logits, values = run(predictor, maps, (2, 2))
    towers = ('BoxPredictionTower', 'ClassPredictionTower')
    if share_tower:
        towers = ('PredictionTower', 'PredictionTower')
    for actual, head, tower in ((codes, SHARED_BOX, towers[0]), (logits, CLASS, towers[1])):
        expected = []
        for level, features in enumerate(maps):
            for number in range(2):
                scope = f'{SHARED}/{tower}/conv2d_{number}'
                norm = f'{scope}/BatchNorm/feature_{level}'
                features = relu6(layer(features, values, scope, norm=norm))
            outputs = layer(features, values, f'{SHARED}/{head.scope}')
            expected.append(by_anchor(outputs, 2, head.num_outputs))
        np.testing.assert_allclose(actual, np.concatenate(expected, 1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    'style, biases',
    [(STYLE, False), (STYLE.but(batch_norm=None), True), (STYLE.but(force_bias=True), True)],
)
def test_biases_of_towers(style, biases):
    names, _ = names_of(WeightSharedBoxPredictor(SHARED_BOX, CLASS, style, depth=6, num_layers=1))
    assert (f'{SHARED}/BoxPredictionTower/conv2d_0/biases' in names) is biases


@pytest.mark.parametrize('style', [STYLE, STYLE.but(batch_norm=None)], ids=['norm', 'bias'])
def test_maps_of_different_widths_are_projected(style):
    sizes = [(3, 2, 7), (2, 1, 5), (1, 1, 5)]
    predictor = WeightSharedBoxPredictor(SHARED_BOX, CLASS, style, depth=6, kernel_size=1)
    maps = images(sizes)
    codes, _, values = run(predictor, maps, (1, 1, 1))
    expected = []
    for level, features in enumerate(maps):
        # All maps, also those that have the common width already; without an activation.
        projected = layer(features, values, f'{SHARED}/ProjectionLayer/conv2d_{level}')
        assert projected.shape[-1] == 5
        expected.append(by_anchor(layer(projected, values, f'{SHARED}/BoxPredictor'), 1, 4))
    np.testing.assert_allclose(codes, np.concatenate(expected, 1), rtol=1e-4, atol=1e-4)


def test_shared_heads_need_equal_numbers_of_anchors():
    predictor = WeightSharedBoxPredictor(SHARED_BOX, CLASS, STYLE, depth=6)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r'same number.*\[2, 3\]'):
        predictor.predict([tf.zeros([1, *size]) for size in SIZES], [2, 3])


def _predictor(kind, box=BOX, head=CLASS, style=STYLE, **arguments):
    if kind == 'shared':
        return WeightSharedBoxPredictor(box, head, style, depth=6, **arguments)
    return ConvolutionalBoxPredictor(box, head, style, **arguments)


@pytest.mark.parametrize('kind', ['own', 'shared'])
def test_codes_are_clipped_and_logits_are_not(kind):
    box = dataclasses.replace(BOX, clip=(-0.5, 0.25))
    codes, logits, _ = run(_predictor(kind, box=box), images(), (2, 2))
    assert codes.min() == -0.5 and codes.max() == 0.25
    assert np.abs(logits).max() > 1.0


@pytest.mark.parametrize('kind', ['own', 'shared'])
def test_scores_as_probabilities(kind):
    _, logits, _ = run(_predictor(kind), images(), (2, 2))
    _, scores, _ = run(_predictor(kind, sigmoid_scores=True), images(), (2, 2))
    np.testing.assert_allclose(scores, 1.0 / (1.0 + np.exp(-logits)), rtol=1e-4)


@pytest.mark.parametrize('kind', ['own', 'shared'])
def test_dropout_is_before_the_class_head_and_in_training_only(kind):
    dropping = dataclasses.replace(CLASS, dropout_keep_prob=0.5)
    plain = run(_predictor(kind), images(), (2, 2))
    in_evaluation = run(_predictor(kind, head=dropping), images(), (2, 2))
    np.testing.assert_array_equal(in_evaluation[1], plain[1])
    frozen = layers.BatchNorm(scale=True, train=False)
    style = STYLE.but(is_training=True, batch_norm=frozen)
    codes, logits, _ = run(_predictor(kind, head=dropping, style=style), images(), (2, 2))
    np.testing.assert_allclose(codes, plain[0], rtol=1e-5)
    assert np.mean(np.isclose(logits, plain[1])) < 0.2


@pytest.mark.parametrize('kind', ['own', 'shared'])
def test_first_biases(kind):
    head = dataclasses.replace(CLASS, bias=-4.5)
    with tf.Graph().as_default(), tf1.Session() as session:
        _predictor(kind, head=head).predict([tf.zeros([1, *size]) for size in SIZES], [2, 2])
        session.run(tf1.global_variables_initializer())
        biases = {v.op.name: v for v in tf1.global_variables() if v.op.name.endswith('biases')}
        values = session.run(biases)
    for name, value in values.items():
        assert set(value) == {-4.5 if 'ClassPredictor' in name else 0.0}, name


def test_unknown_sizes():
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = [tf1.placeholder(tf.float32, [None, None, None, 5]) for _ in SIZES]
        outputs = _predictor('own').predict(maps, (2, 3))
        slow_networks.randomize(session)
        codes, logits = session.run(outputs, dict(zip(maps, images())))
    expected = run(_predictor('own'), images(), (2, 3))
    np.testing.assert_allclose(codes, expected[0], rtol=1e-5)
    np.testing.assert_allclose(logits, expected[1], rtol=1e-5)


HYPERPARAMS = """conv_hyperparams {
    initializer { truncated_normal_initializer { stddev: 0.03 } }
    regularizer { l2_regularizer { weight: 0.25 } }
    batch_norm { scale: true }
  }"""


def build(text, is_training=False, code_size=4, class_columns=3, **arguments):
    config = text_format.Parse(text, box_predictors_pb2.BoxPredictor())
    return box_predictors.build_box_predictor(
        Section(config, 'here.box_predictor'), code_size, class_columns, is_training, **arguments
    )


def own(fields='', **arguments):
    return build(f'convolutional_box_predictor {{ {fields} {HYPERPARAMS} }}', **arguments)


def shared_head(fields='depth: 6', **arguments):
    text = f'weight_shared_convolutional_box_predictor {{ {fields} {HYPERPARAMS} }}'
    return build(text, **arguments)


def test_every_field_of_heads_of_their_own_is_honored():
    predictor = own(
        """min_depth: 3 max_depth: 4 num_layers_before_predictor: 2 kernel_size: 5
        use_depthwise: true box_code_size: 5 class_prediction_bias_init: -1
        apply_sigmoid_to_scores: true box_encodings_clip_range { min: -3 max: 2 }""",
        code_size=5,
    )
    _, logits, values = run(predictor, images(), (2, 2))
    assert values['BoxPredictor_1/Conv2d_1_1x1_4/weights'].shape == (1, 1, 4, 4)
    scope = 'BoxPredictor_1/BoxEncodingPredictor'
    assert values[f'{scope}_depthwise/depthwise_weights'].shape == (5, 5, 4, 1)
    assert values[f'{scope}/weights'].shape == (1, 1, 4, 10)
    assert logits.min() > 0.0 and logits.max() < 1.0
    box, head = predictor._heads
    assert box == Head(5, 'BoxEncodingPredictor', clip=(-3.0, 2.0))
    # Dropout is on where the config does not say otherwise.
    assert head == Head(3, 'ClassPredictor', -1.0, pytest.approx(0.8))


@pytest.mark.parametrize(
    'fields, keep',
    [
        ('', 0.8),
        ('use_dropout: false', 1.0),
        ('dropout_keep_probability: 0.5', 0.5),
        ('use_dropout: false dropout_keep_probability: 0.5', 1.0),
    ],
)
def test_dropout_of_heads_of_their_own(fields, keep):
    assert own(fields)._heads[1].dropout_keep_prob == pytest.approx(keep)


@pytest.mark.parametrize(
    'fields, keep',
    [
        ('depth: 6', 1.0),
        ('depth: 6 use_dropout: true', 0.8),
        ('depth: 6 use_dropout: true dropout_keep_probability: 0.5', 0.5),
    ],
)
def test_dropout_of_shared_heads(fields, keep):
    assert shared_head(fields).class_head.dropout_keep_prob == pytest.approx(keep)


def test_every_field_of_shared_heads_is_honored():
    predictor = shared_head(
        """depth: 6 num_layers_before_predictor: 1 kernel_size: 5 use_depthwise: true
        share_prediction_tower: true class_prediction_bias_init: -2 score_converter: SIGMOID
        box_encodings_clip_range { min: -3 max: 2 }"""
    )
    codes, scores, values = run(predictor, images(), (2, 2))
    tower = f'{SHARED}/PredictionTower/conv2d_0'
    assert values[f'{tower}/depthwise_weights'].shape == (5, 5, 5, 1)
    assert values[f'{tower}/pointwise_weights'].shape == (1, 1, 5, 6)
    assert codes.min() >= -3.0 and codes.max() <= 2.0
    assert scores.min() >= 0.0 and scores.max() <= 1.0
    assert predictor.class_head.bias == -2.0


def test_shared_scores_stay_logits_in_training():
    fields = 'depth: 6 score_converter: SIGMOID'
    assert shared_head(fields)._sigmoid_scores
    assert not shared_head(fields, is_training=True)._sigmoid_scores
    assert own('apply_sigmoid_to_scores: true', is_training=True)._sigmoid_scores


@pytest.mark.parametrize('make', [own, shared_head])
def test_batch_norm_is_frozen_or_updated_in_place_when_asked(make):
    def norm(**arguments):
        return make(is_training=True, **arguments)._style.batch_norm

    assert norm().train and not norm().inplace_update
    assert not norm(freeze_batch_norm=True).train
    assert norm(inplace_batch_norm_update=True).inplace_update


@pytest.mark.parametrize(
    'text, message',
    [
        ('', r'^here.box_predictor: empty; expected convolutional_box_predictor or weight_shared'),
        ('rfcn_box_predictor {}', 'box_predictor: rfcn_box_predictor; expected'),
    ],
)
def test_other_heads_are_refused(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(text)


@pytest.mark.parametrize(
    ('generation', 'field', 'regularized'),
    [
        (generations.FIRST, '', {'tower depthwise', 'tower pointwise', 'head'}),
        (generations.SECOND, '', {'tower depthwise'}),
        (
            generations.SECOND,
            'apply_conv_hyperparams_pointwise: true',
            {'tower depthwise', 'tower pointwise'},
        ),
        (generations.SECOND, 'apply_conv_hyperparams_to_heads: true', {'tower depthwise', 'head'}),
    ],
)
def test_what_of_separable_convolutions_is_regularized(generation, field, regularized):
    text = f"""weight_shared_convolutional_box_predictor {{
      depth: 6 num_layers_before_predictor: 1 use_depthwise: true {field}
      conv_hyperparams {{
        regularizer {{ l2_regularizer {{ weight: 2 }} }}
        initializer {{ truncated_normal_initializer {{ mean: 9 stddev: 0.1 }} }}
        batch_norm {{}}
      }}
    }}"""
    config = text_format.Parse(text, box_predictors_pb2.BoxPredictor())
    made = box_predictors.build_box_predictor(Section(config), 4, 3, True, generation=generation)
    with tf.Graph().as_default(), tf1.Session() as session:
        made.predict([tf.zeros([1, *SIZES[0]])], [2])
        losses = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        session.run(tf1.global_variables_initializer())
        weights = [one for one in tf1.trainable_variables() if one.op.name.endswith('_weights')]
        values = {one.op.name: session.run(one) for one in weights}
        penalty = sum(session.run(losses))
    assert len(values) == 2 * 2 + 2 * 2  # of two towers and two heads
    expected = 0.0
    for name, value in values.items():
        part = name.rpartition('/')[2].replace('_weights', '')
        is_chosen = (f'tower {part}' if 'Tower' in name else 'head') in regularized
        expected += (value**2).sum() if is_chosen else 0.0
        assert (value.mean() > 5.0) == is_chosen, name
    assert penalty == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize('make', [own, shared_head])
def test_a_code_of_another_size_than_the_coder_has(make):
    with pytest.raises(
        errors.ConfigError, match='box_code_size: 5; expected 4, that of the box coder'
    ):
        make('box_code_size: 5')
    # Where it is left out it is the coder's.
    assert make(code_size=8) is not None


@pytest.mark.bfloat16
@pytest.mark.parametrize('kind', [ConvolutionalBoxPredictor, WeightSharedBoxPredictor])
def test_low_precision_follows_float32_and_gives_float32(kind):
    found = []
    for dtype in (tf.float32, tf.bfloat16):
        style = STYLE.but(compute_dtype=dtype)
        more = {'depth': 6, 'num_layers': 1} if kind is WeightSharedBoxPredictor else {}
        codes, logits, _ = run(kind(SHARED_BOX, CLASS, style, **more), images(), [2, 2])
        assert codes.dtype == logits.dtype == np.float32
        found.append((codes, logits))
    for exact, rounded in zip(*found):
        np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.05 * np.abs(exact).max())
        assert not np.array_equal(rounded, exact)
