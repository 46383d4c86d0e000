"""The models that benchmarks measure side by side."""

import argparse
import os

import pytest

from benchmarks import pipelines, recipes, scenes
from benchmarks.training import phases


def test_unknown_models_are_refused_by_name(capsys):
    parser = argparse.ArgumentParser()
    recipes.add_arguments(parser, ['mobilenet_v2'])
    assert parser.parse_args([]).models == ['mobilenet_v2']
    chosen = parser.parse_args(['--models=resnet_v1_50,mobilenet_v2']).models
    assert chosen == ['resnet_v1_50', 'mobilenet_v2']
    with pytest.raises(SystemExit):
        parser.parse_args(['--models=mobilenet_v2,alexnet'])
    assert 'alexnet; expected some of ssd_mobilenet_v1' in capsys.readouterr().err


def test_what_is_measured_by_default_is_there():
    assert set(phases.DEFAULT_MODELS) <= set(recipes.RECIPES)


def test_a_classifier_reads_what_is_drawn_for_it(tmp_path):
    from estimator_lib import config as config_lib
    from estimator_lib.data import records

    path = recipes.write_config('mobilenet_v2', str(tmp_path), batch_size=4)
    config = config_lib.load_pipeline_config(path)
    assert config.train_config.batch_size == 4
    files = records.find_files(config.train_input_reader.tf_record_input_reader.input_path, 'x')
    assert records.count_records(files) == 64


@pytest.mark.parametrize('name', sorted(recipes.RECIPES))
def test_each_is_a_model_that_there_is(name, tmp_path, monkeypatch):
    from estimator_lib import config as config_lib
    from model_fns import build_task

    if not os.path.exists(pipelines.PUBLISHED):
        pytest.skip('the published configs are not there')
    # Records are another matter.
    paths = {'records': 'scenes.tfrecord', 'label_map': ''}
    monkeypatch.setattr(scenes, 'write_records', lambda folder, count: paths)
    monkeypatch.setattr(recipes, '_write_classified', lambda path: None)
    monkeypatch.setattr(recipes, '_write_segmented', lambda path: None)
    path = recipes.write_config(name, str(tmp_path))
    assert build_task(config_lib.load_pipeline_config(path))
