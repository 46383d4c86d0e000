"""What is said of classification configs before anything is made of them."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns import build_task, create_model_fn, validate


def config_of(model="backbone { name: 'lenet' }", rest=''):
    text = f'model {{ classification {{ num_classes: 2 {model} }} }} {rest}'
    return config_lib.parse_pipeline_config(text, 'text')


@pytest.mark.parametrize(
    ('rest', 'problem'),
    [
        (
            'train_input_reader { num_additional_channels: 4 }',
            'train_input_reader.num_additional_channels: the network takes gray images; '
            'expected 0.',
        ),
        (
            'train_config { fine_tune_checkpoint: "a" fine_tune_checkpoint_type: "clasification" }',
            "train_config.fine_tune_checkpoint_type: 'clasification'; expected one of "
            'classification, detection, segmentation, or nothing for a checkpoint of the same '
            'model.',
        ),
    ],
)
def test_python_is_told_what_the_front_door_is_told(rest, problem):
    config = config_of(rest=rest)
    for make in (build_task, create_model_fn, lambda one: validate(one, mode=None)):
        with pytest.raises(errors.ConfigError) as caught:
            make(config)
        assert str(caught.value) == problem


@pytest.mark.parametrize(
    ('model', 'start'),
    [
        ("backbone { name: 'lenett' }", "backbone.name: unknown backbone 'lenett'; did you mean"),
        ('', 'backbone.name: not set; expected the name of a network'),
        ("backbone { name: 'lenet' } preprocessing: 'vg'", 'preprocessing: unknown preprocessing'),
        (
            "backbone { name: 'lenet' } loss { class_weights: [1, 2, 3] }",
            'loss.class_weights: 3 values; expected 2, one for each class',
        ),
    ],
)
def test_names_and_values(model, start):
    with pytest.raises(errors.ConfigError) as caught:
        validate(config_of(model), 'export')
    assert str(caught.value).startswith(f'model.classification.{start}')


def test_a_mode_looks_at_its_own_parts():
    config = config_of(rest='train_config { batch_size: 0 }')
    assert validate(config, 'export') == []
    build_task(config, mode='export')
    with pytest.raises(errors.ConfigError, match='batch_size: 0; expected at least 1'):
        build_task(config)


def test_what_a_run_needs_may_be_missing_where_no_mode_is_named():
    assert validate(config_of(rest='train_config {} train_input_reader {}'), mode=None) == []


KNOWN = 'expected one of: center_net, classification, external, faster_rcnn, segmentation, ssd.'


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('model {}', f'model: is empty; {KNOWN}'),
        ('', f'model: is missing; {KNOWN}'),
        (
            'model { experimental_model {} }',
            'model.experimental_model: not supported: experimental models are made in code; there '
            'are none here.',
        ),
    ],
)
def test_a_model_without_a_task(text, problem):
    config = config_lib.parse_pipeline_config(text, 'text')
    for make in (build_task, lambda one: validate(one, mode=None)):
        with pytest.raises(errors.ConfigError) as caught:
            make(config)
        assert str(caught.value) == problem


def test_a_flip_of_images_that_must_not_be_mirrored_gets_a_warning():
    rest = 'eval_config { test_time_augmentation { flip_horizontally: true } }'
    model = "backbone { name: 'lenet' } mirror_images: "
    assert validate(config_of(f'{model}true', rest), mode=None) == []
    (warning,) = validate(config_of(f'{model}false', rest), mode=None)
    assert 'flip_horizontally' in warning and 'mirror_images: false' in warning
