"""Decisions on the config of segmentation, from the facts of a data set and a user's wishes."""

from __future__ import annotations

from typing import Iterator, Tuple

from model_fns.recipes import decisions
from model_fns.recipes.decisions import Wishes
from model_fns.recipes.facts import Facts
from model_fns.recipes.writing import Decision, Recipe

_BASE = 'demo_masks'
_MODEL = 'model.segmentation'
USUAL_SIDE = 256.0
ENOUGH_IMAGES = 6000
_MULTIPLE = 16  # the output stride; DeepLab's inputs are a multiple plus 1
SCHEDULED_RATE = ''


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
        mirrored: of keypoints, which pixels do not have.
    """
    del task, mirrored
    reason = 'The classes of the label map, and the background'
    recipe.decide(Decision(f'{_MODEL}.num_classes', len(facts.class_names) + 1, reason))
    recipe.decide(*_size_decisions(facts, wishes))
    sided = decisions.find_sided(facts.class_names)
    reason = decisions.mirror_reason(sided)
    preprocessing = f'{_MODEL}.preprocessing'
    recipe.decide(
        Decision(f'{preprocessing}.flip_probability', 0.0 if sided else 0.5, reason),
        Decision(f'{preprocessing}.min_scale_factor', 0.75),
        Decision(f'{preprocessing}.max_scale_factor', 1.5),
        Decision(f'{preprocessing}.scale_factor_step_size', 0.0),
        Decision(f'{preprocessing}.max_brightness_change', 0.1),
        Decision(f'{preprocessing}.max_contrast_factor', 1.5),
        Decision('train_config.batch_size', 8),
        Decision('train_input_reader.cache', 'MEMORY'),
        Decision('eval_config.batch_size', 1, 'Images may differ in size'),
        Decision('export_config.best.metric', '"miou_1.0_overall"'),
    )
    recipe.decide(*decisions.weight_decisions(wishes.weights))


def network_side(recipe: Recipe) -> float:
    """Return the side of the crops of training in pixels."""
    return float(recipe.config.model.segmentation.crop_height)


def _size_decisions(facts: Facts, wishes: Wishes) -> Iterator[Decision]:
    """Decide the size of the images, and of the crops of training."""
    height, width = facts.typical_size()
    side = min(wishes.affordable or USUAL_SIDE, float(max(height, width)))
    reason = 'The usual size, or that of the images where they are smaller'
    if side > USUAL_SIDE:
        reason = f'The time pays for {side:.0f} x {side:.0f} pixels'
    if wishes.size is not None:
        side, reason = float(wishes.size), f'--size={wishes.size}'
    crop = decisions.shape_of_input(side, 1.0, _MULTIPLE, None)[0] + 1
    yield Decision(f'{_MODEL}.crop_height', crop, reason)
    yield Decision(f'{_MODEL}.crop_width', crop)
    if max(height, width) > 1.5 * crop:
        shorter = round(crop * min(height, width) / max(height, width))
        resized = f'Images have about {height} x {width} pixels: they are made smaller'
        yield Decision(f'{_MODEL}.preprocessing.min_resize_value', max(shorter, 1), resized)
        yield Decision(f'{_MODEL}.preprocessing.max_resize_value', crop)
