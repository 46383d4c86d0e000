"""What `--mode=check` says of a run."""

import pytest

from estimator_lib import errors
from estimator_lib.commands import check
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line


@pytest.fixture
def config(tmp_path):
    made = line_task.create_config(tmp_path)
    made.model.classification.num_classes = 2
    made.model.classification.backbone.name = 'mobilenet_v1'
    return made


def test_it_prints_the_plan(config, capsys):
    check.check(lambda _: Line(), config)
    said = capsys.readouterr().out
    assert 'train_input_reader: 4 examples in 1 files' in said
    assert 'epochs: 3.0' in said
    assert 'checkpoints: every 2 steps, the last 2 stay' in said
    assert 'parameters: 1 in 1 variables, 1 in 1 trained' in said


def test_it_collects_all_problems(config):
    config.export_config.best.metric = 'eror'
    del config.eval_input_reader[1:]
    config.eval_input_reader[0].tf_record_input_reader.input_path[:] = ['/nowhere/*']
    with pytest.raises(errors.UserError) as caught:
        check.check(lambda _: Line(), config)
    said = str(caught.value)
    assert 'eror' in said and '/nowhere/*' in said and '2 problems found' in said
