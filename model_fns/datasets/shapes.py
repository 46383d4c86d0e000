"""The shapes of the demo set, as distances to their outlines.

Every shape is defined within the box from -1 to 1 in both directions and touches its four sides, so
that box, scaled, moved and rotated, is the tightest one along the shape's own axes. Coordinates are
(x, y) with y down.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Dict, NamedTuple, Tuple

import numpy as np

# (x, y) [...] relative to the center and along the shape's axes, and half the width and height, all
# in pixels -> about the signed distance from the outline in pixels, negative inside.
Outline = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Placement:
    """Position, size and angle of a shape, in pixels.

    Args:
        center_y: from the top of the image.
        center_x: from its left.
        height: along the shape's own y axis.
        width: along the shape's own x axis.
        angle: of the shape's x axis, in radians from the image's x axis towards its y axis (on a
            screen: clockwise).
    """

    center_y: float
    center_x: float
    height: float
    width: float
    angle: float

    @property
    def radius(self) -> float:
        """The radius of a circle around the center that holds the whole box."""
        return math.hypot(self.height, self.width) / 2


class Coverage(NamedTuple):
    """Covered fraction of each pixel, for the part of an image where a shape is.

    Args:
        rows: of the image, for which there are values.
        columns: of the image, for which there are values.
        values: float32 [rows, columns] from 0 to 1; only pixels on the outline are between.
    """

    rows: slice
    columns: slice
    values: np.ndarray


def coverage(name: str, placement: Placement, height: int, width: int) -> Coverage:
    """Draw a shape.

    Args:
        name: of the shape, one of `NAMES`.
        placement: of the shape.
        height: of the image, in pixels.
        width: of the image.
    """
    reach = placement.radius + 1
    top, bottom = _clipped_range(placement.center_y, reach, height)
    left, right = _clipped_range(placement.center_x, reach, width)
    # Pixel i covers the distances from i to i + 1; its center counts.
    dy = np.arange(top, bottom, dtype=np.float32)[:, None] + (0.5 - placement.center_y)
    dx = np.arange(left, right, dtype=np.float32)[None, :] + (0.5 - placement.center_x)
    cosine, sine = math.cos(placement.angle), math.sin(placement.angle)
    x, y = dx * cosine + dy * sine, dy * cosine - dx * sine
    distance = _OUTLINES[name](x, y, placement.width / 2, placement.height / 2)
    return Coverage(slice(top, bottom), slice(left, right), np.clip(0.5 - distance, 0, 1))


def _clipped_range(center: float, reach: float, size: int) -> Tuple[int, int]:
    start = min(max(math.floor(center - reach), 0), size)
    return start, max(start, min(math.ceil(center + reach), size))


def _polygon(vertices: np.ndarray) -> Outline:
    """Return the outline of a polygon, with its vertices scaled to touch the sides of the box.

    Args:
        vertices: [n, 2], (x, y) of each, around the polygon.
    """
    low, high = vertices.min(0), vertices.max(0)
    vertices = (2 * vertices - low - high) / (high - low)

    def outline(x, y, half_width, half_height):
        corners = vertices * (half_width, half_height)
        nearest = np.full(x.shape, np.inf, np.float32)  # squared distance
        inside = np.zeros(x.shape, bool)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0)):
            edge_x, edge_y = x1 - x0, y1 - y0
            from_x, from_y = x - x0, y - y0
            along = (from_x * edge_x + from_y * edge_y) / (edge_x**2 + edge_y**2)
            along = np.clip(along, 0, 1)
            square = (from_x - along * edge_x) ** 2 + (from_y - along * edge_y) ** 2
            nearest = np.minimum(nearest, square)
            if y0 != y1:  # a ray to the right crosses this edge: the even-odd rule
                crosses = (y < y0) != (y < y1)
                inside ^= crosses & (from_x < from_y * (edge_x / edge_y))
        return np.sqrt(nearest) * np.where(inside, -1, 1)

    return outline


def _ellipse(x, y, half_width, half_height):
    """Return the signed distance from an ellipse, to first order."""
    u, v = x / half_width, y / half_height
    radius = np.sqrt(u * u + v * v)
    slope = np.sqrt((u / half_width) ** 2 + (v / half_height) ** 2)
    return (radius - 1) * radius / np.maximum(slope, 1e-6)


def _ring(x, y, half_width, half_height):
    hole = _ellipse(x, y, 0.55 * half_width, 0.55 * half_height)
    return np.maximum(_ellipse(x, y, half_width, half_height), -hole)


def _crescent(x, y, half_width, half_height):
    """Return the distance from the left half of an ellipse less one that meets it at both ends."""
    shift = 0.8
    radius = math.sqrt(1 + shift**2)
    x = x - half_width  # the half fills the box, so the ellipse's center is on the right side
    disc = _ellipse(x, y, 2 * half_width, half_height)
    cut = _ellipse(x - 2 * half_width * shift, y, 2 * half_width * radius, half_height * radius)
    return np.maximum(disc, -cut)


def _star_vertices() -> np.ndarray:
    angles = np.arange(10) * (math.pi / 5)
    radii = np.where(np.arange(10) % 2 == 0, 1.0, 0.45)
    return np.stack([radii * np.sin(angles), -radii * np.cos(angles)], axis=1)


def _cross_vertices() -> np.ndarray:
    arm = 0.33
    quarter = np.array([(-arm, -1), (arm, -1), (arm, -arm)])
    turns = [(1, 0), (0, 1), (-1, 0), (0, -1)]  # cosine and sine
    return np.concatenate([quarter @ np.array([[c, s], [-s, c]]) for c, s in turns])


_OUTLINES: Dict[str, Outline] = {
    'ellipse': _ellipse,
    'rectangle': _polygon(np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])),
    'triangle': _polygon(np.array([(0, -1), (1, 1), (-1, 1)])),
    'star': _polygon(_star_vertices()),
    'cross': _polygon(_cross_vertices()),
    'ring': _ring,
    'crescent': _crescent,
    'arrow': _polygon(
        np.array([(-1, -0.4), (0, -0.4), (0, -1), (1, 0), (0, 1), (0, 0.4), (-1, 0.4)])
    ),
}
NAMES = tuple(_OUTLINES)
