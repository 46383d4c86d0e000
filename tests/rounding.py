"""Bounds on what depends on the rounding of kernels."""

from __future__ import annotations

import os


def choose_bound(recorded: float, without_onednn: float) -> float:
    """Return the bound for the kernels in use.

    Batch norm over a few values divides by their differences, and enlarges rounding: gradients of
    recorded detectors change by up to 10 % where the input is changed by a part in 100,000. The
    kernels of oneDNN, which the cases were recorded with, sum in a similar order on all processors.

    Args:
        recorded: the bound with oneDNN.
        without_onednn: the bound with TensorFlow's own kernels.
    """
    return without_onednn if os.environ.get('TF_ENABLE_ONEDNN_OPTS') == '0' else recorded
