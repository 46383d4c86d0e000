"""Measurement of a run of a loop."""

from benchmarks import measuring
from benchmarks.training import loops


def test_the_second_half_of_the_steps_counts(monkeypatch):
    asked = []

    def train(config_path, flags):
        asked.extend(flags)
        steps = {1: (9.0, 500.0), 10: (12.0, 600.0), 20: (16.0, 610.0)}
        return {step: measuring.Reached(*one) for step, one in steps.items()}

    monkeypatch.setattr(measuring, 'train_apart', train)
    assert loops.measure('a.config', 21, ['train_config.loop=TF_FUNCTION']) == {
        'first_step_seconds': 9.0,
        'steps_per_second': 10 / 4.0,
        'peak_memory_mib': 610.0,
    }
    assert '--set=train_config.loop=TF_FUNCTION' in asked
    assert '--set=train_config.num_steps=20' in asked
