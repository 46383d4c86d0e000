"""One run that moves from machine to machine learns what it would learn on one."""

import numpy as np
import pytest

from tests import any_machines
from tests.estimator_lib.distribution import curve_cases

pytestmark = pytest.mark.usefixtures('forked_processes')

SHAPES = any_machines.SHAPES
STEPS = 4  # of each shape; together eight passes over the records
LAST = STEPS * len(SHAPES)
SEEDS = (3, 4, 5)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    any_machines.write(folder)
    return folder


@pytest.fixture(scope='module')
def whole(data, tmp_path_factory):
    """The batches of an uninterrupted run of each seed, and its losses."""
    folder = tmp_path_factory.mktemp('whole')
    found = []
    for seed in SEEDS:
        model_dir = folder / str(seed)
        batches = any_machines.train(data, model_dir, SHAPES[0], LAST, seed)
        found.append((batches, curve_cases.losses(model_dir)))
    return found


def test_a_run_learns_the_same_on_machines_of_any_shape(data, whole, tmp_path):
    batches, expected = whole[0]
    assert len(batches) == len(expected) == LAST
    moved = tmp_path / 'moved'
    for index, shape in enumerate(SHAPES):
        steps = slice(STEPS * index, STEPS * (index + 1))
        found = any_machines.train(data, moved, shape, steps.stop, SEEDS[0])
        assert found == batches[steps], shape.name
    losses = curve_cases.losses_by_step(moved)
    assert sorted(losses) == list(range(1, LAST + 1))
    found = np.array([losses[step] for step in sorted(losses)])
    # Only bfloat16 makes a difference that is more than the order of sums.
    np.testing.assert_allclose(found[:-STEPS], expected[:-STEPS], rtol=1e-4)
    np.testing.assert_allclose(found[-STEPS:], expected[-STEPS:], rtol=1e-2)
    # The mean loss of each shape's steps is within the spread of the seeds.
    means = np.array([losses for _, losses in whole]).reshape([len(SEEDS), -1, STEPS]).mean(2)
    found_means = found.reshape([-1, STEPS]).mean(1)
    assert (np.abs(found_means - means[0]) < np.ptp(means, axis=0)).all()


def test_all_records_come_once_in_each_epoch(whole):
    """As the other test compares with these batches."""
    for batches, _ in whole:
        examples = sum(any_machines.FILES)
        ordered = [one for batch in batches for one in batch]
        seen = {one: ordered.count(one) for one in ordered}
        assert len(seen) == examples
        assert max(seen.values()) - min(seen.values()) <= 1
