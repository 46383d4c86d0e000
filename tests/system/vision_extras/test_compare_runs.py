"""Runs compared through the front door."""

import json
import re
import shutil

import pytest

from estimator_lib import config as config_lib
from model_fns import build_task
from tests import tiny_data, tiny_deployed, tiny_detection
from tests.test_run_train_eval import NO_PICTURES, front_door

pytest.importorskip('matplotlib')

pytestmark = pytest.mark.usefixtures('shallow_networks')


def write_run(folder, config, lively):
    """Write a run whose checkpoint was evaluated and analyzed."""
    folder.mkdir()
    shutil.copy(config, folder / 'pipeline.config')
    task = build_task(config_lib.load_pipeline_config(str(config)))
    tiny_deployed.save(task, folder / 'model.ckpt-0', lively=lively)
    flags = [f'--model_dir={folder}', f'--checkpoint_path={folder}/model.ckpt-0', NO_PICTURES]
    assert front_door('--mode=evaluate', '--analyze', *flags) == 0


@pytest.fixture(scope='module', params=[tiny_data, tiny_detection], ids=['classes', 'boxes'])
def runs(request, tmp_path_factory):
    """Two runs of one config with other weights."""
    folder = tmp_path_factory.mktemp('runs')
    config = request.param.write_all(folder)
    for name, lively in (('a', True), ('b', False)):
        write_run(folder / name, config, lively)
    return folder


def compare(*folders):
    flags = [f'--model_dir={folder}' for folder in folders]
    return front_door('--mode=compare', *flags)


def test_the_metrics_of_two_runs_and_their_intervals(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = sorted(runs.rglob('*'))
    assert compare(runs / 'a', runs / 'b') == 0
    said = capsys.readouterr().out
    metrics = [
        next(each for each in json.loads((runs / name / 'metrics.json').read_text()).values()
             if isinstance(each, dict))
        for name in 'ab'
    ]  # fmt: skip
    name, first, second, interval = re.search(
        r'^  (\S+): (\S+), (\S+) \(\S+, 95 % (.* to .*)\)$', said, re.MULTILINE
    ).groups()
    assert name in metrics[0] and interval
    assert float(first) == pytest.approx(metrics[0][name], rel=1e-3, abs=1e-9)
    assert float(second) == pytest.approx(metrics[1][name], rel=1e-3, abs=1e-9)
    page = (tmp_path / 'compare.html').read_text()
    assert '<h2>Metrics</h2>' in page and '<h2>Classes</h2>' in page
    assert 'The configs are equal.' in page
    assert sorted(runs.rglob('*')) == before


@pytest.mark.parametrize(
    ('flags', 'said'),
    [
        (
            [],
            '--mode=compare needs --model_dir of two or more different runs, or of one with '
            'several --seeds; got none.',
        ),
        (['--model_dir=a'], 'two or more different runs, or of one with several --seeds; got a.'),
        (
            ['--model_dir=a', '--model_dir=a'],
            'two or more different runs, or of one with several --seeds; got a, a.',
        ),
        (
            ['--model_dir=a', '--model_dir=./a/'],
            'two or more different runs, or of one with several --seeds; got a, ./a/.',
        ),
        (
            ['--model_dir=a', '--model_dir=b', '--set=train_config.batch_size=3'],
            '--set is not read by --mode=compare; leave it out.',
        ),
        (['--model_dir=none', '--model_dir=b'], 'there is no pipeline.config in none'),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(flags, said, capsys):
    assert front_door('--mode=compare', *flags) == 2
    text = capsys.readouterr().err
    assert said in text and 'Traceback' not in text


def test_a_run_without_evaluations_and_other_classes_are_named(runs, tmp_path, capsys):
    (tmp_path / 'new').mkdir()
    shutil.copy(runs / 'a' / 'pipeline.config', tmp_path / 'new')
    assert compare(runs / 'a', tmp_path / 'new') == 2
    assert f'{tmp_path}/new has no evaluation; expected' in capsys.readouterr().err
    shutil.copytree(runs / 'b', tmp_path / 'other')
    config = (tmp_path / 'other' / 'pipeline.config').read_text()
    (tmp_path / 'map.pbtxt').write_text(
        (runs / 'label_map.pbtxt').read_text().replace('blue', 'azure')
    )
    changed = config.replace(f'{runs}/label_map.pbtxt', str(tmp_path / 'map.pbtxt'))
    (tmp_path / 'other' / 'pipeline.config').write_text(changed)
    assert compare(runs / 'a', tmp_path / 'other') == 2
    assert 'azure; expected runs with the same classes' in capsys.readouterr().err
