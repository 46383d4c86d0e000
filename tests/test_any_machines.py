"""One run that moves from machine to machine sees the examples that one machine would see."""

import numpy as np
import pytest

from tests import any_machines
from tests.estimator_lib.distribution import curve_cases

pytestmark = pytest.mark.usefixtures('forked_processes')

STEPS = 2  # of each shape: together two passes over the records
SEEDS = (3, 4, 5)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    any_machines.write(folder)
    return folder


def test_a_run_sees_the_same_examples_on_machines_of_any_shape(data, tmp_path):
    shapes = any_machines.SHAPES
    last = STEPS * len(shapes)
    batches = any_machines.train(data, tmp_path / 'whole', shapes[0], last, SEEDS[0])
    assert len(batches) == last
    expected = curve_cases.losses_by_step(tmp_path / 'whole')
    moved = tmp_path / 'moved'
    for index, shape in enumerate(shapes):
        steps = slice(STEPS * index, STEPS * (index + 1))
        found = any_machines.train(data, moved, shape, steps.stop, SEEDS[0])
        assert found == batches[steps], shape.name
    found = curve_cases.losses_by_step(moved)
    assert sorted(found) == sorted(expected) == list(range(1, last + 1))
    differences = [abs(found[step] / expected[step] - 1) for step in sorted(found)]
    assert max(differences[:-STEPS]) < 1e-4 and max(differences[-STEPS:]) < 1e-2
