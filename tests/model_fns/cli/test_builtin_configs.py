"""Configs of the package, by name."""

import pathlib
import re

import pytest

from estimator_lib import errors
from estimator_lib.config import load_pipeline_config, schedule_checks
from model_fns.cli import builtin_configs

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIGS = sorted((ROOT / 'configs').glob('*.config'))
TORCHVISION = [path for path in CONFIGS if path.stem.startswith('torchvision_')]
TRAINED = [path for path in CONFIGS if path not in TORCHVISION]


def test_each_config_has_a_name():
    assert list(builtin_configs.builtin_configs()) == [path.stem for path in CONFIGS]
    assert 'bccd_ssd' in builtin_configs.builtin_configs()


def test_a_name_is_a_file():
    path = builtin_configs.resolve('builtin:bccd_ssd')
    assert pathlib.Path(path).read_text() == (ROOT / 'configs' / 'bccd_ssd.config').read_text()
    assert builtin_configs.resolve('builtin:bccd_ssd.config') == path


def test_other_paths_stay():
    assert builtin_configs.resolve('a/builtin.config') == 'a/builtin.config'


def test_an_unknown_name_gets_the_nearest_and_all():
    with pytest.raises(errors.ConfigError) as caught:
        builtin_configs.resolve('builtin:bcd_ssd')
    said = str(caught.value).splitlines()
    assert said[0].startswith(
        "builtin:bcd_ssd: the package has no config 'bcd_ssd'; did you mean 'bccd_ssd'? There are,"
    )
    assert [line.split()[0] for line in said[1:]] == [f'builtin:{path.stem}' for path in CONFIGS]


def test_all_are_listed_with_what_they_are():
    lines = builtin_configs.list_lines()
    assert len(lines) == len(CONFIGS)
    assert (
        'builtin:bccd_ssd  Blood cells (red, white, platelets), found by a narrow MobileNet with '
        'a feature pyramid, trained from scratch.'
    ) in lines


def test_a_package_without_configs_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(builtin_configs, '_FOLDER', tmp_path)
    with pytest.raises(errors.ConfigError, match='install it again'):
        builtin_configs.resolve('builtin:bccd_ssd')


@pytest.mark.parametrize('path', TORCHVISION, ids=lambda path: path.stem)
def test_the_first_lines_say_which_weights_to_start_from(path):
    head = re.match(r'(#.*\n)+', path.read_text()).group()
    assert re.search(r'--data=.*--model_dir=.*\n.*--weights=\w+_coco-[0-9a-f]{8}\.pth', head)


@pytest.mark.parametrize('path', TRAINED, ids=lambda path: path.stem)
def test_the_first_lines_say_what_to_run_where_and_what_comes_of_it(path):
    head = re.match(r'(#.*\n)+', path.read_text()).group()
    assert f'--pipeline_config_path=configs/{path.name}' in head
    assert 'python -m model_fns.datasets.' in head
    results = head.rpartition('#\n')[2]
    assert re.match(r'# 2 (idle )?CPU cores, [\d.]+ minutes', results)
    assert re.search(r'0\.\d+ mAP|0\.\d+ mIoU|IoU of nuclei 0\.\d+|[\d.]+ % of the', results)


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_the_schedule_is_as_long_as_the_run(path):
    """A copy for a shorter run needs no other change."""
    config = load_pipeline_config(str(path), settings=['train_config.num_steps=150'])
    assert list(schedule_checks.find_warnings(config.train_config)) == []
