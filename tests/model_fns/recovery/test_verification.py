"""Differences of outputs."""

import numpy as np

from model_fns.recovery import verification
from model_fns.recovery.verification import Difference


def test_one_large_or_unknown_difference_is_none_accepted():
    small, large = Difference('a', 1e-5, ''), Difference('b', 2e-4, '')
    assert verification.agrees([small])
    assert not verification.agrees([small, large])
    assert not verification.agrees([Difference('a', float('nan'), '')])
    assert not verification.agrees([])


def test_padding_rows_do_not_count():
    theirs = [{'x': np.array([[1.0], [5.0]])}]
    ours = [{'x': np.array([[[1.0], [0.0]]]), 'rows': np.array([1])}]
    assert verification._difference('x', theirs, ours, 'rows').largest == 0
    assert verification._difference('x', theirs, ours).largest == 5


def test_different_shapes_are_no_agreement():
    difference = verification._difference('x', [{'x': np.zeros([2])}], [{'x': np.zeros([3])}])
    assert not verification.agrees([difference])
    assert difference.meaning == '[2] there, [3] here'
