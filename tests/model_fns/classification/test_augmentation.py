import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.task import IMAGE
from model_fns.augmentation import pipeline, randomness
from model_fns.classification import augmentation
from model_fns.classification.config_rules import RULES
from model_fns.classification.inputs import LABEL, SHARES
from protos import augmentation_pb2, train_pb2

HEIGHT, WIDTH, CLASSES = 12, 16, 4


def build(steps):
    text = ''.join(f'data_augmentation_options {{ {step} }}' for step in steps.split(' + '))
    config = text_format.Parse(text, train_pb2.TrainConfig())
    return pipeline.build(config.data_augmentation_options, augmentation.KINDS)


def example(number, label, dtype=np.uint8):
    image = np.random.RandomState(number).randint(0, 256, [HEIGHT, WIDTH, 3])
    return {
        IMAGE: tf.constant(image.astype(dtype)),
        LABEL: tf.constant(label, tf.int64),
        SHARES: tf.one_hot(label, CLASSES),
    }


def mix(steps, seed, dtype=np.uint8):
    group = [example(1, 2, dtype), example(2, 0, dtype)]
    (mixing,) = build(steps).mixings
    mixed = mixing.combine(group, tf.constant(seed, tf.int64))
    assert mixed[LABEL] == 2
    images = [one[IMAGE].numpy().astype(float) for one in group]
    return images, mixed[IMAGE].numpy(), mixed[SHARES].numpy()


def draws(seed, alpha):
    """Draw as the first step of a list does: (the first image's share, place of a rectangle)."""
    seed = randomness.step_seed(tf.constant(seed, tf.int64), 0)
    share = float(randomness.beta(randomness.stream_seed(seed, 1), alpha))
    (place,) = randomness.uniforms(randomness.stream_seed(seed, 2), 1, 2)
    return share, place.numpy()


@pytest.mark.parametrize('number', range(3))
@pytest.mark.parametrize(('text', 'alpha'), [('', 0.2), ('alpha: 3', 3.0)])
def test_mixup_blends_images_and_labels(number, text, alpha):
    (first, second), image, shares = mix(f'mixup {{ {text} }}', (9, number))
    share, _ = draws((9, number), alpha)
    np.testing.assert_allclose(image, share * first + (1 - share) * second, atol=1e-3)
    np.testing.assert_allclose(shares, [1 - share, 0, share, 0], atol=1e-6)


@pytest.mark.parametrize('mixture', [augmentation.mixup, augmentation.cutmix])
def test_the_examples_of_the_docstrings(monkeypatch, mixture):
    monkeypatch.setattr(randomness, 'beta', lambda seed, alpha: tf.constant(0.75))
    middle = tf.constant([0.5, 0.5])
    monkeypatch.setattr(randomness, 'uniforms', lambda seed, *counts: [middle[: counts[-1]]])
    group = [example(1, 2), example(2, 0)]
    for one, value in zip(group, (100, 200)):
        one[IMAGE] = tf.fill([HEIGHT, WIDTH, 3], tf.constant(value, tf.uint8))
    mixed = mixture(group, tf.constant([1, 2], tf.int64))
    np.testing.assert_allclose(mixed[SHARES], [0.25, 0, 0.75, 0])
    if mixture is augmentation.mixup:
        assert (mixed[IMAGE].numpy() == 125).all()
    else:
        assert (mixed[IMAGE].numpy() == 200).sum() == 6 * 8 * 3


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
@pytest.mark.parametrize('number', range(5))
def test_cutmix_replaces_a_rectangle(number, dtype):
    (first, second), image, shares = mix('cutmix {}', (9, number), dtype)
    share, place = draws((9, number), 1.0)
    side = np.sqrt(np.float32(1) - np.float32(share))
    center = np.floor(place * np.float32([HEIGHT, WIDTH])).astype(int)
    half = (side * np.float32([HEIGHT, WIDTH])).astype(int)
    top, left = center - half // 2
    expected, replaced = first.copy(), 0
    for row in range(max(top, 0), min(top + half[0], HEIGHT)):
        for column in range(max(left, 0), min(left + half[1], WIDTH)):
            expected[row, column] = second[row, column]
            replaced += 1
    assert image.dtype == dtype
    np.testing.assert_array_equal(image, expected)
    part = replaced / (HEIGHT * WIDTH)
    np.testing.assert_allclose(shares, [part, 0, 1 - part, 0], atol=1e-6)


@pytest.mark.parametrize('step', ['mixup', 'cutmix'])
def test_a_mixture_may_not_happen(step):
    kept = 0
    for number in range(30):
        (first, _), image, shares = mix(f'{step} {{ probability: 0.4 }}', (1, number))
        if shares[2] == 1:
            np.testing.assert_array_equal(image, first)
            kept += 1
    assert 9 <= kept <= 28


@pytest.mark.parametrize(('kind', 'axis'), [('horizontal', 1), ('vertical', 0)])
def test_flips(kind, axis):
    augment = build(f'random_{kind}_flip {{ probability: 0.3 }}')
    before = example(3, 1)
    flipped = 0
    for number in range(40):
        after = augment(before, tf.constant([2, number], tf.int64))[IMAGE].numpy()
        same = before[IMAGE].numpy()
        is_flipped = not np.array_equal(after, same)
        np.testing.assert_array_equal(after, np.flip(same, axis) if is_flipped else same)
        flipped += is_flipped
    assert 4 <= flipped <= 22


@pytest.mark.parametrize(
    ('step', 'message'),
    [
        ('mosaic {}', r'\[0\]\.mosaic: not supported: it is for images with objects; classifiers'),
        (
            'random_vertical_flip { keypoint_flip_permutation: 0 }',
            r'keypoint_flip_permutation: \[0\]; expected none: images have no keypoints',
        ),
    ],
)
def test_what_a_classifier_cannot_do_is_refused(step, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(step)


def test_rules_of_the_fields_are_those_of_the_steps():
    fields = augmentation_pb2.PreprocessingStep.DESCRIPTOR.oneofs_by_name[
        'preprocessing_step'
    ].fields
    supported = {field.name for field in fields if RULES.is_supported(field)}
    assert supported == set(augmentation.KINDS.names())
