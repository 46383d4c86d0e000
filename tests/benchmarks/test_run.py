"""What starts of the front door are summed up to."""

from benchmarks import measuring, run


def test_starts_are_medians_of_the_first_step(monkeypatch):
    reached = measuring.Reached
    runs = iter(
        {1: reached(seconds, memory), 2: reached(99.0, 999.0)}
        for seconds, memory in ((5.0, 70.0), (3.0, 90.0), (4.0, 80.0))
    )

    def train(config_path, flags):
        assert (config_path, flags) == ('a.config', ['--num_train_steps=2'])
        return next(runs)

    monkeypatch.setattr(measuring, 'train_apart', train)
    assert run.measure_start('a.config', 3) == {
        'start_to_first_step_seconds': 4.0,
        'peak_memory_mib': 80.0,
    }
