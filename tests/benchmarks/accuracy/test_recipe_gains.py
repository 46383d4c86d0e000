"""The table of what recipes gain, from given scores; nothing is trained."""

import os
import pathlib

import pytest
from google.protobuf import text_format

from benchmarks.accuracy import recipe_gains
from protos import pipeline_pb2


def test_gains_are_differences_of_means():
    scores = {
        recipe_gains.BASELINE: [
            recipe_gains.Score((0.80, 0.40), 4.0),
            recipe_gains.Score((0.82, 0.44), 6.0),
        ],
        'other': [recipe_gains.Score((0.85, 0.38), 7.0), recipe_gains.Score((0.83, 0.40), 8.0)],
    }
    table = recipe_gains.format_table('cells', ('mAP@.50', 'mAP'), scores).splitlines()
    assert table == [
        '| cells | mAP@.50 | gain | mAP | gain | processor minutes |',
        '| --- | ---: | ---: | ---: | ---: | ---: |',
        f'| {recipe_gains.BASELINE} | 0.800, 0.820 |  | 0.400, 0.440 |  | 5.0 |',
        '| other | 0.850, 0.830 | +0.030 | 0.380, 0.400 | -0.030 | 7.5 |',
    ]


def test_scores_are_those_of_the_last_evaluation(tmp_path):
    path = tmp_path / 'results.csv'
    path.write_text(
        'step,train/loss,eval_0/accuracy,eval_0/loss\n10,2.0,0.5,1.5\n20,1.0,0.75,1.25\n30,0.5,,\n'
    )
    assert recipe_gains.read_scores(str(path), ['accuracy', 'loss']) == [0.75, 1.25]


@pytest.mark.parametrize('name', sorted(recipe_gains.SETS))
def test_each_recipe_changes_a_config(name):
    for recipe, fragment in recipe_gains.SETS[name].recipes.items():
        config = text_format.Parse(fragment, pipeline_pb2.TrainEvalPipelineConfig())
        assert bool(config.ListFields()) == (recipe != recipe_gains.BASELINE)


def test_without_images_it_ends_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe_gains.measuring, 'ROOT', str(tmp_path / 'checkout'))
    with pytest.raises(SystemExit, match='shared/data is not there'):
        recipe_gains.main([f'--work={tmp_path}'])


def test_an_unknown_set_is_refused_by_name(tmp_path, capsys):
    with pytest.raises(SystemExit):
        recipe_gains.main([f'--work={tmp_path}', '--sets=sings'])
    assert '--sets: sings; expected some of bccd, signs, nuclei' in capsys.readouterr().err


def test_a_campaign_in_a_relative_folder_beside_one_with_a_space(tmp_path, monkeypatch):
    images = tmp_path / 'a b' / 'shared' / 'data'
    images.mkdir(parents=True)
    root = tmp_path / 'a b' / 'checkout'
    root.symlink_to(recipe_gains.measuring.ROOT)
    monkeypatch.setattr(recipe_gains.measuring, 'ROOT', str(root))
    monkeypatch.chdir(tmp_path)
    started = []

    def run(command, cwd, **_):
        flags = dict(word.partition('=')[::2] for word in command if word.startswith('--'))
        started.append(flags)
        if '--model_dir' in flags:
            assert pathlib.Path(cwd, flags['--pipeline_config_path']).is_file()
            path = pathlib.Path(cwd, flags['--model_dir'], 'results.csv')
            path.write_text('step,eval_0/accuracy\n5,0.5\n')

    monkeypatch.setattr(recipe_gains.subprocess, 'run', run)
    flags = ['--work=campaign', '--sets=signs', '--recipes=erasing', '--seeds=3']
    assert recipe_gains.main(flags) == 0
    assert [flags.get('--images') for flags in started] == [
        f'{images}/sign_digits/train',
        f'{images}/sign_digits/test',
        None,
        None,
    ]
    assert len(os.listdir(tmp_path / 'campaign' / 'runs')) == 6  # folder, config and log of two
