"""What the front door makes of flags, without training: configs, and what is missing."""

import pytest

import run_train_eval
from estimator_lib import errors
from model_fns import front_door

CONFIG = """
model { classification { num_classes: 2 image_height: 32 image_width: 32
  backbone { name: 'lenet' } } }
train_config { batch_size: 4 num_steps: 10 }
eval_input_reader { name: 'a' }
eval_input_reader { name: 'b' }
"""


def given_flags(**given):
    """The front door's flags with some given."""
    flags = run_train_eval.parse_flags(['run_train_eval.py', '--model_dir='])
    for name, value in given.items():
        setattr(flags, name, value)
    return flags


@pytest.fixture
def path(tmp_path):
    file = tmp_path / 'a.config'
    file.write_text(CONFIG)
    return str(file)


def test_file_then_overrides_then_settings_then_flags(path):
    config = front_door.load_config(
        given_flags(
            pipeline_config_path=path,
            config_override=['train_config { batch_size: 5 num_steps: 11 }'],
            set=['train_config.batch_size=6', 'train_config.num_steps=12'],
            num_train_steps=13,
            sample_1_of_n_eval_examples=3,
        )
    )
    assert config.train_config.batch_size == 6 and config.train_config.num_steps == 13
    assert [reader.sample_1_of_n_examples for reader in config.eval_input_reader] == [3, 3]


def test_without_a_path_the_config_of_the_folder_or_else_the_demo(path, tmp_path):
    (tmp_path / 'pipeline.config').write_text(CONFIG)
    assert front_door.load_config(given_flags(model_dir=str(tmp_path))).train_config.batch_size == 4
    beside = str(tmp_path / 'model.ckpt-10')
    config = front_door.load_config(given_flags(mode='predict', checkpoint_path=beside))
    assert config.model.classification.backbone.name == 'lenet'
    demo = front_door.load_config(given_flags(model_dir=str(tmp_path / 'new')))
    assert demo.model.WhichOneof('model') == 'ssd'


@pytest.mark.parametrize(
    'given, message',
    [
        ({'mode': 'train'}, '--mode=train needs --model_dir.'),
        ({'mode': 'evaluate'}, '--mode=evaluate needs --model_dir.'),
        ({'mode': 'export'}, '--mode=export needs --model_dir'),
        ({'mode': 'predict'}, '--mode=predict needs --images.'),
        ({'mode': 'predict', 'images': 'a'}, '--mode=predict needs --output_dir.'),
        (
            {'mode': 'predict', 'images': 'a', 'output_dir': 'b'},
            '--mode=predict needs --saved_model_dir',
        ),
        (
            {'mode': 'predict', 'images': 'a', 'output_dir': 'b', 'raw': True,
             'output_format': 'csv'},
            '--raw: csv has no place for it; expected json.',
        ),
        (
            {'mode': 'predict', 'images': 'a', 'output_dir': 'b', 'saved_model_dir': 'c',
             'model_dir': 'd'},
            '--saved_model_dir and --model_dir: expected one of them.',
        ),
        (
            {'model_dir': 'a', 'checkpoint_path': 'b'},
            '--set train_config.fine_tune_checkpoint=b',
        ),
        ({'checkpoint_dir': 'a'}, 'needs --model_dir.'),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(given, message):
    with pytest.raises(errors.UserError) as caught:
        front_door.run(given_flags(**given))
    assert message in str(caught.value)
