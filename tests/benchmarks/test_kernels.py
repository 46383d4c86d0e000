"""Forms of what layers compute give the same numbers, and are all measured."""

import pytest

from benchmarks import kernels


@pytest.mark.parametrize(
    ('case', 'others'),
    [
        (kernels.atrous(1, 9, 3, 2, 2), {'tf.nn.convolution'}),
        (kernels.hard_swish(1, 5, 4), {'gate_kept', 'recomputed'}),
    ],
    ids=lambda value: getattr(value, 'kind', ''),
)
def test_all_forms_compute_the_same(case, others):
    found = kernels.measure(case, turns=1, runs=1)
    # A processor may have no kernels of the third.
    assert set(found['cpu_ms']) - {'tf.nn.conv2d'} == others | {kernels.OURS}
    assert found['largest_difference'] < kernels.MOST_DIFFERENCE
    assert 0 < min(found['cpu_ms'].values()) < float('inf')
    assert case.what in kernels.line(found)


def test_forms_that_differ_are_seen(monkeypatch):
    monkeypatch.setattr(kernels, '_gate_kept', lambda inputs: 1.01 * inputs)
    found = kernels.measure(kernels.hard_swish(1, 5, 4), turns=1, runs=1)
    assert found['largest_difference'] > kernels.MOST_DIFFERENCE


def test_a_line_has_all_forms_as_multiples_of_ours():
    result = {
        'kind': 'atrous',
        'what': 'small',
        'cpu_ms': {kernels.OURS: 2.0, 'tf.nn.convolution': 5.0},
        'largest_difference': 3e-6,
    }
    text = kernels.line(result)
    assert 'layers     2.0  tf.nn.convolution     5.0 (2.50)  differ by 3e-06' in text
