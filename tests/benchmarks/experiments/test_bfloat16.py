"""The measurements of both precisions, at sizes at which only their shape is seen."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import op_times
from benchmarks.experiments import bfloat16, bfloat16_ops

tf1 = tf.compat.v1


def test_a_trace_names_ops_and_their_kinds():
    with tf.Graph().as_default(), tf1.Session() as session:
        held = tf1.get_variable('held', initializer=tf.ones([64, 64]))
        product = tf.matmul(held, held, name='product')
        other = tf.matmul(product, held, name='other')
        session.run(tf1.global_variables_initializer())
        ops = op_times.trace(session, other, runs=2)
    taken = {op.name: took for op, took in ops.items() if 'MatMul' in op.kind}
    assert set(taken) == {'product', 'other'} and min(taken.values()) > 0
    (kind,) = [kind for kind in op_times.sum_kinds(ops) if 'MatMul' in kind]
    assert op_times.sum_kinds(ops)[kind] == (pytest.approx(sum(taken.values())), 2)
    times = [took for _, took in op_times.costliest(ops, 3)]
    assert len(times) == 3 and times == sorted(ops.values(), reverse=True)[:3]


def test_every_kind_of_op_is_measured_in_both_types():
    cases = {case.kind: case for case in bfloat16_ops.cases()}
    assert 'FusedBatchNormGradV3' in cases
    result = bfloat16_ops.measure(cases['Relu'], turns=1, least_seconds=0.0)
    sides = [result[f'{dtype}_cpu_min_ms'] for dtype in bfloat16_ops.DTYPES]
    assert min(sides) > 0 and result['ratio'] == pytest.approx(sides[1] / sides[0])
    assert 'Relu' in bfloat16_ops.table([result])


def test_ops_are_measured_on_as_many_threads_as_asked(monkeypatch):
    monkeypatch.setattr(bfloat16_ops, 'measure', lambda case, turns, threads: (case.kind, threads))
    assert set(bfloat16_ops.measure_here(['MaxPool'], turns=1, threads=3)) == {('MaxPool', 3)}


def test_what_is_measured_is_not_measured_again():
    how = bfloat16.How(64, 2, 1, 1)
    other = how._replace(size=96)
    results = {
        'a': {'how': how._asdict(), 'trains_in': 'float32'},
        'b': {'how': other._asdict(), 'trains_in': 'float32'},
        'older': {'how': how._asdict()},
    }
    assert list(bfloat16.missing(['a', 'b', 'c', 'older'], how, results)) == ['b', 'c', 'older']


@pytest.mark.bfloat16
def test_a_network_is_measured_in_both_types_and_passes():
    how = bfloat16.How(32, 1, 1, 1)
    result = bfloat16.measure('cifarnet', how)
    for one_pass in bfloat16.PASSES:
        found = result[one_pass]
        assert found['cpu_ratio'] == pytest.approx(
            found['bfloat16_cpu_seconds'] / found['float32_cpu_seconds']
        )
    assert np.isfinite(result['training']['wall_ratio'])
    assert bfloat16.line('cifarnet', result).startswith('cifarnet')
    assert result['trains_in'] == 'bfloat16'
    stays = {**result, 'trains_in': 'float32'}
    assert bfloat16.line('cifarnet', stays).endswith('stays float32')
