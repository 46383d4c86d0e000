"""The table of `benchmarks.accuracy.data_command`; its runs are a campaign."""

from benchmarks.accuracy import data_command


def test_a_row_has_the_metrics_of_each_seed_and_the_mean_of_the_first():
    row = data_command.format_row('data', [[0.80, 0.40], [0.90, 0.44]])
    assert row == '| data | 0.800, 0.900 | 0.400, 0.440 | 0.850 |'
