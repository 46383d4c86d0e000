"""The comparison with torchvision and timm: its arguments, both sides' settings, and its table."""

import json
import sys

import pytest

from benchmarks import measuring, recipes
from benchmarks.training import beside_torch
from estimator_lib import config as config_lib
from tests import tiny_data


def test_both_sides_are_measured_in_turns(monkeypatch, tmp_path):
    said = iter([[3.0, 5.0], [6.0, 8.0], [2.0, 4.0], [5.0, 9.0]] * 2)
    asked = []

    def run_apart(module, arguments, python=sys.executable):
        asked.append((module, arguments, python))
        return next(said)

    def write_config(name, folder, batch_size):
        config = config_lib.parse_pipeline_config(
            'model { classification { num_classes: 7 image_height: 64 image_width: 64 '
            'backbone { name: "lenet" } } } train_config { batch_size: 3 }',
            name,
        )
        return config_lib.save_pipeline_config(config, folder)

    monkeypatch.setattr(measuring, 'run_apart', run_apart)
    monkeypatch.setattr(recipes, 'write_config', write_config)
    rows = beside_torch.measure(['resnet_v1_5_50'], 'other/python', turns=2)
    assert [module for module, *_ in asked] == [
        'benchmarks.training.beside_torch',
        'benchmarks.training.torch_side',
    ] * 4
    assert [python == 'other/python' for *_, python in asked] == [False, True] * 4
    assert [arguments[0] for _, arguments, _ in asked[::2]] == [
        '--side=float32',
        '--side=bfloat16',
    ] * 2
    assert json.loads(asked[3][1][0]) == {
        'network': 'torchvision:resnet50',
        'batch_size': 3,
        'size': 64,
        'num_classes': 7,
        'dtype': 'bfloat16',
        'warm_up': 2,
        'runs': 4,
    }
    assert rows == [
        ('resnet_v1_5_50', 3, 'float32', (3.0, 5.0), (6.0, 8.0)),
        ('resnet_v1_5_50', 3, 'bfloat16', (2.0, 4.0), (5.0, 9.0)),
    ]
    assert [' | '.join(beside_torch.format_row(row)) for row in rows] == [
        'resnet_v1_5_50 | 3 | float32 | 3.00 | 6.00 | 0.50 | 5.00 | 8.00 | 0.62',
        'resnet_v1_5_50 | 3 | bfloat16 | 2.00 | 5.00 | 0.40 | 4.00 | 9.00 | 0.44',
    ]


def test_a_detector_gets_the_proposals_of_its_config():
    config = config_lib.parse_pipeline_config(
        'model { faster_rcnn { num_classes: 3 first_stage_max_proposals: 300 '
        'first_stage_minibatch_size: 128 second_stage_batch_size: 64 '
        'image_resizer { fixed_shape_resizer { height: 320 width: 320 } } } } '
        'train_config { batch_size: 2 }',
        'a',
    )
    assert beside_torch.describe(config, 'detection:x') == {
        'network': 'detection:x',
        'batch_size': 2,
        'size': 320,
        'num_classes': 4,
        'proposals': 300,
        'region_batch': 128,
        'box_batch': 64,
    }


@pytest.mark.parametrize(
    ('model', 'size', 'num_classes'),
    [
        (
            'ssd { num_classes: 3 '
            'image_resizer { fixed_shape_resizer { height: 320 width: 320 } } }',
            320,
            4,
        ),
        ('segmentation { num_classes: 21 crop_height: 65 crop_width: 65 }', 65, 21),
    ],
)
def test_each_task_has_its_size_and_classes(model, size, num_classes):
    text = f'model {{ {model} }} train_config {{ batch_size: 2 }}'
    config = config_lib.parse_pipeline_config(text, 'a')
    assert beside_torch.describe(config, 'a:b') == {
        'network': 'a:b',
        'batch_size': 2,
        'size': size,
        'num_classes': num_classes,
    }


def test_every_model_is_a_recipe():
    assert set(beside_torch.DEFAULT_MODELS) <= set(beside_torch.OTHERS) <= set(recipes.RECIPES)


@pytest.mark.parametrize(
    ('flags', 'expected'),
    [
        ([], 'skipped: there is no --torch_python; expected a Python with torch, '),
        (['--torch_python=/no/python'], 'skipped: /no/python cannot be run: No such file'),
        (['--torch_python=false'], 'skipped: false: it fails; expected'),
    ],
)
def test_without_the_other_side_the_command_says_so(flags, expected, capsys, monkeypatch):
    monkeypatch.setattr(measuring, 'quiet', lambda: None)
    beside_torch.main(flags)
    assert capsys.readouterr().out.startswith(expected)


def test_unknown_models_are_refused_by_name(capsys):
    with pytest.raises(SystemExit):
        beside_torch.main(['--models=convnext_tiny,alexnet'])
    assert 'alexnet; expected some of convnext_tiny' in capsys.readouterr().err


def test_our_side_steps_on_one_batch(tmp_path, monkeypatch):
    path = tiny_data.write_all(tmp_path)
    monkeypatch.setattr(beside_torch, '_RUNS', 1)
    clocks = beside_torch.measure_ours(config_lib.load_pipeline_config(str(path)))
    assert clocks.wall > 0 and clocks.cpu > 0
