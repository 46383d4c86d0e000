"""Search for the network of an artifact: known ones are built, and their kernels are compared."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from vision_extras.recover import kernels
from vision_extras.recover.facts import Refusal

Shapes = Mapping[str, Sequence[int]]
# Factor on channels -> kernels of a network; None: it cannot be built.
Build = Callable[[float], Optional[kernels.NetworkKernels]]

# Factors that networks were published with, or that people use.
_MULTIPLIERS = (1.0, 0.75, 0.5, 0.25, 0.35, 1.4, 1.3, 0.1, 0.125, 0.2, 0.3, 0.4, 0.6, 0.8, 1.5, 2.0)
_MOST_TRIED = 3
_MOST_NAMED = 3  # networks in an error


class Match(NamedTuple):
    """Network with a factor.

    Attributes:
        factor: on the channels.
        differences: to the artifact; empty: the kernels are equal.
    """

    factor: float
    differences: List[str]

    @property
    def order(self) -> Tuple[int, bool]:
        """Key of the best match: of two without differences one may need no factor."""
        return len(self.differences), self.factor != 1.0


def choose(
    found: Shapes,
    candidates: Iterable[Tuple[str, Build]],
    reason: str,
    is_scaled: Callable[[str], bool] = lambda name: True,
    is_final: Callable[[Match], bool] = lambda match: not match.differences,
) -> Tuple[int, Match]:
    """Find the network that has the kernels of an artifact.

    Args:
        found: kernels of the artifact.
        candidates: names and builders of networks.
        reason: why the artifact is refused where there is none.
        is_scaled: whether the factor applies to a kernel of that name.
        is_final: whether no other candidate is tried after a match.

    Returns:
        The index of the candidate, and its match.

    Raises:
        Refusal: no network has these kernels.
    """
    best: Optional[Tuple[int, Match]] = None
    tried: Dict[str, List[str]] = {}
    for index, (name, build) in enumerate(candidates):
        if name in tried and not tried[name]:
            continue  # other settings of a network that has these kernels already
        # After one with a factor only one without may be better.
        is_found = best is not None and not best[1].differences
        match = search(found, build, is_scaled, tries_factors=not is_found)
        if match is None:
            continue
        if best is None or match.order < best[1].order:
            best = index, match
        if name not in tried or len(match.differences) < len(tried[name]):
            tried[name] = match.differences
        if is_final(match):
            break
    if best is None or best[1].differences:
        nearest = sorted(tried.items(), key=lambda item: len(item[1]))
        raise Refusal(reason, dict(nearest[:_MOST_NAMED]))
    return best


def search(
    found: Shapes,
    build: Build,
    is_scaled: Callable[[str], bool] = lambda name: True,
    tries_factors: bool = True,
) -> Optional[Match]:
    """Find the factor with the fewest differences.

    Args:
        found: kernels of the artifact.
        build: builds the network.
        is_scaled: whether the factor applies to a kernel of that name.
        tries_factors: False: only the network without a factor is built.

    Returns:
        The match; None where the network cannot be built.
    """
    network = build(1.0)
    if network is None:
        return None
    best = Match(1.0, kernels.differences(found, network))
    is_tried = tries_factors and best.differences
    for factor in _factors(found, network.shapes, is_scaled) if is_tried else ():
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
    found: Shapes, shapes: Mapping[str, Sequence[int]], is_scaled: Callable[[str], bool]
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
    factors = dict.fromkeys([*near[:_MOST_TRIED], round(ratio, 3)])
    return [factor for factor in factors if factor != 1.0]
