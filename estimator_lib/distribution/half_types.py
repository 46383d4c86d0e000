"""The half type that training can compute in on this machine: bfloat16, float16 or none."""

from __future__ import annotations

import contextlib
from typing import FrozenSet, List, Optional, Sequence, Tuple

import tensorflow as tf

from protos import train_pb2

# Multiply-and-add of bfloat16: vectors of AVX-512, and tiles.
_BFLOAT16 = ('avx512_bf16', 'amx_bf16')
_CPU_INFO = '/proc/cpuinfo'

# The least compute capability of GPUs with tensor cores: what TensorFlow's rewrite asks for too.
_TENSOR_CORES = (7, 0)


def cpu_flags(path: str) -> FrozenSet[str]:
    """Return the instruction sets of the processor, by the names that Linux gives them.

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


def multiplies_bfloat16() -> bool:
    """Return True for a processor that is known to multiply matrices of bfloat16 by itself."""
    return not cpu_flags(_CPU_INFO).isdisjoint(_BFLOAT16)


def half_type() -> Optional[tf.DType]:
    """Return the type that training multiplies in on this machine; None: float32.

    Where there are GPUs, training runs on them.
    """
    capabilities = gpu_capabilities()
    if capabilities:
        return tf.float16 if min(capabilities) >= _TENSOR_CORES else None
    return tf.bfloat16 if multiplies_bfloat16() else None


def gpu_capabilities() -> List[Tuple[int, ...]]:
    """Return the compute capability of each GPU: (8, 0) of 8.0; (0, 0) of one that has none."""
    found = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices('GPU'))
    return [tuple(details.get('compute_capability', (0, 0))) for details in found]


def scales_losses(config: train_pb2.TrainConfig) -> bool:
    """Return True where training computes in float16, which needs loss scaling."""
    return config.use_bfloat16 and half_type() is tf.float16


def warnings() -> Sequence[str]:
    """Return a sentence where `train_config.use_bfloat16` has no effect on this machine."""
    if half_type() is not None:
        return []
    what = f'processor, which has neither {" nor ".join(_BFLOAT16)}'
    capabilities = gpu_capabilities()
    if capabilities:
        least, needed = ('.'.join(map(str, one)) for one in (min(capabilities), _TENSOR_CORES))
        what = f"machine's GPUs, of compute capability {least} (expected at least {needed})"
    return [
        f'train_config.use_bfloat16 gains nothing on this {what}: everything is computed in float32'
    ]
