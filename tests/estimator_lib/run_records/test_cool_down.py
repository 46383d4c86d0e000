"""Runs that are longer now, and continue where the cool-down of the shorter one began."""

import logging

import pytest
from google.protobuf import text_format

from estimator_lib import config as config_lib
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.optimization import learning_rates
from estimator_lib.run_records import cool_down
from protos import pipeline_pb2, train_pb2
from tests.estimator_lib.tiny_task import save


def config(num_steps, fields='cool_down_steps: 250'):
    text = f"""train_config {{
      num_steps: {num_steps}
      optimizer {{ sgd_optimizer {{ learning_rate {{
        warmup_stable_decay_learning_rate {{ learning_rate_base: 0.1 {fields} }}
      }} }} }}
    }}"""
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


@pytest.fixture
def finished(tmp_path, caplog):
    """Make a run of 1000 steps, which kept step 400 for good and lists its last three."""
    caplog.set_level(logging.INFO, 'estimator_lib')
    for step in (400, 600, 700, 1000):
        save(tmp_path / f'model.ckpt-{step}', {'weights': [1.0]})
    listed = [str(tmp_path / f'model.ckpt-{step}') for step in (600, 700, 1000)]
    checkpoint_files.write_list(str(tmp_path), listed)
    config_lib.save_pipeline_config(config(1000), str(tmp_path))
    return tmp_path


def listed(folder):
    lines = (folder / 'checkpoint').read_text().splitlines()
    return [int(line.strip('"').rpartition('-')[2]) for line in lines]


def test_the_last_checkpoint_before_is_listed_and_one_kept_for_good_is_not(finished, caplog):
    cool_down.go_back(config(2000), str(finished))
    assert 'continues at step 700, not at 1000' in caplog.text
    assert 'began at step 750, begins at step 1750 now' in caplog.text
    # The latest one, then all: a run deletes the oldest of these.
    assert listed(finished) == [700, 600, 700]
    assert (finished / 'model.ckpt-400.index').exists()


def test_an_incomplete_checkpoint_is_passed_over(finished):
    (finished / 'model.ckpt-700.data-00000-of-00001').unlink()
    cool_down.go_back(config(2000), str(finished))
    assert listed(finished) == [600, 600]


def test_one_that_was_kept_for_good_is_listed_where_there_is_no_other(finished):
    for step in (600, 700):
        (finished / f'model.ckpt-{step}.index').unlink()
    cool_down.go_back(config(2000), str(finished))
    assert listed(finished) == [400, 400]


def test_without_a_checkpoint_before_there_is_a_warning(finished, caplog):
    for step in (400, 600, 700):
        (finished / f'model.ckpt-{step}.index').unlink()
    before = (finished / 'checkpoint').read_text()
    cool_down.go_back(config(2000), str(finished))
    assert 'began at step 750, and no checkpoint up to there is left' in caplog.text
    assert (finished / 'checkpoint').read_text() == before


@pytest.mark.parametrize('now', [config(1000), config(900), pipeline_pb2.TrainEvalPipelineConfig()])
def test_a_run_that_is_not_longer_and_one_without_an_optimizer_stay(finished, now, caplog):
    before = (finished / 'checkpoint').read_text()
    cool_down.go_back(now, str(finished))
    assert (finished / 'checkpoint').read_text() == before and not caplog.text


@pytest.mark.parametrize(
    ('num_steps', 'fields', 'step'),
    [
        (1000, 'cool_down_steps: 250', 750),
        (1000, 'cool_down_steps: 250 total_steps: 500', 250),
        (300, 'cool_down_steps: 250 warmup_steps: 100', 100),  # too short for both
        (0, 'cool_down_steps: 250', None),
        (1000, '', None),
    ],
)
def test_the_first_step_is_that_of_the_schedule(num_steps, fields, step):
    train_config = config(num_steps, fields).train_config
    assert cool_down.first_step(train_config) == step
    if step is not None:
        rate = train_config.optimizer.sgd_optimizer.learning_rate
        rates = learning_rates.compute_rates(rate, [step, step + 1], num_steps)
        assert rates[1] < rates[0] == pytest.approx(0.1)


def test_other_schedules_have_no_cool_down():
    train_config = train_pb2.TrainConfig(num_steps=100)
    train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate.SetInParent()
    assert cool_down.first_step(train_config) is None
