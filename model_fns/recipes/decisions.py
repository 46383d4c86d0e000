"""Decisions that several tasks share, each a function of facts with its reason."""

from __future__ import annotations

import math
import re
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib import texts
from estimator_lib.checkpoints import checkpoint_files
from model_fns.recipes.facts import Facts
from model_fns.recipes.writing import Decision

DEFAULT_MINUTES = 10.0
LEAST_PIXELS = 8  # side of an object at the network's input: the stride of the finest map
FEW_PIXELS = 10
_TOO_SMALL = 0.05  # share of the objects that may be smaller
CLEAR_PIXELS = 32  # from which on objects are not small, by COCO's areas
_MOST_GROWTH = 2.0  # of the side that a task begins with
_WARM_UP = 100
_WARM_UP_SHARE = 0.1  # of the steps
_RARE, _REPEAT = 0.02, 0.05  # of the images, that have a class
_LEAST_OF_RARE = 100  # images: below, the shares are noise
_OTHER_ASPECT = 1.15  # ratio of two aspects that show
_SIDED_WORDS = re.compile(
    r'(?<![a-z])(left|right|digits?|numbers?|letters?|texts?|words?|characters?|clockwise)(?![a-z])',
    re.IGNORECASE,
)


class Wishes(NamedTuple):
    """Options of a user.

    Attributes:
        minutes: of training; None: see `epochs`.
        epochs: passes over the training images; None: as many as the minutes hold.
        size: longer side of the network's input in pixels; None: decided.
        weights: path or name of initial weights; '': none.
        affordable: root of the area of the input that the minutes pay for, see `affordable_side`;
            None: not known.
    """

    minutes: Optional[float] = DEFAULT_MINUTES
    epochs: Optional[float] = None
    size: Optional[int] = None
    weights: str = ''
    affordable: Optional[float] = None


class Schedule(NamedTuple):
    """Length of a run.

    Attributes:
        steps: of training.
        reason: of their number.
    """

    steps: int
    reason: str


def schedule(wishes: Wishes, num_images: int, batch_size: int, seconds: float) -> Schedule:
    """Return the number of steps, at least 1.

    Args:
        wishes: minutes or epochs.
        num_images: of an epoch.
        batch_size: images of a step.
        seconds: that a step takes on this machine; only for minutes.
    """
    if wishes.epochs is not None:
        steps = max(1, math.ceil(wishes.epochs * num_images / batch_size))
        return Schedule(steps, f'{wishes.epochs:g} epochs of {texts.counted(num_images, "image")}')
    minutes = DEFAULT_MINUTES if wishes.minutes is None else wishes.minutes
    steps = max(1, int(60 * minutes / seconds))
    epochs = steps * batch_size / num_images
    return Schedule(
        steps,
        f'{minutes:g} minutes of training at {seconds:.3g} s a step, measured on this machine: '
        f'{epochs:.1f} epochs. Evaluations and exports come on top',
    )


