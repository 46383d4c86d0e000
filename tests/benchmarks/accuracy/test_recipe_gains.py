"""The table of what recipes gain, from given scores; nothing is trained."""

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
