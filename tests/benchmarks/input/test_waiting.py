"""Evaluation of the times of steps, which are those of a whole training graph."""

import pytest

from benchmarks.input import waiting
from benchmarks.input.waiting import Waiting
from protos import pipeline_pb2


def test_waiting_is_a_share_of_all_steps():
    assert waiting.summarize_steps([(1.0, 0.5), (3.0, 0.1)]) == pytest.approx(Waiting(0.15, 2.0))


def test_sides_are_measured_in_turns_and_their_medians_printed(monkeypatch):
    asked = []
    shares = iter([0.5, 0.1, 0.3, 0.2, 0.4, 0.9])

    def measure_side(config, calls, steps):
        reader = config.train_input_reader
        asked.append((reader.cache, reader.cache_folder, calls, steps))
        return Waiting(next(shares), 10.0 * len(asked))

    config = pipeline_pb2.TrainEvalPipelineConfig()
    monkeypatch.setattr(waiting, 'measure_side', measure_side)
    results = waiting.measure(config, 'kept', [1, 4], ['FILE'], steps=7, turns=3)
    assert asked == [(3, 'kept', 1, 7), (3, 'kept', 4, 7)] * 3
    assert results == {
        'cache_file_calls_1_waiting_share': 0.4,
        'cache_file_calls_1_step_seconds': 30.0,
        'cache_file_calls_4_waiting_share': 0.2,
        'cache_file_calls_4_step_seconds': 40.0,
    }
    lines = waiting.table(results, [1, 4], ['FILE']).split('\n')
    assert lines[1] == '| --- | --- | --- | --- |'
    assert lines[2:] == ['| FILE | 1 | 40.0 | 30.000 |', '| FILE | 4 | 20.0 | 40.000 |']
