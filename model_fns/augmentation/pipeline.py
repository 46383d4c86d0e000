"""Augmentation as a config lists it: steps, and mixings of several examples between them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, List, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config import message_checks
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section
from estimator_lib.task import IMAGE, Example, Mixing
from estimator_lib.task_interfaces import training_step
from model_fns.augmentation import randomness, steps
from model_fns.structures.channels import COLORS
from protos import augmentation_pb2

# A step of one example, or of several.
Function = Callable[[Any, tf.Tensor], Example]

WHERE = 'train_config.data_augmentation_options'

# Steps that change the colors alone, and those that mix such changes with moves of pixels.
_OF_COLORS = frozenset(
    [
        'adjust_gamma',
        'normalize_image',
        'random_adjust_brightness',
        'random_adjust_contrast',
        'random_adjust_hue',
        'random_adjust_saturation',
        'random_distort_color',
        'random_jpeg_quality',
        'random_pixel_value_scale',
        'random_rgb_to_gray',
        'rgb_to_gray',
        'subtract_channel_mean',
    ]
)
_OF_COLORS_AND_PLACES = frozenset(['autoaugment_image', 'rand_augment'])


@dataclasses.dataclass(frozen=True)
class Kinds:
    """Kinds of `PreprocessingStep` that a task supports, by the rules of their fields.

    Attributes:
        rules: config rules of the task.
        steps: builders of steps.
        mixers: builders of steps that combine several examples.
    """

    rules: ConfigRules
    steps: steps.Builders
    mixers: steps.MixerBuilders

    def names(self) -> List[str]:
        """Return the names of all kinds."""
        return sorted([*self.steps, *self.mixers])


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Augmentation of examples: (example, int64 [2] seed) -> example.

    Attributes:
        mixings: mixings, each with the steps before it.
        rest: steps that follow the last mixing.
        kinds: names of all steps, in order.
    """

    mixings: Tuple[Mixing, ...] = ()
    rest: Tuple[Function, ...] = ()
    kinds: Tuple[str, ...] = ()

    def __call__(self, example: Example, seed: tf.Tensor) -> Example:
        """Apply the steps that follow the last mixing."""
        return _apply(self.rest, example, seed)

    def after(self, first: Function) -> Augmentation:
        """Return the augmentation with a step before all others, which draws from the seed."""
        if not self.mixings:
            return dataclasses.replace(self, rest=(first, *self.rest))
        mixing, *others = self.mixings
        vary = functools.partial(_apply, (first, mixing.vary))
        mixing = dataclasses.replace(mixing, vary=vary)
        return dataclasses.replace(self, mixings=(mixing, *others))


def build(
    options: Sequence[augmentation_pb2.PreprocessingStep], kinds: Kinds, where: str = WHERE
) -> Augmentation:
    """Build the augmentation of a config.

    Args:
        options: the steps, in order.
        kinds: the kinds that the task supports.
        where: path of the options in the config, for error messages.

    Returns:
        The augmentation. Calls raise `errors.ConfigError` if a step does not support the content
        of examples.

    Raises:
        errors.ConfigError: a step is empty or not supported, or a field is out of range.
    """
    mixings: List[Mixing] = []
    before: List[Function] = []
    names = []
    for index, option in enumerate(options):
        place = f'{where}[{index}]'
        kind = option.WhichOneof('preprocessing_step')
        if kind is None:
            raise errors.ConfigError(f'{place}: empty; expected one of {", ".join(kinds.names())}.')
        message_checks.check_message(kinds.rules, Section(option, place))
        path = f'{place}.{kind}'
        names.append(kind)
        if kind in kinds.steps:
            built = kinds.steps.get(kind, place)(getattr(option, kind), path)
            before.append(_limit(_locate(built, index, path), option.until_step))
            continue
        mixer = kinds.mixers.get(kind, place)(getattr(option, kind), path)
        vary = functools.partial(_apply, tuple(before))
        combine = _limit(_locate(mixer.combine, index, path), option.until_step)
        mixings.append(Mixing(vary, combine, mixer.num_examples))
        before = []
    return Augmentation(tuple(mixings), tuple(before), tuple(names))


def _limit(function: Function, until_step: int) -> Function:
    """Return a step that leaves the examples of later training steps as they are; 0: no limit."""
    if not until_step:
        return function

    def limited(examples: Any, seed: tf.Tensor) -> Example:
        step = training_step.current()
        if step is None:
            return function(examples, seed)
        # `tf.cond` builds its first branch first, so that `leave` knows the types of `vary`.
        varied: Example = {}

        def vary() -> Example:
            varied.update(function(examples, seed))
            return dict(varied)

        def leave() -> Example:
            first = examples if isinstance(examples, dict) else examples[0]
            # Images of both branches have one type: float32 if the step makes them so.
            return {name: tf.cast(first[name], value.dtype) for name, value in varied.items()}

        return tf.cond(step < until_step, vary, leave)

    return limited


def _locate(function: Function, index: int, path: str) -> Function:
    """Return a step that draws from its own seed, and whose errors name its path."""
    kind = path.rpartition('.')[2]

    def located(examples: Any, seed: tf.Tensor) -> Example:
        try:
            if kind in _OF_COLORS:
                return _change_colors(function, examples, randomness.step_seed(seed, index))
            if kind in _OF_COLORS_AND_PLACES and examples[IMAGE].shape[-1] > COLORS:
                raise errors.ConfigError(
                    'it changes colors and moves pixels, of three channels; the images have '
                    f'{examples[IMAGE].shape[-1]}. Leave it out.'
                )
            return function(examples, randomness.step_seed(seed, index))
        except errors.ConfigError as error:
            raise errors.ConfigError(f'{path}: {error}') from None

    return located


def _change_colors(step: Function, example: Example, seed: tf.Tensor) -> Example:
    """Apply a step to the colors of an image; further channels stay."""
    image = example[IMAGE]
    if image.shape[-1] is None or image.shape[-1] <= COLORS:
        return step(example, seed)
    changed = step({**example, IMAGE: image[..., :COLORS]}, seed)
    further = tf.cast(image[..., COLORS:], changed[IMAGE].dtype)
    return {**changed, IMAGE: tf.concat([changed[IMAGE], further], -1)}


def _apply(functions: Sequence[Function], example: Example, seed: tf.Tensor) -> Example:
    for function in functions:
        example = function(example, seed)
    return example
