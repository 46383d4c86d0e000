"""What the tests of the Inception networks share."""

from __future__ import annotations

import collections
import json
from typing import Dict, Optional, Sequence, Tuple

import pytest

from model_fns.backbones import inception_parts
from tests.conftest import shared_folder


def detector_variables(
    config: str, prefix: str, without: Optional[str] = None
) -> Dict[str, Tuple[int, ...]]:
    """Names and shapes of a published detector's variables; skips the test without the list.

    Args:
        config: name of the detector's configuration.
        prefix: what the names begin with.
        without: leaves out names that go on with this (a detector's own extra layers).
    """
    path = shared_folder() / 'spec' / 'variables' / f'{config}.json'
    if not path.is_file():
        pytest.skip(f'no variable list of {config} in ../shared')
    listed = json.loads(path.read_text())['variables']
    chosen = {
        name: tuple(shape)
        for name, shape, _ in listed
        if name.startswith(prefix) and not (without and name.startswith(prefix + without))
    }
    assert chosen
    return chosen


def layer_kinds(network: Sequence[inception_parts.Layer]) -> Dict[str, int]:
    """How many layers of each class a network has, those inside its modules included."""
    kinds = collections.Counter(type(layer).__name__ for layer in network)
    for layer in network:
        for branch in getattr(layer, 'branches', ()):
            kinds.update(layer_kinds(branch))
    return kinds
