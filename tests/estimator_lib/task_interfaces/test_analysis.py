"""Defaults of a task without an analysis."""

from estimator_lib.task_interfaces.analysis import Analysis


def test_a_task_without_analysis():
    assert Analysis().create_analyzer() is None
    assert Analysis().label_figures({'train_input_reader': [1]}) == ()
