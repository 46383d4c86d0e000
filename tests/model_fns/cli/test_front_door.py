"""What the front door makes of flags, without training: what is missing, and what it prints."""

import types

import pytest

import run_train_eval
from estimator_lib import environment, errors
from estimator_lib.distribution import gpu_code
from estimator_lib.processes import preemption
from estimator_lib.task_interfaces.deployable import DeploymentOptions
from model_fns import extras
from model_fns.cli import builtin_configs, front_door
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2
from tests.estimator_lib.line_task import Line


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
        (
            {'checkpoint_dir': 'a', 'model_dir': 'b', 'seeds': 2},
            '--checkpoint_dir=a evaluates the checkpoints of one run, and --seeds=2 trains several',
        ),
        (
            {'mode': 'evaluate', 'model_dir': 'a', 'label_map': 'b'},
            '--label_map=b names the classes of a --model_file without a config',
        ),
        (
            {'mode': 'evaluate', 'model_dir': 'a', 'label_map': 'PATH_TO_BE_CONFIGURED/a'},
            '--label_map',
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


@pytest.mark.parametrize('has_data', [False, True])
def test_seeds_train_one_run_after_the_other(has_data, tmp_path, monkeypatch, capsys):
    calls = []
    data = {'data': 'a', 'minutes': 1.0} if has_data else {}
    options = RunOptions(model_dir=str(tmp_path), seeds=2, **data)

    def prepare(options):
        (tmp_path / 'pipeline.config').write_text('')
        calls.append('prepare')

    def train_and_evaluate(task, config, folder, **others):
        calls.append((folder, config.train_config.random_seed))
        return {}

    def load_config(options):
        assert not options.data and bool(options.pipeline_config_path) == has_data
        config = pipeline_pb2.TrainEvalPipelineConfig()
        config.train_config.random_seed = int(options.set[0].rpartition('=')[2])
        return config

    monkeypatch.setattr(front_door.data_command, 'prepare', prepare)
    monkeypatch.setattr(
        front_door.data_command, 'check_config', lambda options: calls.append(options.model_dir)
    )
    monkeypatch.setattr(front_door.flag_configs, 'load_config', load_config)
    for name in ('build_task', '_network', '_print_end'):
        monkeypatch.setattr(front_door, name, lambda *arguments: None)
    monkeypatch.setattr(front_door.outline, 'first_lines', lambda *arguments: [])
    monkeypatch.setattr(front_door.shared_images, 'find_warnings', lambda config: [])
    monkeypatch.setattr(front_door.advice, 'find_advice', lambda *arguments: [])
    monkeypatch.setattr(front_door.training, 'train_and_evaluate', train_and_evaluate)
    front_door.run(options)
    folders = [str(tmp_path / f'seed-{seed}') for seed in (1, 2)]
    assert calls[-2:] == list(zip(folders, (1, 2)))
    assert calls[:-2] == (['prepare', str(tmp_path)] if has_data else [])
    assert f'--mode=compare --model_dir={tmp_path}' in capsys.readouterr().out
    # The check is for a run that has not begun.
    (tmp_path / 'seed-1').mkdir()
    (tmp_path / 'seed-1' / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-3"')
    (tmp_path / 'seed-1' / 'model.ckpt-3.index').write_text('')
    del calls[:]
    front_door.run(options)
    assert calls[:-2] == (['prepare'] if has_data else [])


def test_an_export_has_its_options_and_measures_the_file_beside_its_checkpoint(
    results_of, tmp_path, monkeypatch, capsys
):
    def export(task, config, checkpoint, folder, writer, measure):
        del task, config, folder
        assert (writer.keep_float, writer.max_loss) == (('a', 'b'), 0.0)
        assert writer.deployment == DeploymentOptions(confidence_masks=True)
        return f'{checkpoint} {measure("model.tflite")}'

    del results_of
    monkeypatch.setattr(front_door.exporting, 'export', export)
    monkeypatch.setattr(front_door.training, 'measure_file', lambda *arguments: arguments[2:])
    options = RunOptions(
        mode='export',
        model_dir=str(tmp_path),
        export_dir=str(tmp_path),
        format='tflite',
        quantize='int8',
        keep_float=('a', 'b'),
        max_loss=0.0,
        confidence_masks=True,
    )
    front_door.run(options)
    assert capsys.readouterr().out == "a-1 ('a-1', 'model.tflite')\n"


@pytest.mark.parametrize('count, training', [(1, False), (2, False), (1, True)])
def test_coco_files_are_those_of_one_set(results_of, tmp_path, monkeypatch, count, training):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    for _ in range(count):
        config.eval_input_reader.add()
    monkeypatch.setattr(front_door.flag_configs, 'load_config', lambda options: config)
    options = RunOptions(
        mode='evaluate', model_dir=str(tmp_path), coco_files=True, eval_training_data=training
    )
    if count + training == 1:
        front_door.run(options)
        assert config.eval_config.coco_files == str(tmp_path / 'coco_files')
        return
    with pytest.raises(errors.UserError, match='--coco_files: there are 2 evaluation sets, of wh'):
        front_door.run(options)
    assert results_of == []


def test_coco_files_need_a_folder(tmp_path, monkeypatch):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    load = lambda *arguments: config  # noqa: E731
    monkeypatch.setattr(front_door.chosen_models, 'load_file_config', load)
    options = RunOptions(mode='evaluate', model_file='a.onnx', coco_files=True)
    with pytest.raises(errors.UserError) as caught:
        front_door.run(options)
    expected = '--coco_files: there is no folder for them; expected --output_dir.'
    assert str(caught.value) == expected


def test_an_analysis_that_the_task_does_not_have_is_named(monkeypatch, caplog):
    monkeypatch.setattr(front_door, 'build_task', lambda config, mode: Line())
    for analyze in (False, True):
        options = RunOptions(mode='evaluate', model_dir='run', analyze=analyze)
        front_door._evaluated_task(options, pipeline_pb2.TrainEvalPipelineConfig())
        said = '--analyze: the task line has no analysis; only metrics follow.'
        assert (said in caplog.messages) == analyze
