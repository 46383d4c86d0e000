"""From a folder of images to an exported model by one command, which may be interrupted."""

import json

import pytest

from estimator_lib import training
from estimator_lib.commands import step_times
from estimator_lib.config import config_files
from model_fns.cli import front_door
from model_fns.cli.run_options import RunOptions
from tests.model_fns.datasets.recognition import public_layouts

pytestmark = pytest.mark.usefixtures('shallow_networks')


class EndedError(Exception):
    """The end of a process."""


def stop(*arguments, **more):
    raise EndedError


def test_a_run_continues_and_says_that_it_is_finished(tmp_path, monkeypatch, capsys):
    public_layouts.write_class_folders(tmp_path / 'set')
    folder = tmp_path / 'run'
    options = RunOptions(data=str(tmp_path / 'set'), model_dir=str(folder), epochs=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(training, 'train_and_evaluate', stop)
        with pytest.raises(EndedError):
            front_door.run(options)
    said = capsys.readouterr().out
    assert 'no problem found' in said  # it was checked
    text = config_files.read_text(str(folder / 'pipeline.config'))

    front_door.run(options)
    said = capsys.readouterr().out
    (export,) = (folder / 'export' / 'best').glob('*/saved_model.pb')
    assert f'exported model, the best: {export.parent}' in said
    assert (folder / 'analysis' / '1' / 'report.html').exists()
    # The run keeps the reasons.
    assert config_files.read_text(str(folder / 'pipeline.config')) == text
    assert '# 2 epochs of 2 images.' in text

    front_door.run(options)
    said = capsys.readouterr().out
    assert (
        f'the run in {folder} is finished, with all 1 steps' in said and str(export.parent) in said
    )
    starts = json.loads((folder / 'run.json').read_text())['starts']
    assert [start['status'] for start in starts] == ['finished']


def test_a_step_is_timed_in_a_folder_of_its_own(tmp_path):
    public_layouts.write_class_folders(tmp_path / 'set')
    options = RunOptions(
        data=str(tmp_path / 'set'), model_dir=str(tmp_path / 'run'), mode='create_config'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_times, 'SECONDS', 0.2)
        front_door.run(options)
    assert sorted(path.name for path in (tmp_path / 'run').iterdir()) == ['data', 'pipeline.config']
    assert (
        's a step, measured on this machine' in (tmp_path / 'run' / 'pipeline.config').read_text()
    )
