"""Where the variables of a backbone stand in the checkpoints of each task."""

from __future__ import annotations

from typing import Mapping

# The scope that a single-shot detector puts around its backbone.
DETECTION = 'FeatureExtractor'

# What stands before the name of a backbone's variable, by `fine_tune_checkpoint_type`.
PREFIXES: Mapping[str, str] = {
    'classification': '',
    'detection': f'{DETECTION}/',
    'segmentation': '',
}
