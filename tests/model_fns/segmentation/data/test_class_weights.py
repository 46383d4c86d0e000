import logging

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.segmentation.data import class_weights
from protos import input_reader_pb2, segmentation_pb2
from tests.model_fns.segmentation.segmentation_records import record, write_records

NAMES = ('none', 'cat', 'dog', 'emu')
# 6 of class 0 and 2 of class 1; 3 of class 0, 1 of class 2 and 4 that are ignored.
FIRST = np.array([[0, 0, 0, 1], [0, 0, 0, 1]])
SECOND = np.array([[0, 0, 0, 2], [255, 255, 255, 255]])


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp('weights') / 'train.tfrecord'
    serialized = [record(classes=ids, instances=None) for ids in (FIRST, SECOND)]
    broken = record(image=np.zeros([2, 4, 3], np.uint8), classes=b'no PNG', instances=None)
    made = input_reader_pb2.InputReader()
    made.tf_record_input_reader.input_path.append(
        write_records(path, [serialized[0], broken, serialized[1]])
    )
    return made


def config(kind='GIVEN', weights=(), examples=0):
    loss = segmentation_pb2.SegmentationLoss
    return loss(
        class_weights=weights,
        class_weighting=loss.ClassWeighting.Value(kind),
        class_weighting_examples=examples,
    )


def test_counts(reader):
    counts = class_weights.count_pixels(reader, 4, 255)
    np.testing.assert_array_equal(counts.of_class, [9, 2, 1, 0])
    np.testing.assert_array_equal(counts.with_class, [12, 8, 4, 0])
    np.testing.assert_array_equal(class_weights.count_pixels(reader, 4, 0).of_class, [0, 2, 1, 0])
    np.testing.assert_array_equal(
        class_weights.count_pixels(reader, 4, 255, limit=1).of_class, [6, 2, 0, 0]
    )


def test_inverse_frequency(reader, caplog):
    caplog.set_level(logging.INFO, 'model_fns')
    weights = class_weights.class_weights(config('INVERSE_FREQUENCY'), reader, NAMES, 255)
    np.testing.assert_allclose(weights, [12 / 36, 12 / 8, 12 / 4, 12 / 4])
    assert 'no pixel of emu; they get the largest weight' in caplog.text
    assert 'none 0.333, cat 1.5, dog 3, emu 3' in caplog.text


def test_median_frequency(reader):
    weights = class_weights.class_weights(config('MEDIAN_FREQUENCY'), reader, NAMES[:3], 255)
    frequencies = np.array([9 / 12, 2 / 8, 1 / 4])
    np.testing.assert_allclose(weights, 0.25 / frequencies)


def test_so_many_examples(reader):
    weights = class_weights.class_weights(
        config('INVERSE_FREQUENCY', examples=1), reader, NAMES[:2], 255
    )
    np.testing.assert_allclose(weights, [8 / 12, 8 / 4])


def test_weights_that_are_given():
    def given(*weights):
        return class_weights.class_weights(config(weights=weights), None, NAMES, 255)

    assert given() == (1, 1, 1, 1)
    assert given(2.5) == (2.5, 2.5, 2.5, 2.5)
    assert given(1, 2, 0, 4) == (1, 2, 0, 4)


@pytest.mark.parametrize(
    'loss, message',
    [
        (config(weights=[1, 2]), 'class_weights has 2 numbers; expected one for each of the 4'),
        (config(weights=[-1]), 'expected numbers that are not negative'),
        (config(weights=[float('nan')]), 'expected numbers that are not negative'),
        (config('MEDIAN_FREQUENCY', [1]), 'is set, but class_weighting is MEDIAN_FREQUENCY'),
    ],
)
def test_weights_that_cannot_be(loss, message):
    with pytest.raises(errors.ConfigError, match=message):
        class_weights.class_weights(loss, None, NAMES, 255)


def test_records_without_a_labeled_pixel(tmp_path):
    ids = np.full([2, 4], 255)
    made = input_reader_pb2.InputReader()
    path = write_records(tmp_path / 'train.tfrecord', [record(classes=ids, instances=None)])
    made.tf_record_input_reader.input_path.append(path)
    with pytest.raises(errors.DataError, match='no training record that was looked at'):
        class_weights.class_weights(config('INVERSE_FREQUENCY'), made, NAMES, 255)
