"""Defaults of analyzers."""

from estimator_lib.analysis.parts import Finding
from estimator_lib.task_interfaces.analysis import Analyzer


class Silent(Analyzer):
    """Analyzer without results."""

    def fetches(self, features, outputs, labels):
        return {}

    def add(self, arrays):
        return Finding(0.0)

    def finish(self, metrics):
        return []


def test_everything_is_drawn_and_no_error_comes_late():
    batch = {'image': 1}, {'score': 2}, {'label': 3}
    assert Silent().drawn(*batch) == batch
    assert Silent().late_errors(5) == ()
