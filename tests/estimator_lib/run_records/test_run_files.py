"""The files of a run, from its start to its end."""

import json
import signal

import pytest

from estimator_lib import config as config_lib
from estimator_lib import distribution
from estimator_lib.processes import preemption
from estimator_lib.run_records import run_files
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line


class Labeled(Line):
    """A task with a file of its own."""

    def asset_files(self):
        return {'labels.txt': 'point\n'}


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def create(config, folder):
    return run_files.RunFiles(Labeled(), config, str(folder), {}, distribution.alone(config))


def statuses(folder):
    return [entry['status'] for entry in json.loads((folder / 'run.json').read_text())['starts']]


def test_several_sessions_are_one_start(config, tmp_path):
    files = create(config, tmp_path / 'run')
    with files.ended():
        for _ in range(2):
            run_files.RunFilesHook(files).begin()
        assert statuses(tmp_path / 'run') == ['running']
    assert statuses(tmp_path / 'run') == ['finished']
    assert config_lib.load_pipeline_config(str(tmp_path / 'run' / 'pipeline.config')) == config
    assert (tmp_path / 'run' / 'labels.txt').read_text() == 'point\n'


@pytest.mark.parametrize(
    ('error', 'status'),
    [
        (preemption.Preempted(signal.SIGTERM), 'preempted'),
        (ValueError('any'), 'failed'),
        (KeyboardInterrupt(), 'failed'),
    ],
)
def test_the_end_tells_why(config, tmp_path, error, status):
    files = create(config, tmp_path / 'run')
    with pytest.raises(type(error)), files.ended():
        files.write_start()
        raise error
    assert statuses(tmp_path / 'run') == [status]


def test_a_start_that_trains_nothing_leaves_nothing(config, tmp_path):
    with create(config, tmp_path / 'run').ended():
        pass
    assert not (tmp_path / 'run').exists()


def test_the_error_of_a_run_is_reported_even_if_its_folder_is_gone(config, tmp_path):
    files = create(config, tmp_path / 'run')
    with pytest.raises(ValueError, match='the cause'), files.ended():
        files.write_start()
        (tmp_path / 'run').rename(tmp_path / 'moved')
        (tmp_path / 'run').write_text('a file now')
        raise ValueError('the cause')
