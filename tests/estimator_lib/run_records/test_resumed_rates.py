"""Jumps of the learning rate where a run continues."""

import pytest
from google.protobuf import text_format

from estimator_lib.run_records import resumed_rates
from protos import pipeline_pb2
from tests.estimator_lib.tiny_task import save

COSINE = 'cosine_decay_learning_rate { learning_rate_base: 0.1 warmup_steps: 10 }'
CONSTANT = 'constant_learning_rate { learning_rate: 0.1 }'
STEPS = """
manual_step_learning_rate {
  initial_learning_rate: 0.1 schedule { step: 100 learning_rate: 0.01 }
}"""


def config(schedule, num_steps):
    text = f"""train_config {{
      num_steps: {num_steps}
      optimizer {{ momentum_optimizer {{ learning_rate {{ {schedule} }} }} }}
    }}"""
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """Make a folder with a checkpoint of step 100."""
    folder = tmp_path_factory.mktemp('run')
    save(folder / 'model.ckpt-100', {'weights': [1.0]})
    (folder / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-100"\n')
    return folder


def jump(folder, before, after):
    (folder / 'pipeline.config').write_text(text_format.MessageToString(before))
    return resumed_rates.find_jump(after, str(folder))


def test_a_cosine_of_another_length_jumps(trained):
    said = jump(trained, config(COSINE, 100), config(COSINE, 150))
    # 0.05 * (1 + cos(pi * 90 / 140)) after, and 0.05 * (1 + cos(pi * 89 / 90)) before.
    assert 'jumps from 3.05e-05 at step 99 to 0.0283 at step 100' in said
    assert 'num_steps was 100 and is 150' in said


@pytest.mark.parametrize(
    ('before', 'after'),
    [
        ((COSINE, 150), (COSINE, 150)),  # the same run, continued
        ((CONSTANT, 100), (CONSTANT, 150)),
        ((STEPS, 200), (STEPS, 300)),  # a jump of the schedule itself
        ((CONSTANT, 100), (STEPS.replace('0.01', '0.09'), 150)),  # a small change
    ],
)
def test_a_rate_that_goes_on_is_not_mentioned(trained, before, after):
    assert jump(trained, config(*before), config(*after)) is None


def test_another_rate_of_the_same_length_is_a_jump(trained):
    said = jump(trained, config(CONSTANT, 200), config(CONSTANT.replace('0.1', '0.5'), 200))
    assert 'jumps from 0.1 at step 99 to 0.5 at step 100: this run' in said


def test_a_new_folder_and_one_without_a_config_say_nothing(trained, tmp_path):
    assert resumed_rates.find_jump(config(COSINE, 150), str(tmp_path)) is None
    (trained / 'pipeline.config').unlink(missing_ok=True)
    assert resumed_rates.find_jump(config(COSINE, 150), str(trained)) is None
