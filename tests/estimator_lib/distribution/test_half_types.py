"""The half type of a machine, by what its processor and its GPUs say of themselves."""

import pytest
import tensorflow as tf

from estimator_lib import environment
from estimator_lib.distribution import half_types
from protos import train_pb2


@pytest.mark.parametrize(
    'flags, expected',
    [
        ('fpu sse2 avx512f avx512_bf16', tf.bfloat16),
        ('fpu amx_bf16 amx_tile', tf.bfloat16),
        ('fpu sse2 avx512f avx512_vnni', None),
        ('fpu not_avx512_bf16', None),
        ('', None),
    ],
)
def test_the_processor_decides(monkeypatch, flags, expected):
    monkeypatch.setattr(environment, 'cpu_flags', lambda: frozenset(flags.split()))
    monkeypatch.setattr(half_types, 'gpu_capabilities', lambda: [])
    assert half_types.multiplies_bfloat16() is (expected is not None)
    assert half_types.half_type() is expected
    gains_nothing = [line for line in half_types.warnings() if 'gains nothing' in line]
    assert bool(gains_nothing) is (expected is None)


@pytest.mark.parametrize(
    'capabilities, expected',
    [
        ([(7, 0)], tf.float16),
        ([(8, 6), (7, 5)], tf.float16),
        ([(10, 0)], tf.float16),
        ([(8, 6), (6, 1)], None),
        ([None], None),  # A GPU that is not NVIDIA's.
    ],
)
def test_where_there_are_gpus_they_decide(monkeypatch, capabilities, expected):
    monkeypatch.setattr(half_types, 'multiplies_bfloat16', lambda: True)
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: capabilities)
    monkeypatch.setattr(
        tf.config.experimental,
        'get_device_details',
        lambda gpu: {} if gpu is None else {'compute_capability': gpu},
    )
    assert half_types.half_type() is expected
    for is_on in (True, False):
        config = train_pb2.TrainConfig(use_bfloat16=is_on)
        assert half_types.scales_losses(config) is (is_on and expected is not None)
    if expected is None:
        (warning,) = half_types.warnings()
        least = '6.1' if len(capabilities) > 1 else '0.0'
        expected_text = (
            f"this machine's GPUs, of compute capability {least} (expected at least 7.0)"
        )
        assert expected_text in warning
    else:
        assert not half_types.warnings()
