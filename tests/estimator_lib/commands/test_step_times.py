"""Seconds of a training step."""

from estimator_lib.commands import step_times
from tests.estimator_lib import line_task


def test_inputs_that_end_are_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(step_times, 'SECONDS', 0.001)
    config = line_task.create_config(tmp_path)
    config.train_input_reader.num_epochs = 1
    assert 0.0 < step_times.measure(line_task.Line(), config) < 60.0
    assert config.train_input_reader.num_epochs == 1
