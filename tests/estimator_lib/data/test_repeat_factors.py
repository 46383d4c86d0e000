"""Repeat factors against a slow version, and epochs of a reader that repeats rare images."""

import collections
import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import reading, record_streams, records, repeat_factors
from estimator_lib.data.record_sources import Source
from estimator_lib.data.record_streams import Order
from estimator_lib.task import DataChecks
from tests.estimator_lib.data import record_cases as cases


def slow_factors(images, threshold):
    """The rule of LVIS, an image and a class at a time."""
    factors = []
    for labels in images:
        largest = 1.0
        for label in labels:
            fraction = sum(label in other for other in images) / len(images)
            largest = max(largest, math.sqrt(threshold / fraction))
        factors.append(largest)
    return factors


def test_factors_are_those_of_a_slow_version():
    random = np.random.RandomState(0)
    images = [random.zipf(1.5, random.randint(0, 5)).clip(0, 9).tolist() for _ in range(40)]
    factors, classes = repeat_factors.factors_of_images(images, 0.25)
    assert factors == pytest.approx(slow_factors(images, 0.25))
    assert max(factors) > 1.0 and min(factors) == 1.0 and [] in images
    assert classes.keys() == {label for labels in images for label in labels}


class LabelChecks(DataChecks):
    """Records of numbers; multiples of 6 are of class 2, all others of class 1."""

    def list_classes(self, serialized):
        number = tf.train.Example.FromString(serialized).features.feature['id']
        return [2 if number.int64_list.value[0] % 6 == 0 else 1]


class Labeled(cases.IdTask):
    checks = LabelChecks()


@pytest.fixture(scope='module')
def sources(tmp_path_factory):
    """24 records in two files, four of them rare, with a factor of sqrt(0.5 / (4 / 24)) = 1.73."""
    pattern = cases.write_shards(tmp_path_factory.mktemp('repeats'), [10, 14])
    source = Source(0, tuple(records.find_files([pattern], 'field')))
    return repeat_factors.add_factors(Labeled(), [source], 0.5)


def test_rare_records_have_factors(sources):
    (source,) = sources
    span = record_streams.FILE_SPAN
    assert [record_id for record_id, _ in source.repeats] == [0, 6, span + 2, span + 8]
    assert [factor for _, factor in source.repeats] == pytest.approx([math.sqrt(3.0)] * 4)
    more = repeat_factors.add_factors(Labeled(), [source], 0.75)[0]
    assert len(more.repeats) == 4
    assert source.fingerprint != more.fingerprint


def order(**fields):
    return Order(**{'seed': 3, 'shuffle_buffer_size': 50, 'num_readers': 2, **fields})


def test_epochs_have_rare_records_as_often_as_their_factor(sources):
    (source,) = sources
    rare = Source(0, source.files, repeats=tuple((key, 2.4) for key, _ in source.repeats))
    ids = cases.raw_ids(rare, order(num_epochs=30))
    counts = collections.Counter(ids)
    assert all(counts[number] == 30 for number in range(24) if number % 6)
    often = [counts[number] for number in range(0, 24, 6)]
    # Two or three times in each epoch: 2.4 in the mean, with a deviation of 0.09 for 30 epochs.
    assert all(60 < count < 90 for count in often)
    assert sum(often) / 120 == pytest.approx(2.4, abs=0.15)
    assert ids == cases.raw_ids(rare, order(num_epochs=30))


@pytest.mark.parametrize('cache', [False, True])
def test_a_resumed_epoch_repeats_the_same_records(sources, cache):
    (source,) = sources
    stream = cases.Stream(source, order(num_epochs=2, cache=cache))
    whole = stream.ids()
    length = len(cases.raw_ids(source, order(num_epochs=1)))
    assert 24 < length < len(whole)
    for start in (1, 17, length - 1):
        assert stream.ids((0, start)) == whole[start:]
    assert stream.ids((1, 5)) == whole[length + 5 :]


def test_training_reads_with_repeats_and_evaluation_does_not(sources):
    reader = cases.reader_of(*(file.path for file in sources[0].files))
    plans = [
        reading.plan_reading(Labeled(), reader, mode, 4, 1, **options)
        for mode, options in (('train', {'repeat_factor_threshold': 0.5}), ('eval', {}))
    ]
    assert len(plans[0].sources[0].repeats) == 4 and not plans[1].sources[0].repeats


def test_examples_without_classes_are_refused(sources):
    with pytest.raises(errors.ConfigError, match='no training example has a class; expected 0'):
        repeat_factors.add_factors(cases.IdTask(), sources, 0.1)
