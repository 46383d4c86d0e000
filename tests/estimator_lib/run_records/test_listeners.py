"""Listeners hear of a run, whatever they do."""

import json
import sys
from unittest import mock

import pytest

from estimator_lib import distribution
from estimator_lib.run_records import listeners, results, run_files
from tests import documents
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line
from tests.estimator_lib.run_records.test_training_events import event, write

PACKAGE = """
from estimator_lib.run_records.listeners import Listener
class Heard(Listener):
    calls = []
    def start(self, model_dir, fields):
        self.calls.append(('start', fields['train_config.batch_size']))
    def metrics(self, step, values):
        self.calls.append(('metrics', step, dict(values)))
    def end(self, status):
        self.calls.append(('end', status))
def broken():
    raise RuntimeError('no key')
"""


class Heard(listeners.Listener):
    """A listener that remembers its calls."""

    def __init__(self):
        self.calls = []

    def start(self, model_dir, fields):
        self.calls.append(('start', fields))

    def metrics(self, step, values):
        self.calls.append(('metrics', step, dict(values)))

    def file(self, path):
        self.calls.append(('file', path.rpartition('/')[2]))

    def end(self, status):
        self.calls.append(('end', status))

    def take(self, *kinds):
        """The calls of some kinds since the last time, which are forgotten."""
        taken, self.calls = [each for each in self.calls if each[0] in kinds], []
        return taken


def test_values_of_steps_and_of_evaluations_come_once(tmp_path):
    write(tmp_path, 1, event(1, loss=3.0))
    results.Results(str(tmp_path)).add(str(tmp_path / 'model.ckpt-1'), 1, {'0': {'error': 0.5}})
    heard = Heard()
    run = listeners.Listeners(str(tmp_path), [heard])
    run.start({'train_config.batch_size': 4})
    run.poll()
    assert heard.take('start', 'metrics') == [('start', {'train_config.batch_size': 4})]
    write(tmp_path, 2, event(2, loss=2.0, learning_rate=0.5))
    run.poll()
    run.poll_if_due()  # some seconds are not over
    expected = {'train/loss': 2.0, 'learning_rate': 0.5}
    assert heard.take('metrics') == [('metrics', 2, expected)]
    results.Results(str(tmp_path)).add(str(tmp_path / 'model.ckpt-2'), 2, {'0': {'error': 0.25}})
    run.poll()
    assert heard.take('metrics') == [('metrics', 2, {'eval_0/error': 0.25})]
    (tmp_path / 'results.csv').write_text('no table')
    run.end('finished')
    run.end('finished')
    assert heard.take('metrics', 'end') == [('end', 'finished')]


def test_files_come_when_they_change(tmp_path):
    heard = Heard()
    run = listeners.Listeners(str(tmp_path), [heard])
    (tmp_path / 'pipeline.config').write_text('a')
    (tmp_path / 'model.ckpt-1.index').write_text('a')
    (tmp_path / 'export' / 'best' / '123').mkdir(parents=True)
    run.poll()
    assert sorted(heard.take('file')) == [('file', '123'), ('file', 'pipeline.config')]
    run.poll()
    assert heard.take('file') == []
    (tmp_path / 'pipeline.config').write_text('longer')
    run.poll()
    assert heard.take('file') == [('file', 'pipeline.config')]


def test_an_error_of_one_listener_ends_neither_run_nor_others(tmp_path, caplog):
    class Offline(Heard):
        def metrics(self, step, values):
            raise ConnectionError('no network')

    offline, heard = Offline(), Heard()
    run = listeners.Listeners(str(tmp_path), [offline, heard])
    run.start({})
    write(tmp_path, 1, event(1, loss=3.0), event(2, loss=2.0))
    run.end('failed')
    assert [call[0] for call in offline.calls] == ['start']
    assert len(heard.take('metrics')) == 2
    assert [each for each in caplog.messages if 'no network' in each] == [
        f'listener {__name__}.Offline: ConnectionError: no network; it is left out'
    ]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with a listener, and another entry point that fails."""
    info = tmp_path / 'installed' / 'heard_listener-1.0.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: heard-listener\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(
        f'[{listeners.GROUP}]\nheard = heard_listener:Heard\nbad = heard_listener:broken\n'
    )
    (info.parent / 'heard_listener.py').write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(info.parent))
    yield lambda: sys.modules['heard_listener'].Heard.calls
    sys.modules.pop('heard_listener', None)


def test_an_installed_listener_hears_of_a_run(installed, tmp_path, caplog):
    config = line_task.create_config(tmp_path)
    folder = tmp_path / 'run'
    files = run_files.RunFiles(Line(), config, str(folder), {}, distribution.alone(config))
    with files.ended():
        hook = run_files.RunFilesHook(files)
        hook.begin()
        hook.begin()
        write(folder, 1, event(1, loss=3.0))
        hook.after_run(None, None)
    assert installed() == [
        ('start', config.train_config.batch_size),
        ('metrics', 1, {'train/loss': 3.0}),
        ('end', 'finished'),
    ]
    assert 'listener heard_listener:broken: RuntimeError: no key; it is left out' in caplog.text
    assert json.loads((folder / 'run.json').read_text())['starts'][0]['status'] == 'finished'


@pytest.mark.parametrize(
    ('name', 'module'), [('MlflowListener', 'mlflow'), ('WandbListener', 'wandb')]
)
def test_the_listeners_of_the_page(name, module, tmp_path, monkeypatch, caplog):
    package = mock.MagicMock()
    monkeypatch.setitem(sys.modules, module, package)
    (block,) = (each for each in documents.blocks('py') if f'class {name}' in each.text)
    names = {}
    exec(block.text, names)
    (tmp_path / 'export' / 'best' / '123').mkdir(parents=True)
    (tmp_path / 'pipeline.config').write_text('a')
    run = listeners.Listeners(str(tmp_path), [names[name]()])
    run.start({'train_config.batch_size': 4})
    line = {'DetectionBoxes_Precision/mAP@.50IOU': 0.5}
    results.Results(str(tmp_path)).add(str(tmp_path / 'model.ckpt-7'), 7, {'0': line})
    run.end('preempted')
    assert not caplog.text
    if module == 'mlflow':
        package.log_metrics.assert_called_once_with(
            {'eval_0/DetectionBoxes_Precision/mAP_.50IOU': 0.5}, step=7
        )
        package.log_params.assert_called_once_with({'train_config.batch_size': 4})
        export = str(tmp_path / 'export' / 'best' / '123')
        package.log_artifacts.assert_called_once_with(export, artifact_path='export/123')
        package.end_run.assert_called_once_with('KILLED')
    else:
        package.init.return_value.log.assert_called_once_with(
            {'eval_0/DetectionBoxes_Precision/mAP@.50IOU': 0.5, 'global_step': 7}
        )
        package.init.return_value.finish.assert_called_once_with(exit_code=1)
