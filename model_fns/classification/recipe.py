"""Decisions on the config of a classifier, from the facts of a data set and a user's wishes."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from estimator_lib import texts
from model_fns.recipes import decisions
from model_fns.recipes.decisions import Wishes
from model_fns.recipes.facts import Facts
from model_fns.recipes.writing import Decision, Recipe

_BASE = 'signs_mobilenet_v1'
_MODEL = 'model.classification'
USUAL_SIDE = 96.0
ENOUGH_IMAGES = 60_000  # half of what the config of hand signs sees
_LEAST_SIDE = 64  # the network has a stride of 32
_MULTIPLE = 32
_FEW_IMAGES = 320  # of which a batch of 32 makes less than 10 steps an epoch
SCHEDULED_RATE = (
    'train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate'
)


def base_config(task: str, weights: str) -> str:
    """Return the name of the package's config that the task begins with."""
    del task, weights
    return _BASE


def decide(
    recipe: Recipe, task: str, facts: Facts, wishes: Wishes, mirrored: Tuple[int, ...] = ()
) -> None:
    """Make all decisions but those on the length of the run.

    Args:
        recipe: of the base config, with the readers.
        task: its name.
        facts: of the data.
        wishes: of the user.
        mirrored: of keypoints, which images of classes do not have.
    """
    del task, mirrored
    is_multi_label = any(len(image.labels) != 1 for image in facts.all())
    if is_multi_label:
        reason = 'Some images have several labels, or none'
        recipe.decide(Decision(f'{_MODEL}.multi_label', True, reason))
    recipe.decide(Decision(f'{_MODEL}.num_classes', len(facts.class_names)))
    recipe.decide(*_size_decisions(facts, wishes))
    sided = decisions.find_sided(facts.class_names)
    reason = decisions.mirror_reason(sided)
    recipe.decide(Decision(f'{_MODEL}.mirror_images', not sided, reason))
    if len(facts.train) < _FEW_IMAGES:
        reason = f'{texts.counted(len(facts.train), "image")}: more updates in an epoch'
        recipe.decide(Decision('train_config.batch_size', 8, reason))
    recipe.decide(*decisions.repeat_decisions(facts))
    recipe.decide(*decisions.weight_decisions(wishes.weights))
    recipe.decide(Decision('train_input_reader.cache', 'MEMORY'))
    metric = 'mAP' if is_multi_label else 'accuracy'
    recipe.decide(Decision('export_config.best.metric', f'"{metric}"'))


def network_side(recipe: Recipe) -> float:
    """Return the side of the network's input in pixels."""
    return float(recipe.config.model.classification.image_height)


def input_side(affordable: Optional[float], typical: Tuple[int, int]) -> Tuple[float, str]:
    """Decide the side of the input, with its reason.

    Args:
        affordable: side that the minutes pay for; None: not known.
        typical: height and width of an image in pixels.
    """
    side = affordable or USUAL_SIDE
    if min(typical) >= side:
        reason = 'The usual size' if side == USUAL_SIDE else 'The time pays for this size'
        return side, reason
    side = float(max(min(typical), _LEAST_SIDE))
    return side, f'Images have about {typical[0]} x {typical[1]} pixels'


def _size_decisions(facts: Facts, wishes: Wishes) -> Iterator[Decision]:
    """Decide the size of the network's input: a square, as the published networks are made for."""
    side, reason = input_side(wishes.affordable, facts.typical_size())
    if wishes.size is not None:
        reason = f'--size={wishes.size}'
    height, width = decisions.shape_of_input(side, 1.0, _MULTIPLE, wishes.size)
    yield Decision(f'{_MODEL}.image_height', height, reason)
    yield Decision(f'{_MODEL}.image_width', width)
