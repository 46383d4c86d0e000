"""Options of `--mode=predict` that are refused before a model is loaded."""

import math

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling
from estimator_lib.evaluation import tiles
from model_fns.cli import prediction
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task


@pytest.mark.parametrize(
    'given, overlap',
    [
        ({'tile': 1024}, 200),
        ({'tile': 256}, 64),
        ({'tile': 201}, 50),
        ({'tile': 200}, 50),
        ({'tile': 64, 'overlap': 9}, 9),
        ({'tile': 256, 'overlap': 200}, 200),
    ],
)
def test_small_tiles_overlap_less(given, overlap):
    tiling = prediction.read_tiling(RunOptions(mode='predict', **given))
    assert tiling == Tiling(given['tile'], overlap)


@pytest.mark.parametrize(
    'given, message',
    [
        ({'output_dir': ''}, '--mode=predict needs --output_dir.'),
        ({'raw': True, 'output_format': 'csv'}, '--raw: csv has no place for it; expected json.'),
        ({'score_threshold': math.nan}, '--score_threshold is nan; expected a number from 0.'),
        (
            {'runner_options': '--a=b'},
            '--runner_options=--a=b: they are flags of a runner; expected',
        ),
        ({'whole_image': True}, '--whole_image has no effect without --tile.'),
        ({'overlap': 20}, '--overlap has no effect without --tile.'),
        ({'tile': 200, 'overlap': 200}, '--overlap is 200; expected less than --tile, 200.'),
        ({'tile': 200, 'overlap': 210}, '--overlap is 210; expected less than --tile, 200.'),
    ],
)
def test_refuses_before_the_model_is_loaded(given, message):
    options = {'mode': 'predict', 'images': 'a', 'output_dir': 'b', 'saved_model_dir': 'no'}
    with pytest.raises(errors.UserError) as caught:
        prediction.predict_files(RunOptions(**{**options, **given}))
    assert str(caught.value).startswith(message)


def test_classes_by_name():
    class Named(tiny_task.Presented):
        class_names = ('cat', 'dog', 'cow')

    assert prediction._class_indices((), None) is None
    assert prediction._class_indices(('cow', 'cat'), Named()) == (0, 2)
    with pytest.raises(errors.UserError, match="--only_class=dgo: no class.*did you mean 'dog'"):
        prediction._class_indices(('dgo',), Named())
    with pytest.raises(errors.UserError, match='--only_class=cat: the model has no names of'):
        prediction._class_indices(('cat',), None)


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        ({}, Tiling(1024, 100, True)),
        ({'tile': 512}, Tiling(512, 128)),
        ({'tile': 512, 'overlap': 9, 'whole_image': True}, Tiling(512, 9, True)),
        ({'tile': 512, 'set': ('eval_config.tiles.whole_image=true',)}, Tiling(512, 128)),
        ({'set': ('eval_config.tiles.whole_image=false',)}, Tiling(1024, 100)),
    ],
)
def test_tiles_of_an_evaluation_by_flag_and_by_field(given, expected):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    own = config.eval_config.tiles
    own.size, own.overlap, own.whole_image = 1024, 100, True
    options = prediction.with_tiles(RunOptions(mode='evaluate', **given))
    config = config_lib.apply_settings(config, options.set)
    assert tiles.from_config(config.eval_config) == expected
    if 'tile' in given:  # the flags set every field that there is
        paths = {setting.partition('=')[0] for setting in options.set}
        assert paths == {f'{tiles.FIELD}.{field.name}' for field in own.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ('fields', 'flags'),
    [
        ({'size': 1024, 'overlap': 9, 'whole_image': True}, '--overlap=9 --whole_image predicts'),
        ({'size': 1024, 'overlap': 9}, '--overlap=9 predicts'),
        ({'size': 1024}, '--overlap=200 predicts'),
    ],
)
def test_warning_has_all_flags_of_the_tiles(caplog, fields, flags):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    for name, value in fields.items():
        setattr(config.eval_config.tiles, name, value)
    prediction._warn_of_tiles(config)
    assert f'evaluated by tiles: --tile=1024 {flags} as' in caplog.text
    caplog.clear()
    prediction._warn_of_tiles(pipeline_pb2.TrainEvalPipelineConfig())
    assert not caplog.text
