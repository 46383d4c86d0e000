"""Our suppression beside a loop over classes."""

import pytest

from benchmarks.accuracy import suppression


@pytest.mark.parametrize('trained', [False, True])
def test_suppression_equals_the_loop(trained):
    case = suppression.Case('small', 2, 60, trained)
    found = suppression.measure(case, runs=1, seed=2)
    assert found['equal_to_loop']
    assert found['loop']['nodes'] > found['ours']['nodes']
