import pytest

from estimator_lib.function_loop import call_lengths
from protos import train_pb2


def walk(lengths, first, end):
    """The global steps at which calls end."""
    step, ends = first, []
    while step < end:
        count = lengths.next(step)
        assert count >= 1
        step += count
        ends.append(step)
    return ends


def test_calls_end_where_something_is_to_be_done():
    lengths = call_lengths.CallLengths(3, [10, 0, 25], [(3, 8), (4, 0)], ends=[14, 31], most=100)
    # The first alone; multiples of 10 and 25; 3 + 8, 3 + 16, 3 + 24; 14 and 31.
    assert walk(lengths, 3, 31) == [4, 10, 11, 14, 19, 20, 25, 27, 30, 31]


def test_no_call_has_more_steps_than_asked_for():
    lengths = call_lengths.CallLengths(0, [10], ends=[12], most=4)
    assert walk(lengths, 0, 12) == [1, 5, 9, 10, 12]


def test_calls_are_as_long_as_about_a_second():
    lengths = call_lengths.CallLengths(0)
    assert lengths.next(1) == 100
    lengths.took(100, 20.0)
    assert lengths.next(1) == 5
    lengths.took(1, 3.0)
    assert lengths.next(1) == 1
    lengths.took(1, 0.0001)
    assert lengths.next(1) == 100


def test_a_number_that_was_asked_for_stays():
    lengths = call_lengths.CallLengths(0, most=7)
    lengths.took(7, 70.0)
    assert lengths.next(1) == 7


@pytest.mark.parametrize(
    'input_ends, expected', [(False, [1, 5, 6, 7, 8, 10, 12]), (True, list(range(1, 13)))]
)
def test_a_config_gives_the_cadences(input_ends, expected):
    config = train_pb2.TrainConfig()
    config.progress.every_n_steps = 5
    config.progress.summary_every_n_steps = 6
    config.progress.profile_step = 8
    config.checkpoints.save_every_n_steps = 12
    lengths = call_lengths.CallLengths.from_config(config, 0, 12, input_ends)
    assert walk(lengths, 0, 12) == expected
