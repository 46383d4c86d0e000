"""The GPUs that a TensorFlow has code for, by what it says of its build."""

import pytest
import tensorflow as tf

from estimator_lib.distribution import gpu_code, half_types

# What the wheels of TensorFlow 2.15.1 and 2.21.0 for Linux say, and one without CUDA.
OLD = {'cuda_compute_capabilities': ['sm_50', 'sm_60', 'sm_70', 'sm_75', 'compute_80']}
NEW = {'cuda_compute_capabilities': ['sm_60', 'sm_70', 'sm_80', 'sm_89', 'compute_90']}
NONE = {'is_cuda_build': False}


@pytest.fixture
def build(monkeypatch):
    """Returns a function that pretends a build of TensorFlow and the GPUs of the machine."""

    def pretend(info, capabilities=()):
        monkeypatch.setattr(tf.sysconfig, 'get_build_info', lambda: info)
        monkeypatch.setattr(half_types, 'gpu_capabilities', lambda: list(capabilities))

    return pretend


def test_capabilities_are_read_from_the_build(build):
    build(NEW)
    assert gpu_code.list_compiled() == [(6, 0), (7, 0), (8, 0), (8, 9), (9, 0)]
    assert gpu_code.description() == (
        'TensorFlow has code for GPUs of compute capability 6.0, 7.0, 8.0, 8.9, 9.0'
    )
    build({'cuda_compute_capabilities': ['compute_120', 'sm_90a']})
    assert gpu_code.list_compiled() == [(9, 0), (12, 0)]
    build(NONE)
    assert gpu_code.description() == 'TensorFlow has no code for GPUs with CUDA'


def test_this_tensorflow_describes_its_build():
    assert gpu_code.description().startswith('TensorFlow has ')


@pytest.mark.parametrize(
    ('info', 'capabilities', 'without'),
    [
        (NEW, [(8, 6), (7, 5), (9, 0)], ''),
        (NEW, [(8, 6), (12, 0), (10, 0), (12, 0)], '10.0, 12.0'),
        (NEW, [(5, 2)], '5.2'),
        (OLD, [(5, 2), (8, 9)], ''),
        (OLD, [(9, 0)], '9.0'),
        (NEW, [(0, 0)], ''),  # a GPU that is not NVIDIA's
        (NONE, [(12, 0)], ''),
    ],
)
def test_gpus_without_code_are_named(build, info, capabilities, without):
    build(info, capabilities)
    starts = [line.partition(', and TensorFlow has code')[0] for line in gpu_code.warnings()]
    expected = [f"this machine's GPUs have compute capability {without}"] if without else []
    assert starts == expected
