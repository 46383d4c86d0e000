"""Configs are written with their reasons, and read as the same configs."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns.cli import builtin_configs
from model_fns.recipes import writing
from model_fns.recipes.writing import Decision, Recipe


@pytest.mark.parametrize('name', builtin_configs.builtin_configs())
def test_a_config_is_read_as_it_was_written(name):
    config = config_lib.load_pipeline_config(builtin_configs.resolve(f'builtin:{name}'))
    recipe = Recipe(config)
    recipe.reasons = {'train_config.num_steps': 'A few minutes', 'model': 'This one'}
    text = recipe.text(['Heading.'])
    assert config_lib.parse_pipeline_config(text, 'text') == config
    assert text.startswith('# Heading.\n\n# This one.\nmodel {')
    assert '\n  # A few minutes.\n  num_steps: ' in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_decisions_are_fields_with_reasons():
    recipe = Recipe(config_lib.parse_pipeline_config('train_config { batch_size: 2 }', 'text'))
    recipe.decide(
        Decision('train_config.batch_size', 4, 'Small batches'),
        Decision('train_config.use_bfloat16', False),
        Decision('export_config', '{ best { metric: "loss" } }'),
    )
    assert recipe.text(['A config.']).splitlines() == [
        '# A config.',
        '',
        'train_config {',
        '  # Small batches.',
        '  batch_size: 4',
        '  use_bfloat16: false',
        '}',
        'export_config { best { metric: "loss" } }',
    ]
    with pytest.raises(errors.ConfigError):
        recipe.decide(Decision('train_config.batch_sizes', 4))


def test_fields_without_reasons_fill_lines():
    config = config_lib.parse_pipeline_config(
        'model { classification { num_classes: 3 image_height: 32 backbone { name: "lenet" } } }',
        'x',
    )
    lines = list(writing.format_message(config, {'model.classification.image_height': 'Tiny'}))
    assert lines == [
        'model { classification {',
        '  num_classes: 3 backbone { name: "lenet" }',
        '  # Tiny.',
        '  image_height: 32',
        '} }',
    ]


def test_a_message_of_values_shares_its_lines_with_its_braces():
    sizes = ', '.join(f'{size}.5' for size in range(12))
    config = config_lib.parse_pipeline_config(
        'model { ssd { num_classes: 1 anchor_generator { flexible_grid_anchor_generator { '
        f'anchor_grid {{ base_sizes: [{sizes}] height_stride: 8 '
        'width_stride: 8 height_offset: 4 } } } } }',
        'text',
    )
    lines = list(writing.format_message(config))
    assert lines == [
        'model { ssd {',
        '  num_classes: 1',
        '  anchor_generator { flexible_grid_anchor_generator {',
        f'    anchor_grid {{ base_sizes: [{sizes}]',
        '      height_stride: 8 width_stride: 8 height_offset: 4 }',
        '  } }',
        '} }',
    ]
