"""Limits of the demo, and what is counted against them."""

from benchmarks.accuracy import demo


def test_what_is_shown_of_the_demo_is_counted_as_by_hand():
    truth = demo.Objects(['star', 'ring', 'ring'], [[0, 0, 10, 10], [0, 20, 10, 30], [5, 5, 9, 9]])
    found = {
        'star': [[1, 0, 10, 10], [0, 1, 10, 10]],  # 0.9 of it, twice: found once
        'ring': [[0, 24, 10, 34], [0, 20, 5, 30]],  # 0.43 of it, and exactly half
        'cross': [[5, 5, 9, 9]],  # another name
    }
    shown = [(name, box) for name, boxes in found.items() for box in boxes]
    assert demo.count_right(demo.Objects(*zip(*shown)), truth) == 2
    assert demo.count_right(demo.Objects([], []), truth) == 0


def test_limits_of_the_demo_are_at_least_or_at_most():
    assert demo.Limit(0.8).holds(0.8) and not demo.Limit(0.8).holds(0.79)
    assert demo.Limit(240, at_least=False).holds(240)
    assert not demo.Limit(240, at_least=False).holds(241)
