"""Generations of GPUs that the installed TensorFlow has compiled code for."""

from __future__ import annotations

import re
from typing import Iterable, List, Tuple

import tensorflow as tf

from estimator_lib.distribution import half_types

_Capability = Tuple[int, ...]


def list_compiled() -> List[_Capability]:
    """Return the compute capabilities that TensorFlow was compiled for, lowest first.

    Returns:
        (8, 9) for `sm_89` and for `compute_89`, which adds code that drivers compile; empty for a
        build without CUDA.
    """
    names = tf.sysconfig.get_build_info().get('cuda_compute_capabilities', ())
    # TensorFlow 2.15 has sm_50, sm_60, sm_70, sm_75 and compute_80. The last digit is the minor
    # number.
    digits = (re.sub(r'\D', '', name) for name in names)
    return sorted((int(each[:-1]), int(each[-1])) for each in digits)


def description() -> str:
    """Describe the GPUs that TensorFlow has code for."""
    built = list_compiled()
    if not built:
        return 'TensorFlow has no code for GPUs with CUDA'
    return f'TensorFlow has code for GPUs of compute capability {_listed(built)}'


def warnings() -> List[str]:
    """Return a warning if a visible GPU is of a generation without code.

    Code runs on GPUs of the same major number whose minor number is not lower.
    """
    built = list_compiled()
    present = {each for each in half_types.gpu_capabilities() if any(each)}
    without = sorted(each for each in present if not any(_runs(code, each) for code in built))
    if not without or not built:
        return []
    return [
        f"this machine's GPUs have compute capability {_listed(without)}, and {description()}: the "
        'driver compiles it when training starts, which takes many minutes, or training fails'
    ]


def _runs(code: _Capability, gpu: _Capability) -> bool:
    return code[0] == gpu[0] and code[1] <= gpu[1]


def _listed(capabilities: Iterable[_Capability]) -> str:
    return ', '.join('.'.join(map(str, each)) for each in capabilities)
