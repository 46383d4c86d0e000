"""Options of `--mode=predict` that are refused before a model is loaded."""

import math

import pytest

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling
from model_fns.cli import prediction
from model_fns.cli.run_options import RunOptions


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
    class Named:
        def class_names(self):
            return ['cat', 'dog', 'cow']

    assert prediction._class_indices((), None) is None
    assert prediction._class_indices(('cow', 'cat'), Named()) == (0, 2)
    with pytest.raises(errors.UserError, match="--only_class=dgo: no class.*did you mean 'dog'"):
        prediction._class_indices(('dgo',), Named())
    with pytest.raises(errors.UserError, match='--only_class=cat: the model has no names of'):
        prediction._class_indices(('cat',), None)
