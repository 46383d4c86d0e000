"""What the processor of this machine computes with by itself."""

from __future__ import annotations

import contextlib
from typing import FrozenSet

# Multiply-and-add of bfloat16: vectors of AVX-512, and tiles.
_BFLOAT16 = ('avx512_bf16', 'amx_bf16')
_CPU_INFO = '/proc/cpuinfo'


def cpu_flags(path: str = _CPU_INFO) -> FrozenSet[str]:
    """The instruction sets of the processor, by the names that Linux gives them.

    Args:
        path: of the kernel's description of the processors.

    Returns:
        Empty where there is no such description.
    """
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            name, _, value = line.partition(':')
            if name.strip() == 'flags':
                return frozenset(value.split())
    return frozenset()


def multiplies_bfloat16(path: str = _CPU_INFO) -> bool:
    """Whether the processor multiplies matrices of bfloat16 by itself, as far as can be told."""
    return not cpu_flags(path).isdisjoint(_BFLOAT16)
