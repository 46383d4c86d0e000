"""The half type that training can compute in on this machine: bfloat16, float16 or none."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import environment
from protos import train_pb2

# Instruction sets that multiply bfloat16: AVX-512 vectors, and AMX tiles.
_BFLOAT16 = ('avx512_bf16', 'amx_bf16')

# Lowest compute capability of GPUs with tensor cores; TensorFlow's rewrite requires it too.
_TENSOR_CORES = (7, 0)


def multiplies_bfloat16() -> bool:
    """Return whether the processor is known to have instructions that multiply bfloat16."""
    return not environment.cpu_flags().isdisjoint(_BFLOAT16)


def half_type() -> Optional[tf.DType]:
    """Return the half type of products in training on this machine; None for float32.

    Where there are GPUs, training runs on them, so their type counts.
    """
    capabilities = gpu_capabilities()
    if capabilities:
        # The oldest GPU decides, because all replicas run one graph.
        return tf.float16 if min(capabilities) >= _TENSOR_CORES else None
    return tf.bfloat16 if multiplies_bfloat16() else None


def gpu_capabilities() -> List[Tuple[int, ...]]:
    """Return the compute capability of each GPU: (8, 0) for 8.0, and (0, 0) if it has none."""
    devices = tf.config.list_physical_devices('GPU')
    details = map(tf.config.experimental.get_device_details, devices)
    return [tuple(each.get('compute_capability', (0, 0))) for each in details]


def scales_losses(config: train_pb2.TrainConfig) -> bool:
    """Return True where training computes in float16, which needs loss scaling."""
    return config.use_bfloat16 and half_type() is tf.float16


def warnings() -> Sequence[str]:
    """Return a warning if `train_config.use_bfloat16` has no effect on this machine."""
    if half_type() is not None:
        return []
    what = f'processor, which has neither {" nor ".join(_BFLOAT16)}'
    capabilities = gpu_capabilities()
    if capabilities:
        versions = (min(capabilities), _TENSOR_CORES)
        least, needed = ('.'.join(map(str, version)) for version in versions)
        what = f"machine's GPUs, of compute capability {least} (expected at least {needed})"
    return [
        f'train_config.use_bfloat16 gains nothing on this {what}: everything is computed in float32'
    ]
