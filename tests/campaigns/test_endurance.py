"""The judgment of a campaign of long runs, and the configs of its runs."""

import pytest

from model_fns import build_task
from tests.campaigns import endurance


def test_growth_is_that_of_the_second_half():
    """Memory grows at the start of a run, and single samples are high."""
    grows = [(step, 400 + step) for step in range(200)]
    ended = endurance.Ended.from_samples(grows)
    assert (ended.middle, ended.last) == (499.5, 589.5)
    assert ended.growth == pytest.approx(90 / 499.5) and ended.growth > endurance.MOST_GROWTH
    warm = [(step, min(500, 300 + 10 * step) + 900 * (step % 7 == 0)) for step in range(200)]
    assert endurance.Ended.from_samples(warm).growth == 0
    assert endurance.Ended.from_samples([(1, 5)]).growth == 0


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('endurance')
    endurance.write_data(path)
    return path


@pytest.mark.parametrize('reader', endurance.READERS)
def test_each_reader_has_a_config(folder, reader):
    config = endurance.create_config(folder, reader, 'TF_FUNCTION', 80)
    assert config.train_config.checkpoints.save_every_n_steps == 2
    assert build_task(config) is not None
