import numpy as np
import tensorflow as tf

from estimator_lib.data.caches.packed_examples import ALIGNMENT, Layout, aligned_bytes

ARRAYS = [
    np.arange(105, dtype=np.uint8).reshape(5, 7, 3),
    np.array(b'an id'),
    np.zeros([0, 4], np.float32),
    np.array([b'', b'x' * 100, 'ü'.encode()], object),
    np.array([True, False]),
    np.int64(-7),
    np.zeros([0], object),
    np.array([[0.5, np.nan]], np.float32),
]
TYPES = [tf.uint8, tf.string, tf.float32, tf.string, tf.bool, tf.int64, tf.string, tf.float32]


def test_arrays_come_back_as_they_were_without_copies():
    specs = [tf.TensorSpec([None] * np.ndim(one), kind) for one, kind in zip(ARRAYS, TYPES)]
    layout = Layout(specs)
    # As a session gives it: strings of no dimension are bytes.
    packed = layout.pack([b'an id' if one is ARRAYS[1] else one for one in ARRAYS])
    assert packed.dtype == np.uint8
    for one, kind, found in zip(ARRAYS, TYPES, layout.unpack(packed)):
        assert found.shape == np.shape(one)
        assert found.dtype == (object if kind == tf.string else kind.as_numpy_dtype)
        assert found.tolist() == one.tolist() or np.isnan(one).any()
        if kind != tf.string and found.size:
            assert np.shares_memory(found, packed) and found.ctypes.data % ALIGNMENT == 0
    np.testing.assert_array_equal(layout.unpack(packed)[-1], ARRAYS[-1])


def test_bytes_begin_where_tensorflow_wants_them():
    assert all(aligned_bytes(size).ctypes.data % ALIGNMENT == 0 for size in range(1, 20))
    assert aligned_bytes(7).shape == (7,)
