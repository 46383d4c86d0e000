"""Coordinates on the edge of an image, as other processors may round them."""

from typing import List

import numpy as np


def neighbors(edge: float) -> List[np.float32]:
    """The float32 before an edge, the edge, and the float32 after it."""
    edge = np.float32(edge)
    return [np.nextafter(edge, np.float32(-np.inf)), edge, np.nextafter(edge, np.float32(np.inf))]
