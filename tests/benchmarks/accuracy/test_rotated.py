"""Overlaps of rotated boxes beside those of clipping."""

from benchmarks.accuracy import rotated


def test_overlaps_of_rotated_boxes_are_those_of_clipping():
    results = rotated.check(14_000, seed=3)
    assert len(results) == 14 and {one['pairs'] for one in results} == {1000}
    beyond = [one for one in results if not (one['float64_within'] and one['float32_within'])]
    assert beyond == []
