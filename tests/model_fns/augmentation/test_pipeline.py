import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, registry
from estimator_lib.config.rules import ConfigRules
from estimator_lib.task_interfaces import training_step
from model_fns.augmentation import pipeline, randomness, steps
from protos import augmentation_pb2

STEPS: steps.Builders = registry.Registry('augmentation')
MIXERS: steps.MixerBuilders = registry.Registry('augmentation')
RULES = ConfigRules(models=frozenset({'ssd'}))
KINDS = pipeline.Kinds(RULES, STEPS, MIXERS)


@STEPS.register('random_horizontal_flip')
def _build_add(config, where):
    """Append the seed to the example, a list."""
    del config, where
    return lambda example, seed: [*example, tuple(seed.numpy())]


@STEPS.register('random_vertical_flip')
def _build_refuse(config, where):
    del config, where

    def refuse(example, seed):
        raise errors.ConfigError('no gray images.')

    return refuse


@MIXERS.register('mixup')
def _build_join(config, where):
    del config, where
    return steps.Mixer(lambda group, seed: [group, tuple(seed.numpy())], 2)


@STEPS.register('random_adjust_hue')
def _build_brighten(config, where):
    del config, where
    return lambda example, seed: {**example, 'image': tf.cast(example['image'], tf.float32) + 0.5}


def build(*kinds):
    options = [
        text_format.Parse(f'{kind} {{}}', augmentation_pb2.PreprocessingStep()) for kind in kinds
    ]
    return pipeline.build(options, KINDS)


SEED = tf.constant([3, 4], tf.int64)


def seeds(*indices):
    return [tuple(randomness.step_seed(SEED, index).numpy()) for index in indices]


def test_steps_before_and_after_a_mixing():
    augment = build(
        'random_horizontal_flip',
        'random_horizontal_flip',
        'mixup',
        'random_horizontal_flip',
        'mixup',
    )
    assert augment.kinds == (
        'random_horizontal_flip',
        'random_horizontal_flip',
        'mixup',
        'random_horizontal_flip',
        'mixup',
    )
    first, second = augment.mixings
    assert first.num_examples == second.num_examples == 2
    assert first.vary([], SEED) == seeds(0, 1)
    assert first.combine(['a', 'b'], SEED) == [['a', 'b'], *seeds(2)]
    assert second.vary([], SEED) == seeds(3)
    assert second.combine(['a', 'b'], SEED) == [['a', 'b'], *seeds(4)]
    assert augment([], SEED) == []
    augment = build('mixup', 'random_horizontal_flip')
    assert augment.mixings[0].vary([], SEED) == []
    assert augment([], SEED) == seeds(1)


@pytest.mark.parametrize(
    'kinds', [(), ('random_horizontal_flip',), ('mixup',), ('random_horizontal_flip', 'mixup')]
)
def test_another_step_may_come_first(kinds):
    augment = build(*kinds).after(lambda example, seed: [*example, 'first', tuple(seed.numpy())])
    whole = augment([], SEED)
    if augment.mixings:
        assert whole == []
        whole = augment.mixings[0].vary([], SEED)
    assert whole == ['first', (3, 4), *seeds(*range(kinds.count('random_horizontal_flip')))]


@pytest.mark.parametrize(
    ('step', 'message'),
    [
        ('cutmix {}', r'options\[1\]\.cutmix: not supported: it would divide objects'),
    ],
)
def test_unsupported_kinds_and_values_are_refused(step, message):
    options = [augmentation_pb2.PreprocessingStep(random_horizontal_flip={})]
    options.append(text_format.Parse(step, augmentation_pb2.PreprocessingStep()))
    with pytest.raises(errors.ConfigError, match=message):
        pipeline.build(options, KINDS)


def test_an_empty_step_is_refused():
    with pytest.raises(errors.ConfigError, match=r'\[0\]: empty; expected one of mixup, random_'):
        pipeline.build([augmentation_pb2.PreprocessingStep()], KINDS)


def test_an_error_about_examples_names_the_step():
    with pytest.raises(
        errors.ConfigError, match=r'^train_config\..*\[1\]\.random_vertical_flip: no gray'
    ):
        build('random_horizontal_flip', 'random_vertical_flip')(np.zeros(1), SEED)


def test_a_step_ends_at_its_training_step():
    option = text_format.Parse(
        'random_adjust_hue {} until_step: 2', augmentation_pb2.PreprocessingStep()
    )
    augment = pipeline.build([option], KINDS)

    def varied(step):
        with training_step.provide(step):
            return augment({'image': tf.zeros([1, 1, 3], tf.uint8)}, SEED)['image']

    dataset = tf.data.Dataset.range(4).map(varied)
    assert [float(image[0, 0, 0]) for image in dataset] == [0.5, 0.5, 0.0, 0.0]
    assert dataset.element_spec.dtype == tf.float32
    # A record that is tested alone is of no training step.
    assert float(augment({'image': tf.zeros([1, 1, 3], tf.uint8)}, SEED)['image'][0, 0, 0]) == 0.5


def test_a_mixing_ends_at_its_training_step():
    mixers = registry.Registry('augmentation')
    mixers.add('mixup', lambda config, where: steps.Mixer(lambda group, seed: group[1], 2))
    option = text_format.Parse('mixup {} until_step: 2', augmentation_pb2.PreprocessingStep())
    (mixing,) = pipeline.build([option], pipeline.Kinds(RULES, STEPS, mixers)).mixings

    def mixed(step):
        with training_step.provide(step):
            return mixing.combine([{'a': tf.constant(0)}, {'a': tf.constant(1)}], SEED)['a']

    assert [int(value) for value in tf.data.Dataset.range(4).map(mixed)] == [1, 1, 0, 0]
