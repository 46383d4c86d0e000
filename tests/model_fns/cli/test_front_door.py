"""What the front door makes of flags, without training: what is missing, and what it prints."""

import types

import pytest

import run_train_eval
from estimator_lib import environment, errors
from estimator_lib.distribution import gpu_code
from estimator_lib.processes import preemption
from model_fns import extras
from model_fns.cli import builtin_configs, front_door
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2


@pytest.mark.parametrize(
    'given, message',
    [
        ({'mode': 'train'}, '--mode=train needs --model_dir.'),
        ({'mode': 'evaluate'}, '--mode=evaluate needs --model_dir.'),
        ({'mode': 'export'}, '--mode=export needs --model_dir'),
        ({'mode': 'predict'}, '--mode=predict needs --images.'),
        ({'mode': 'predict', 'images': 'a'}, '--mode=predict needs --output_dir.'),
        (
            {'mode': 'predict', 'images': 'a', 'output_dir': 'b'},
            '--mode=predict needs --saved_model_dir',
        ),
        (
            {'mode': 'predict', 'images': 'a', 'output_dir': 'b', 'saved_model_dir': 'c',
             'model_dir': 'd'},
            '--saved_model_dir and --model_dir: expected one of them.',
        ),
        ({'checkpoint_dir': 'a'}, 'needs --model_dir.'),
        ({'run_once': True}, '--run_once has no effect without --checkpoint_dir; expected that'),
        ({'max_eval_retries': -1}, '--max_eval_retries has no effect without --checkpoint_dir'),
        ({'eval_timeout': 7}, '--eval_timeout has no effect without --checkpoint_dir'),
        ({'mode': 'export', 'which': 'best'}, '--which=best chooses among the checkpoints of'),
        (
            {'mode': 'evaluate', 'which': 'best', 'model_dir': 'a', 'checkpoint_path': 'b'},
            'expected that flag, and none of --checkpoint_path, --checkpoint_dir',
        ),
        (
            {'mode': 'evaluate', 'checkpoint_dir': 'a', 'checkpoint_path': 'b'},
            '--checkpoint_dir=a and --checkpoint_path=b: expected one of them.',
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(given, message):
    with pytest.raises(errors.UserError) as caught:
        front_door.run(RunOptions(**given))
    assert message in str(caught.value)


def test_metrics_of_a_file_are_printed_beside_those_of_its_checkpoint(capsys):
    of_checkpoint = {'global_step': 7, 'val': {'accuracy': 0.96875}}
    config = pipeline_pb2.TrainEvalPipelineConfig()
    front_door._print_metrics(config, {'val': {'accuracy': 0.9375, 'recall': 1.0}}, of_checkpoint)
    assert capsys.readouterr().out.splitlines() == [
        'evaluation on val:',
        '  accuracy = 0.9375 (checkpoint: 0.96875)',
        '  recall = 1',
    ]


def test_a_set_without_a_name_is_called_by_its_reader(capsys):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    reader = config.eval_input_reader.add()
    reader.tf_record_input_reader.input_path.append('/data/val-*.tfrecord')
    config.eval_input_reader.add(name='street')
    front_door._print_metrics(config, {'0': {'loss': 1.0}, 'street': {'loss': 2.0}})
    assert capsys.readouterr().out.splitlines()[::2] == [
        'evaluation on eval_input_reader[0] (val-*.tfrecord):',
        'evaluation on street:',
    ]


@pytest.mark.parametrize('mode', ['train_and_evaluate', 'check', 'predict'])
def test_the_configs_of_the_package_are_listed(mode, capsys):
    front_door.run(RunOptions(mode=mode, pipeline_config_path='builtin:'))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(builtin_configs.builtin_configs())
    assert all(line.startswith('builtin:') for line in lines)


@pytest.mark.parametrize(
    'mode', [mode for mode in environment.MODES if mode not in ('predict', 'create_config')]
)
def test_every_mode_has_the_guard_of_training(mode, monkeypatch):
    seen = []

    def note(options):
        seen.append(preemption.owns_process())

    for name in ('_train_and_evaluate', '_evaluate', '_export', '_check'):
        monkeypatch.setattr(front_door, name, note)
    extra = types.SimpleNamespace(run=note)
    monkeypatch.setattr(extras, 'load', lambda module, subject: extra)
    run_train_eval.main(['run_train_eval.py', f'--mode={mode}'])
    assert seen == [True] and not preemption.owns_process()


@pytest.mark.parametrize(('mode', 'warns'), [('train', True), ('evaluate', True), ('check', False)])
def test_gpus_without_code_are_named_in_the_log(mode, warns, monkeypatch, caplog):
    monkeypatch.setattr(gpu_code, 'warnings', lambda: ['no code'])
    for name in ('_train_and_evaluate', '_evaluate', '_check'):
        monkeypatch.setattr(front_door, name, lambda options: {})
    with caplog.at_level('WARNING'):
        front_door.run(RunOptions(mode=mode))
    assert [record.message for record in caplog.records] == ['no code'] * warns


@pytest.fixture
def results_of(monkeypatch):
    """The folders that evaluations are given for their results, as they run."""
    folders = []
    monkeypatch.setattr(front_door.flag_configs, 'load_config', lambda options: None)
    monkeypatch.setattr(front_door, 'build_task', lambda config, mode: None)
    monkeypatch.setattr(front_door.chosen_models, 'chosen_checkpoint', lambda options: 'a-1')
    monkeypatch.setattr(front_door, '_print_metrics', lambda *arguments: None)
    note = lambda *arguments, **others: folders.append(arguments[2]) or {}  # noqa: E731
    monkeypatch.setattr(front_door.training, 'evaluate', note)
    return folders


def test_a_run_that_one_may_only_read_is_noticed_before_the_work(results_of, tmp_path):
    (tmp_path / 'file').write_text('')
    options = RunOptions(mode='evaluate', model_dir=str(tmp_path / 'file' / 'run'))
    expected = r'--model_dir .*/file/run cannot be written to: .*; expected --output_dir=DIR'
    with pytest.raises(errors.UserError, match=expected):
        front_door.run(options)
    assert results_of == []


def test_results_are_written_elsewhere_on_demand(results_of, tmp_path):
    (tmp_path / 'file').write_text('')
    other = str(tmp_path / 'results')
    run = str(tmp_path / 'file' / 'run')
    front_door.run(RunOptions(mode='evaluate', model_dir=run, output_dir=other))
    assert results_of == [other]
