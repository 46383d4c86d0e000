"""What the modes of the extras make of flags, without their work."""

import types

import pytest

from estimator_lib import errors
from model_fns.cli import chosen_models, flag_configs, front_door
from model_fns.cli.run_options import RunOptions
from vision_extras.benchmark import mode as benchmark_mode
from vision_extras.replay import mode as replay_mode

RESULTS = {'benchmark': {}, 'replay': {'step': 3}}


@pytest.mark.parametrize(
    'given, message',
    [
        ({'mode': 'benchmark'}, '--mode=benchmark needs --model_dir.'),
        ({'mode': 'replay'}, '--mode=replay needs --model_dir.'),
        ({'mode': 'replay', 'model_dir': 'a'}, '--mode=replay needs --step.'),
        (
            {'mode': 'replay', 'model_dir': 'a', 'find_spike': True, 'step': 3},
            '--find_spike chooses the steps; leave out --step.',
        ),
        (
            {'mode': 'replay', 'model_dir': 'a', 'step': 3, 'until': 4},
            '--until=4 has no effect without --without; expected that flag too.',
        ),
        (
            {'mode': 'compare', 'model_dirs': ('a',)},
            '--mode=compare needs --model_dir of two or more different runs',
        ),
    ],
)
def test_what_is_missing_is_said(given, message):
    with pytest.raises(errors.UserError) as caught:
        front_door.run(RunOptions(**given))
    assert message in str(caught.value)


@pytest.fixture
def results_of(monkeypatch):
    """The folders that the modes of `RESULTS` are given for their results, as they run."""
    folders = []
    monkeypatch.setattr(flag_configs, 'load_config', lambda options: None)
    monkeypatch.setattr(chosen_models, 'chosen_checkpoint', lambda options: 'a-1')
    for module in (benchmark_mode, replay_mode):
        monkeypatch.setattr(module, 'build_task', lambda config, mode: None)
    monkeypatch.setattr(replay_mode.replay, 'replay', lambda run, step: [])
    for module, name, place in (
        (benchmark_mode.benchmark, 'benchmark', 3),
        (replay_mode.past_run, 'read', 4),
    ):
        note = lambda *arguments, place=place: folders.append(arguments[place]) or []  # noqa: E731
        monkeypatch.setattr(module, name, note)
    return folders


@pytest.mark.parametrize('mode', RESULTS)
def test_a_run_that_one_may_only_read_is_noticed_before_the_work(mode, results_of, tmp_path):
    (tmp_path / 'file').write_text('')
    options = RunOptions(mode=mode, model_dir=str(tmp_path / 'file' / 'run'), **RESULTS[mode])
    expected = r'--model_dir .*/file/run cannot be written to: .*; expected --output_dir=DIR'
    with pytest.raises(errors.UserError, match=expected):
        front_door.run(options)
    assert results_of == []


@pytest.mark.parametrize('mode', RESULTS)
def test_results_are_written_elsewhere_on_demand(mode, results_of, tmp_path):
    (tmp_path / 'file').write_text('')
    other = str(tmp_path / 'results')
    run = str(tmp_path / 'file' / 'run')
    front_door.run(RunOptions(mode=mode, model_dir=run, output_dir=other, **RESULTS[mode]))
    assert results_of == [other]


def test_a_runner_predicts_no_videos(tmp_path, monkeypatch):
    pytest.importorskip('apache_beam', reason='the extra [beam] is not installed')
    (tmp_path / 'clip.mp4').write_bytes(b'a video')
    predictor, source = (types.SimpleNamespace(metrics=None, config=None) for _ in range(2))
    monkeypatch.setattr(chosen_models, 'chosen_model', lambda options: (predictor, None, source))
    options = RunOptions(
        mode='predict',
        images=str(tmp_path / 'clip.mp4'),
        output_dir=str(tmp_path / 'out'),
        runner='DirectRunner',
    )
    with pytest.raises(errors.UserError, match='--runner=.*: videos are predicted without one'):
        front_door.run(options)
