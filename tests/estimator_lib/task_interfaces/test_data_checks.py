"""Defaults of a task that does not look at its data."""

from estimator_lib.task_interfaces.data_checks import DataChecks, DataReport


def test_nothing_is_wrong_with_data_that_no_task_looks_at():
    checks = DataChecks()
    assert checks.check_evaluation() is None
    assert checks.check_first_examples([b''], are_all=True) == ()
    assert checks.check_example(b'') is None
    assert checks.data_report({'train_input_reader': [checks.examine(b'')]}) == DataReport()
    assert DataReport() == DataReport((), (), ())
