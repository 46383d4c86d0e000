"""The configs that flags describe: files, overrides, single fields."""

import pytest

from model_fns import flag_configs
from tests.model_fns.test_front_door import given_flags

CONFIG = """
model { classification { num_classes: 2 image_height: 32 image_width: 32
  backbone { name: 'lenet' } } }
train_config { batch_size: 4 num_steps: 10 }
eval_input_reader { name: 'a' }
eval_input_reader { name: 'b' }
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / 'a.config'
    file.write_text(CONFIG)
    return str(file)


def test_file_then_overrides_then_settings_then_flags(path):
    config = flag_configs.load_config(
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
    assert (
        flag_configs.load_config(given_flags(model_dir=str(tmp_path))).train_config.batch_size == 4
    )
    beside = str(tmp_path / 'model.ckpt-10')
    config = flag_configs.load_config(given_flags(mode='predict', checkpoint_path=beside))
    assert config.model.classification.backbone.name == 'lenet'
    demo = flag_configs.load_config(given_flags(model_dir=str(tmp_path / 'new')))
    assert demo.model.WhichOneof('model') == 'ssd'
