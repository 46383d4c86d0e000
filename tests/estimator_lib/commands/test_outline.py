"""The first and the last lines of a run."""

import json

import pytest
from google.protobuf import text_format

from estimator_lib.commands import outline
from estimator_lib.export import artifacts
from protos import train_pb2

RATES = [
    ('constant_learning_rate { learning_rate: 0.25 }', 8, '0.25 -> 0.25 over 8 steps'),
    (
        # By hand: 1 + 3 * step / 4 up to step 4, and half a cosine from there to step 12.
        'cosine_decay_learning_rate { warmup_learning_rate: 1 learning_rate_base: 4 '
        'warmup_steps: 4 total_steps: 12 }',
        9,
        '1 -> 4 (step 4) -> 2 over 9 steps',
    ),
    # A peak between two of the steps that are looked at in a long run.
    (
        'cosine_decay_learning_rate { warmup_learning_rate: 1 learning_rate_base: 4 '
        'warmup_steps: 12345 }',
        1_000_000,
        '1 -> 4 (step 12345) -> 1.011e-11 over 1000000 steps',
    ),
    (
        'polynomial_decay_learning_rate { initial_learning_rate: 8 end_learning_rate: 0 }',
        4,
        '8 -> 2 over 4 steps',
    ),
    ('constant_learning_rate { learning_rate: 0.5 }', 0, '0.5 at the first step'),
]


@pytest.mark.parametrize(('schedule', 'num_steps', 'expected'), RATES)
def test_the_learning_rates_of_the_run_are_told(schedule, num_steps, expected):
    config = train_pb2.TrainConfig(num_steps=num_steps)
    text_format.Parse(schedule, config.optimizer.sgd_optimizer.learning_rate)
    # The last rate of a long cosine is a difference of almost equal numbers.
    told = outline.describe_rates(config)
    assert told.split(' -> ')[:2] == expected.split(' -> ')[:2]
    assert num_steps > 1000 or told == expected


def write_export(folder, step):
    """Write the files of an export that the outline reads; return its path."""
    (folder / 'assets.extra').mkdir(parents=True)
    (folder / 'saved_model.pb').write_text('')
    (folder / artifacts.ASSETS / artifacts.ORIGIN_FILE).write_text(
        json.dumps({'global_step': step})
    )
    return folder


def write_list(folder, step):
    """Write the list of a folder of checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{step}"')
    (folder / f'model.ckpt-{step}.index').write_text('')


@pytest.fixture
def model_dir(tmp_path):
    """Write a run of 150 steps whose best evaluation was at step 40."""
    write_list(tmp_path, 150)
    write_list(tmp_path / 'best', 40)
    write_export(tmp_path / 'export' / 'best' / '1001', 40)
    write_export(tmp_path / 'export' / 'final' / '1002', 150)
    state = {'metric': 'mAP', 'higher_is_better': True, 'value': 0.197, 'step': 40, 'path': '1001'}
    (tmp_path / 'export' / 'best' / 'best.json').write_text(json.dumps(state))
    return tmp_path


def test_the_best_model_is_named_and_recommended(model_dir):
    exports = model_dir / 'export'
    assert outline.last_lines(str(model_dir), {'mAP': 0.127, 'loss': 3})[2:] == [
        f'exported model, the best: {exports}/best/1001 (step 40, mAP 0.197)',
        f'exported model, the last: {exports}/final/1002 (step 150, mAP 0.127)',
        f'next: run-train-eval --mode=predict --saved_model_dir={exports}/best/1001 '
        '--images="*.jpg" --output_dir=predictions',
    ]


def test_the_analysis_of_the_last_step_is_named(model_dir):
    for step in (40, 150):
        folder = model_dir / 'analysis' / str(step)
        folder.mkdir(parents=True)
        (folder / 'report.html').write_text('')
    expected = f'analysis of the last evaluation: {model_dir}/analysis/150/report.html'
    assert outline.last_lines(str(model_dir), {})[2] == expected


def test_without_a_best_model_the_last_one_is_recommended(model_dir):
    (model_dir / 'best' / 'checkpoint').unlink()
    last = f'{model_dir}/export/final/1002'
    lines = outline.last_lines(str(model_dir), {})[2:]
    assert lines[0] == f'exported model, the last: {last} (step 150)'
    assert f'--saved_model_dir={last} ' in lines[1]


def test_the_last_model_may_be_the_best(model_dir):
    write_list(model_dir, 40)
    lines = outline.last_lines(str(model_dir), {'mAP': 0.197})[2:]
    assert [line.partition(':')[0] for line in lines] == ['exported model, the best', 'next']


def test_a_run_without_exports_recommends_none(tmp_path):
    write_list(tmp_path, 3)
    assert len(outline.last_lines(str(tmp_path), {'mAP': 0.1})) == 2