def schedule_decisions(plan: Schedule, minutes: Optional[float], rate: str) -> List[Decision]:
    """Decide what follows from the number of steps.

    Args:
        plan: the steps.
        minutes: of the run, where they are known.
        rate: path of the field of the learning rate's schedule with `warmup_steps`; '' without one.
    """
    count = 4 if minutes is None or minutes > 20 else 2
    every = math.ceil(plan.steps / count)
    warm_up = max(1, min(_WARM_UP, int(_WARM_UP_SHARE * plan.steps)))
    decisions = [
        Decision('train_config.num_steps', plan.steps, plan.reason),
        Decision(
            'train_config.checkpoints.save_every_n_steps',
            every,
            f'{count} evaluations; the best of them is exported',
        ),
        Decision('train_config.progress.every_n_steps', max(1, min(50, plan.steps // 20))),
    ]
    if rate:
        decisions.append(Decision(f'{rate}.warmup_steps', warm_up))
    return decisions


def affordable_side(side: float, images: float, enough: float, usual: float) -> float:
    """Return the side of an input with which training still sees enough images.

    The time of a step grows with the area. With 24,000 images at 256 and 6,000 that are enough it
    is 512. It is at least the usual side, and at most twice that.

    Args:
        side: root of the area of the input that was timed.
        images: that training sees with it.
        enough: images, beyond which larger ones teach more than further ones.
        usual: side that a task begins with.
    """
    # The root, because a step takes as long as the input has area.
    return min(max(side * math.sqrt(images / enough), usual), _MOST_GROWTH * usual)


def side_for_objects(sides: np.ndarray, pixels: float = LEAST_PIXELS) -> float:
    """Return the side of an input at which at most 5 % of the objects are smaller.

    With objects of 0.02, 0.1 and 0.1 of the image and 8 pixels it is 8 / 0.028 = 286.

    Args:
        sides: roots of areas, as shares of those of the images: [n]; n at least 1.
        pixels: side of an object.
    """
    return pixels / max(float(np.percentile(sides, 100 * _TOO_SMALL)), 1e-4)


def shape_of_input(
    side: float, aspect: float, multiple: int, longest: Optional[int]
) -> Tuple[int, int]:
    """Return height and width of an input.

    A side of 256 and an aspect of 4 / 3 give 224 x 288 with multiples of 32.

    Args:
        side: root of the area.
        aspect: width by height; extreme ones are cut to 1 / 2 and 2.
        multiple: of both.
        longest: the longer one, in place of the area; None: the area counts.
    """
    aspect = min(max(aspect, 0.5), 2.0)
    height, width = side / math.sqrt(aspect), side * math.sqrt(aspect)
    if longest is not None:
        height, width = (each * longest / max(height, width) for each in (height, width))
    # floor of + 0.5: Python's round would take a half to the even number.
    rounded = [max(1, math.floor(each / multiple + 0.5)) * multiple for each in (height, width)]
    return rounded[0], rounded[1]


def find_sided(names: Iterable[str]) -> str:
    """Return a name of a class or keypoint that a mirror changes; '' without one.

    Digits, single letters, and words like left, right and text are such names.
    """
    names = list(names)
    # Words of leftHand, left_hand and left2 are told apart; `leftover` stays one word.
    spaced = [re.sub(r'(?<=[a-z])(?=[A-Z])|[_\d]', ' ', name) for name in names]
    named = (name for name, words in zip(names, spaced) if _SIDED_WORDS.search(words))
    letters = [name for name in names if name.isdigit() or (len(name) == 1 and name.isalpha())]
    return next(named, letters[0] if len(letters) > 1 else '')


def mirror_reason(sided: str) -> str:
    """Return the reason for mirroring images, or for not doing so.

    Args:
        sided: a name that a mirror changes; '' without one.
    """
    if sided:
        return f'No mirrored images: {sided!r:.40} may become another class in a mirror'
    return 'Mirrored left to right; never upside down, which few photographs are'


def repeat_decisions(facts: Facts) -> List[Decision]:
    """Decide on repeating images of rare classes."""
    counts = facts.images_of_classes()
    total = len(facts.train)
    if total < _LEAST_OF_RARE or not counts:
        return []
    name, count = min(counts.items(), key=lambda each: (each[1], each[0]))
    if count >= _RARE * total:
        return []
    reason = f'{name!r:.40} is in {count} of {total} images: images of rare classes come more often'
    return [Decision('train_config.repeat_factor_threshold', _REPEAT, reason)]


def weight_decisions(
    weights: str, own_scopes: Tuple[str, ...] = (), kind: str = ''
) -> List[Decision]:
    """Decide on the initial weights.

    Args:
        weights: path of a checkpoint or a run, or the name of weights; '': there are none.
        own_scopes: beginnings of the names of variables in checkpoints of the task itself; empty:
            every checkpoint is restored in the same way.
        kind: `fine_tune_checkpoint_type` of such checkpoints.

    Raises:
        errors.CheckpointError: there is no such checkpoint, or it is corrupt.
    """
    if not weights:
        return []
    field = 'train_config.fine_tune_checkpoint'
    start = checkpoint_files.open_checkpoint(checkpoint_files.resolve_start(weights, '--weights'))
    is_own = any(name.startswith(own_scopes) for name in start.get_variable_to_shape_map())
    decisions = [Decision(field, f'"{weights}"', 'As --weights asks for')]
    return [*decisions, Decision(f'{field}_type', f'"{kind}"')] if is_own else decisions


def odd_aspect(aspects: Sequence[float], own: float) -> str:
    """Describe images that an input squeezes; '' where they nearly have its shape.

    Args:
        aspects: width by height of each image; at least one.
        own: of the network's input.
    """
    ratios = np.maximum(np.array(aspects) / own, own / np.array(aspects))
    share = float(np.mean(ratios > _OTHER_ASPECT))
    middle = float(np.median(aspects))
    # Images of many shapes have none that fits more than half of them.
    if share <= 0.5 or max(middle / own, own / middle) <= _OTHER_ASPECT:
        return ''
    which = 'all' if share == 1 else f'{share:.0%} of the'
    images = f'{which} {len(aspects):,} images are about {middle:.2f}:1'
    return f"{images}, and the network's input is {own:.2f}:1"


def small_objects(sides: np.ndarray) -> str:
    """Describe objects that are too small at the input; '' where they are exceptions.

    Args:
        sides: of the objects at the input in pixels: [n].
    """
    share = float(np.mean(np.asarray(sides) < FEW_PIXELS)) if len(sides) else 0.0
    if share <= 0.2:
        return ''
    return f'{share:.0%} of the boxes have less than {FEW_PIXELS} pixels at the input'
