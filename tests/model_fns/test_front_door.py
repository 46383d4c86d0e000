"""What the front door makes of flags, without training: configs, and what is missing."""

import types

import pytest

from estimator_lib import errors
from model_fns import front_door

CONFIG = """
model { classification { num_classes: 2 image_height: 32 image_width: 32
  backbone { name: 'lenet' } } }
train_config { batch_size: 4 num_steps: 10 }
eval_input_reader { name: 'a' }
eval_input_reader { name: 'b' }
"""


class Flag:
    def __init__(self, value):
        self.value = value


class Flags(types.SimpleNamespace):
    """Flags that were not given, but for some."""

    def __init__(self, **given):
        defaults = {
            'mode': 'train_and_evaluate',
            'model_dir': '',
            'pipeline_config_path': '',
            'checkpoint_path': '',
            'checkpoint_dir': '',
            'saved_model_dir': '',
            'config_override': [],
            'set': [],
            'num_train_steps': None,
            'sample_1_of_n_eval_examples': 1,
            'sample_1_of_n_eval_on_train_examples': 5,
            'eval_training_data': False,
            'images': '',
            'output_dir': '',
            'output_format': 'json',
            'raw': False,
            'export_dir': '',
        }
        super().__init__(**{**defaults, **given})

    def __getitem__(self, name):
        return Flag(getattr(self, name))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / 'a.config'
    file.write_text(CONFIG)
    return str(file)


def test_file_then_overrides_then_settings_then_flags(path):
    config = front_door.load_config(
        Flags(
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
    assert front_door.load_config(Flags(model_dir=str(tmp_path))).train_config.batch_size == 4
    beside = str(tmp_path / 'model.ckpt-10')
    config = front_door.load_config(Flags(mode='predict', checkpoint_path=beside))
    assert config.model.classification.backbone.name == 'lenet'
    demo = front_door.load_config(Flags(model_dir=str(tmp_path / 'new')))
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
        front_door.run(Flags(**given))
    assert message in str(caught.value)
