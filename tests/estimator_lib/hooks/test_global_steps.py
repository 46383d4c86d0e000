"""Steps as hooks count them."""

from estimator_lib.hooks import global_steps


def count(fetched, start):
    """What is said of each run."""
    said = [start]
    for value in fetched:
        said.append(global_steps.step_after_run(value, said[-1]))
    return said[1:]


def test_fetched_before_the_update():
    assert count([5, 6, 7], start=5) == [6, 7, 8]


def test_fetched_after_the_update_now_and_then():
    assert count([6, 6, 8, 8], start=5) == [6, 7, 8, 9]


def test_other_workers_update_too():
    assert count([5, 9, 13], start=5) == [6, 9, 13]


def test_runs_that_do_not_update():
    assert count([5, 5, 6, 6], start=5) == [6, 6, 7, 7]
