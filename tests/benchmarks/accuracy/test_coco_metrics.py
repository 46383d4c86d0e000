"""Twelve numbers of a summary, by three evaluators."""

import numpy as np

from benchmarks.accuracy import coco_metrics


def test_all_evaluators_give_the_same_twelve_numbers(tmp_path):
    path = str(tmp_path / 'scenes.npz')
    np.savez(path, **coco_metrics.random_scenes(6, seed=3))
    results = {side: coco_metrics.measure_here(side, path) for side in coco_metrics.SIDES}
    assert len(results['ours']['numbers']) == 12
    assert 0.05 < results['ours']['numbers'][0] < 0.95
    for one in results.values():
        np.testing.assert_allclose(one['numbers'], results['ours']['numbers'], atol=1e-12)
