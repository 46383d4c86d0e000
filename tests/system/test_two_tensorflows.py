"""What one TensorFlow has written continues on another, in both directions.

See `other_python` for the other TensorFlow.
"""

import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.data.caches import example_cache
from estimator_lib.evaluation import early_stopping
from tests import moved_between, other_python
from tests.estimator_lib.distribution import curve_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAST_STEP = 8  # the third evaluation after that of step 2


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """The folder of runs that were begun on one TensorFlow and continued on the other."""
    other = other_python.find_other_python()
    if other is None:
        pytest.skip(other_python.MISSING)
    folder = tmp_path_factory.mktemp('runs')
    moved_between.write_data(folder)
    moved_between.begin(folder, 'first')
    shutil.copytree(folder / 'first', folder / 'before')
    run = subprocess.run(
        [other, '-m', 'tests.moved_between', folder], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert f'TensorFlow {tf.version.VERSION}' not in run.stderr, 'OTHER_PYTHON has the same'
    moved_between.complete(folder, 'second')
    moved_between.train(folder, 'whole', moved_between.MOST_STEPS)
    return folder


def read_caches(run):
    return {path.name: path.read_bytes() for path in (run / example_cache.FOLDER).iterdir()}


DIRECTIONS = pytest.mark.parametrize('name', ['first', 'second'])


@DIRECTIONS
def test_a_run_continues_as_if_it_had_stayed(runs, name):
    found, expected = (curve_cases.losses(runs / one) for one in (name, 'whole'))
    assert len(found) == len(expected) == LAST_STEP
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    one, other = (tf.train.load_checkpoint(str(runs / each)) for each in (name, 'whole'))
    names = set(one.get_variable_to_shape_map())
    assert names == set(other.get_variable_to_shape_map()) and len(names) > 20
    for each in names:
        np.testing.assert_allclose(
            one.get_tensor(each), other.get_tensor(each), atol=1e-4, err_msg=each
        )


@DIRECTIONS
def test_the_reader_continues_with_its_next_record(runs, name):
    """8 batches of 6 examples from 24 records: two epochs."""
    position = tf.train.load_checkpoint(str(runs / name)).get_tensor(
        'input_reader/chief_0/position'
    )
    assert position[1, 0] == 8 * 6


@DIRECTIONS
def test_early_stopping_counts_the_evaluations_before(runs, name):
    state = json.loads(next((runs / name).glob(f'*/{early_stopping.STATE_FILE}')).read_text())
    assert (state['best_step'], state['steps']) == (2, [4, 6, 8])


@DIRECTIONS
@pytest.mark.parametrize('kind', moved_between.FORMATS)
def test_an_export_answers_alike(runs, name, kind):
    found, expected = (
        json.loads((runs / f'{name}_{one}.json').read_text())[kind] for one in ('found', 'expected')
    )
    assert sum(expected) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_cache_stays_for_its_own_tensorflow(runs):
    """Another TensorFlow may decode pictures differently; it has a file of its own."""
    caches = read_caches(runs / 'first')
    before = read_caches(runs / 'before')
    assert len(caches) == 2 and len(before) == 1 and before.items() <= caches.items()
    one, other = caches.values()
    assert len(one) == len(other) > 24 * 32 * 32 * 3
