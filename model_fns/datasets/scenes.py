"""Pictures of the demo set: textured shapes on textured backgrounds, and their objects."""

from __future__ import annotations

import dataclasses
import math
from typing import List, Sequence, Tuple

import numpy as np

from model_fns.datasets import shapes, textures
from model_fns.datasets.textures import Random

# Shapes are brighter than the dark backgrounds, by at least so much of 255. With random colors for
# both, a small network takes an hour instead of a minute to learn the outlines.
_DARK = 110
_LEAST_CONTRAST = 80
_LUMINANCE = np.array([0.299, 0.587, 0.114])

# Names of the extreme points of an object.
EXTREMES = ('top', 'left', 'bottom', 'right')


@dataclasses.dataclass(frozen=True)
class SceneObject:
    """One shape in a scene.

    Args:
        name: of the shape.
        placement: of the whole shape, hidden parts included.
        mask: bool [height, width], its visible pixels.
    """

    name: str
    placement: shapes.Placement
    mask: np.ndarray

    @property
    def box(self) -> Tuple[int, int, int, int]:
        """The tightest (ymin, xmin, ymax, xmax) around the mask, in pixels."""
        rows, columns = np.flatnonzero(self.mask.any(1)), np.flatnonzero(self.mask.any(0))
        return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1

    @property
    def extreme_points(self) -> np.ndarray:
        """The outermost points of the mask, in the order of `EXTREMES`.

        float64 [4, 2], y and x in pixels. The outermost row or column may have several pixels, of
        which it is the middle.
        """
        ymin, xmin, ymax, xmax = self.box
        top, bottom = (np.flatnonzero(self.mask[row]).mean() for row in (ymin, ymax - 1))
        left, right = (np.flatnonzero(self.mask[:, side]).mean() for side in (xmin, xmax - 1))
        centers = np.array([(ymin, top), (left, xmin), (ymax - 1, bottom), (right, xmax - 1)])
        return centers + 0.5


@dataclasses.dataclass(frozen=True)
class Scene:
    """A picture and its objects.

    Args:
        image: uint8 [size, size, 3].
        objects: in the order in which they were drawn: a later one hides an earlier one.
    """

    image: np.ndarray
    objects: Tuple[SceneObject, ...]

    @property
    def main_object(self) -> SceneObject:
        """The object with the most visible pixels."""
        return max(self.objects, key=lambda item: item.mask.sum())


def draw_scene(
    random: Random,
    size: int,
    names: Sequence[str],
    scale: Tuple[float, float],
    most_turn: float = math.pi,
) -> Scene:
    """Draw shapes at random places, in random sizes, colors, textures and orientations.

    Args:
        random: random number generator.
        size: height and width of the picture in pixels.
        names: of the shapes to draw; one without a free place is left out, but never the first.
        scale: least and largest side of a shape as a fraction of the picture's.
        most_turn: largest rotation of a shape in either direction, in radians.

    Returns:
        The scene; each shape is completely within the picture.
    """
    base = random.random(3) * _DARK
    canvas = _background(random, size, base)
    layers = []
    for name, placement in _place(random, size, names, scale, most_turn):
        covered = shapes.coverage(name, placement, size, size)
        _paint(canvas, covered, _fill(random, max(covered.values.shape), base))
        mask = np.zeros((size, size), bool)
        mask[covered.rows, covered.columns] = covered.values >= 0.5
        layers.append((name, placement, mask))
    # Uneven light and grain, so that colors alone do not tell shapes from background.
    light = 0.75 + 0.5 * textures.smooth_noise(random, size, 2)
    grain = random.standard_normal(canvas.shape, np.float32)
    canvas = canvas * light[:, :, None] + np.float32(3 + 12 * random.random()) * grain
    image = np.clip(canvas, 0, 255).astype(np.uint8)
    return Scene(image, tuple(_visible(layers)))


def _background(random: Random, size: int, base: np.ndarray) -> np.ndarray:
    spread = random.normal(0, 30, 3)
    canvas = textures.texture(random, size, base - spread, base + spread)
    for _ in range(random.integers(4)):
        stroke = shapes.Placement(
            *(random.random(2) * size),
            height=size * (0.01 + 0.02 * random.random()),
            width=size * (0.3 + random.random()),
            angle=random.random() * math.pi,
        )
        covered = shapes.coverage('rectangle', stroke, size, size)
        _paint(canvas, covered, random.random((1, 1, 3), np.float32) * 255)
    return canvas


def _paint(canvas: np.ndarray, covered: shapes.Coverage, paint: np.ndarray) -> None:
    """Paint a shape with one color, or with a texture of at least its size."""
    height, width = covered.values.shape
    part = canvas[covered.rows, covered.columns]
    part += covered.values[:, :, None] * (paint[:height, :width] - part)


def _fill(random: Random, size: int, background: np.ndarray) -> np.ndarray:
    color = random.random(3) * 255
    while _LUMINANCE @ (color - background) < _LEAST_CONTRAST:
        color = random.random(3) * 255
    spread = random.normal(0, 18, 3)
    return textures.texture(random, size, color - spread, color + spread)


def _place(
    random: Random,
    size: int,
    names: Sequence[str],
    scale: Tuple[float, float],
    most_turn: float,
) -> List[Tuple[str, shapes.Placement]]:
    """Choose a place for each shape: two shapes may touch, but neither hides much of the other."""
    placed: List[Tuple[str, shapes.Placement]] = []
    for name in names:
        for _ in range(20):
            candidate = _random_placement(random, size, scale, most_turn)
            # 20 attempts and no more: in a full picture there may be no place.
            if all(_apart(candidate, other) for _, other in placed):
                placed.append((name, candidate))
                break
    return placed


def _random_placement(
    random: Random, size: int, scale: Tuple[float, float], most_turn: float
) -> shapes.Placement:
    low, high = scale
    side = size * (low + (high - low) * random.random())
    stretch = math.sqrt(0.6 + 0.4 * random.random())
    height, width = (side * stretch, side / stretch)[:: random.choice((1, -1))]
    angle = (2 * random.random() - 1) * most_turn
    # Half the size of the axis-aligned box around the rotated one.
    reach_y = (height * abs(math.cos(angle)) + width * abs(math.sin(angle))) / 2 + 1
    reach_x = (width * abs(math.cos(angle)) + height * abs(math.sin(angle))) / 2 + 1
    center_y = reach_y + random.random() * (size - 2 * reach_y)
    center_x = reach_x + random.random() * (size - 2 * reach_x)
    return shapes.Placement(center_y, center_x, height, width, angle)


def _apart(one: shapes.Placement, other: shapes.Placement) -> bool:
    distance = math.hypot(one.center_y - other.center_y, one.center_x - other.center_x)
    return distance > 0.75 * (one.radius + other.radius)


def _visible(layers: Sequence[Tuple[str, shapes.Placement, np.ndarray]]) -> List[SceneObject]:
    """Return the objects with the parts of their masks that later layers do not hide."""
    objects: List[SceneObject] = []
    hidden = np.zeros(layers[0][2].shape, bool)
    for name, placement, mask in reversed(layers):
        objects.append(SceneObject(name, placement, mask & ~hidden))
        hidden |= mask
    return objects[::-1]
