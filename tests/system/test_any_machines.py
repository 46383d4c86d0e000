"""One run that moves from machine to machine learns what it would learn on one."""

import json

import numpy as np
import pytest

from tests import any_machines, other_python
from tests.estimator_lib.distribution import curve_cases

pytestmark = pytest.mark.usefixtures('forked_processes')

SHAPES = any_machines.SHAPES
STEPS = 4  # of each shape; together nine passes over the records
LAST = STEPS * len(SHAPES)
SEED = 3


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    any_machines.write(folder)
    return folder


@pytest.fixture(scope='module')
def whole(data, tmp_path_factory):
    """The batches of an uninterrupted run, and its losses."""
    model_dir = tmp_path_factory.mktemp('whole') / 'run'
    batches = any_machines.train(data, model_dir, SHAPES[0], LAST, SEED)
    return batches, curve_cases.losses(model_dir)


@pytest.fixture(scope='module')
def moved(data, tmp_path_factory):
    """The folder of a run on machines of each shape, and the batches of each."""
    folder = tmp_path_factory.mktemp('moved') / 'run'
    found = [
        any_machines.train(data, folder, shape, STEPS * number, SEED)
        for number, shape in enumerate(SHAPES, start=1)
    ]
    return folder, found


def test_a_run_learns_the_same_on_machines_of_any_shape(whole, moved):
    batches, expected = whole
    assert len(batches) == len(expected) == LAST
    for index, (shape, found) in enumerate(zip(SHAPES, moved[1])):
        assert found == batches[STEPS * index : STEPS * (index + 1)], shape.name
    losses = curve_cases.losses_by_step(moved[0])
    assert sorted(losses) == list(range(1, LAST + 1))
    found = np.array([losses[step] for step in sorted(losses)])
    # Only bfloat16 makes a difference that is more than the order of sums.
    np.testing.assert_allclose(found[:-STEPS], expected[:-STEPS], rtol=1e-4)
    np.testing.assert_allclose(found[-STEPS:], expected[-STEPS:], rtol=1e-2)


def test_one_of_the_shapes_has_another_tensorflow(moved):
    """Else the test before is of one TensorFlow."""
    if other_python.find_other_python() is None:
        pytest.skip(other_python.MISSING)
    starts = json.loads((moved[0] / 'run.json').read_text())['starts']
    versions = [start['versions']['tensorflow'] for start in starts]
    assert [version != versions[0] for version in versions] == [
        shape.name == 'other_tensorflow' for shape in SHAPES
    ]


def test_all_records_come_once_in_each_epoch(whole):
    """As the other test compares with these batches."""
    ordered = [one for batch in whole[0] for one in batch]
    seen = {one: ordered.count(one) for one in ordered}
    assert len(seen) == sum(any_machines.FILES)
    assert max(seen.values()) - min(seen.values()) <= 1
