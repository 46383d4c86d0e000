"""Search for the factor on the channels of a network."""

from __future__ import annotations

from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from vision_extras.recover import kernels

# Factors that networks were published with, or that people use.
_MULTIPLIERS = (1.0, 0.75, 0.5, 0.25, 0.35, 1.4, 1.3, 0.1, 0.125, 0.2, 0.3, 0.4, 0.6, 0.8, 1.5, 2.0)
_MOST_TRIED = 3


class Match(NamedTuple):
    """Network with a factor.

    Attributes:
        factor: on the channels.
        differences: to the artifact; empty: the kernels are equal.
    """

    factor: float
    differences: List[str]


def search(
    found: Mapping[str, Sequence[int]],
    build: Callable[[float], Optional[kernels.NetworkKernels]],
    is_scaled: Callable[[str], bool] = lambda name: True,
) -> Optional[Match]:
    """Find the factor with the fewest differences.

    Args:
        found: kernels of the artifact.
        build: factor -> kernels of the network; None: it cannot be built.
        is_scaled: whether the factor applies to a kernel of that name.

    Returns:
        The match; None where the network cannot be built.
    """
    network = build(1.0)
    if network is None:
        return None
    best = Match(1.0, kernels.differences(found, network))
    if not best.differences:
        return best
    for factor in _factors(found, network.shapes, is_scaled):
        scaled = build(factor)
        if scaled is None:
            continue
        match = Match(factor, kernels.differences(found, scaled))
        if len(match.differences) < len(best.differences):
            best = match
        if not match.differences:
            break
    return best


def _factors(
    found: Mapping[str, Sequence[int]],
    shapes: Mapping[str, Sequence[int]],
    is_scaled: Callable[[str], bool],
) -> List[float]:
    """Return the factors that the widest common kernels suggest, the nearest first."""
    ratios = [
        (shape[-1], found[name][-1] / shape[-1])
        for name, shape in shapes.items()
        if name in found and name.endswith('/weights') and is_scaled(name)
    ]
    # Some networks keep the width of their last layer, whatever the factor is.
    ratios = [(width, ratio) for width, ratio in ratios if ratio != 1.0] or ratios
    if not ratios:
        return []
    widest = max(ratios)[0]
    ratio = float(np.median([ratio for width, ratio in ratios if width == widest]))
    near = [factor for factor in _MULTIPLIERS if abs(factor - ratio) <= 0.06 * ratio]
    near.sort(key=lambda factor: abs(factor - ratio))
    factors = near[:_MOST_TRIED]
    if round(ratio, 3) not in factors:
        factors.append(round(ratio, 3))
    return [factor for factor in factors if factor != 1.0]
