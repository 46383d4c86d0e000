"""Loading, overriding, merging and saving pipeline configs."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import config as config_lib
from estimator_lib import errors
from protos import input_reader_pb2, pipeline_pb2

TEXT = """
model {
  classification {
    num_classes: 3
    backbone { name: 'mobilenet_v1' }
  }
}
train_config {
  batch_size: 4
  freeze_variables: 'Conv2d_0'
}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / 'pipeline.config'
    file.write_text(TEXT)
    return str(file)


def message_of(call, *arguments):
    with pytest.raises(errors.ConfigError) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_file_is_read(path):
    config = config_lib.load_pipeline_config(path)
    assert config.model.classification.backbone.name == 'mobilenet_v1'
    assert config.train_config.batch_size == 4


def test_overrides_replace_single_values_and_append_to_lists_in_order(path):
    config = config_lib.load_pipeline_config(
        path,
        overrides=[
            "train_config { batch_size: 8 freeze_variables: 'a' }",
            "train_config { batch_size: 16 freeze_variables: 'b' }",
        ],
    )
    assert config.train_config.batch_size == 16
    assert list(config.train_config.freeze_variables) == ['Conv2d_0', 'a', 'b']


def test_settings_come_after_overrides(path):
    config = config_lib.load_pipeline_config(
        path, ['train_config { batch_size: 8 }'], ['train_config.batch_size=32']
    )
    assert config.train_config.batch_size == 32


def test_an_override_can_switch_a_oneof(path):
    config = config_lib.load_pipeline_config(path, ['model { ssd { num_classes: 9 } }'])
    assert config.model.WhichOneof('model') == 'ssd'


def test_an_error_in_an_override_names_the_override(path):
    overrides = ['', 'train_config { batch_sise: 8 }']
    message = message_of(config_lib.load_pipeline_config, path, overrides)
    assert message.startswith('config override 2:1:16: in train_config: ')


def test_merging_leaves_the_merged_configs_as_they_are():
    first = config_lib.parse_pipeline_config('train_config { batch_size: 1 }', 'first')
    second = config_lib.parse_pipeline_config('train_config { batch_size: 2 }', 'second')
    merged = config_lib.merge_pipeline_configs(first, second)
    assert merged.train_config.batch_size == 2
    assert first.train_config.batch_size == 1


def test_settings_leave_the_given_config_as_it_is():
    config = config_lib.parse_pipeline_config(TEXT, 'text')
    config_lib.apply_settings(config, ['train_config.batch_size=9'])
    assert config.train_config.batch_size == 4


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    file = tmp_path / 'windows.config'
    file.write_bytes(b'\xef\xbb\xbf' + TEXT.replace('\n', '\r\n').encode())
    assert config_lib.load_pipeline_config(str(file)).train_config.batch_size == 4


@pytest.mark.parametrize(
    ('content', 'expected'),
    [
        (b'', 'the file is empty'),
        (b' \n\n', 'the file is empty'),
        (b'# only a comment\n', 'sets no field'),
        (b'\x00\x01model', 'binary file'),
        ('model {}'.encode('utf-16'), 'UTF-16'),
        (b'model {}\n# caf\xe9\n', ':2: the byte 0xe9 is not UTF-8'),
    ],
)
def test_a_file_without_a_config_in_it_is_refused(tmp_path, content, expected):
    file = tmp_path / 'bad.config'
    file.write_bytes(content)
    message = message_of(config_lib.load_pipeline_config, str(file))
    assert message.startswith(str(file)) and expected in message


def test_a_missing_file_names_the_nearest_one(path, tmp_path):
    wrong = str(tmp_path / 'pipelin.config')
    message = message_of(config_lib.load_pipeline_config, wrong)
    assert message == f'{wrong}: there is no such file; did you mean {path}?'


def test_a_folder_is_not_suggested_for_a_missing_file(tmp_path):
    (tmp_path / 'configs').mkdir()
    message = message_of(config_lib.load_pipeline_config, str(tmp_path / 'config'))
    assert message.endswith('there is no such file.')


def test_a_missing_relative_path_is_named_with_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = message_of(config_lib.load_pipeline_config, 'a.config')
    assert message == f'a.config: there is no such file (in the working folder {tmp_path}).'


def test_a_missing_folder_is_named(tmp_path):
    message = message_of(config_lib.load_pipeline_config, str(tmp_path / 'a' / 'b.config'))
    assert f'the folder {tmp_path / "a"} does not exist' in message


def test_a_folder_in_place_of_a_file_names_a_config_in_it(path, tmp_path):
    message = message_of(config_lib.load_pipeline_config, str(tmp_path))
    assert 'this is a folder' in message and path in message


def test_an_empty_path_is_refused():
    assert "is ''; expected a file" in message_of(config_lib.load_pipeline_config, '')


def test_a_saved_config_is_read_back_the_same(tmp_path):
    config = config_lib.parse_pipeline_config(TEXT, 'text')
    model_dir = str(tmp_path / 'new' / 'model')
    assert config_lib.saved_pipeline_config(model_dir) == ''
    path = config_lib.save_pipeline_config(config, model_dir)
    assert config_lib.saved_pipeline_config(model_dir) == path
    assert config_lib.load_pipeline_config(path) == config
    assert os.listdir(model_dir) == ['pipeline.config']


def test_saving_replaces_what_was_there(tmp_path):
    model_dir = str(tmp_path)
    config = config_lib.parse_pipeline_config(TEXT, 'text')
    config_lib.save_pipeline_config(config, model_dir)
    config.train_config.batch_size = 99
    path = config_lib.save_pipeline_config(config, model_dir)
    assert config_lib.load_pipeline_config(path).train_config.batch_size == 99


def test_a_model_dir_that_is_a_file_is_refused(path):
    config = config_lib.parse_pipeline_config(TEXT, 'text')
    message = message_of(config_lib.save_pipeline_config, config, path)
    assert 'cannot be written' in message


def test_no_model_dir_has_no_saved_config():
    assert config_lib.saved_pipeline_config('') == ''
    assert config_lib.load_saved_config('') is None


def test_a_saved_config_that_cannot_be_read_is_none(tmp_path):
    config = config_lib.parse_pipeline_config(TEXT, 'text')
    path = config_lib.save_pipeline_config(config, str(tmp_path))
    assert config_lib.load_saved_config(str(tmp_path)) == config
    with open(path, 'w') as file:
        file.write('train_config { of_another_version: 1 }')
    assert config_lib.load_saved_config(str(tmp_path)) is None


FLOATS = st.floats(width=32, allow_nan=False)
# Control characters are refused when they are read, as wrong escapes.
NAMES = st.text(st.characters(blacklist_categories=('Cc', 'Cs')), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(rate=FLOATS, names=st.lists(NAMES, max_size=3), seed=st.integers(0, 2**32 - 1))
def test_any_value_survives_saving(tmp_path_factory, rate, names, seed):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    rates = config.train_config.optimizer.sgd_optimizer.learning_rate
    rates.constant_learning_rate.learning_rate = rate
    config.train_config.freeze_variables.extend(names)
    config.train_input_reader.label_map_path = 'C:\\new' + ''.join(names)
    config.train_config.random_seed = seed
    config.eval_config.super_categories['a "b"'] = 'c'
    config.train_input_reader.corrupt_record_policy = input_reader_pb2.SKIP
    path = config_lib.save_pipeline_config(config, str(tmp_path_factory.getbasetemp()))
    assert config_lib.load_pipeline_config(path) == config


def test_published_configs_load(shared):
    paths = sorted((shared / 'configs').rglob('*.config'))
    for path in paths:
        assert config_lib.load_pipeline_config(str(path)).ListFields(), path.name


def test_the_saved_text_of_published_configs_parses_without_complaint(shared, tmp_path):
    for path in sorted((shared / 'configs' / 'tf1').glob('*.config'))[::8]:
        config = config_lib.load_pipeline_config(str(path))
        saved = config_lib.save_pipeline_config(config, str(tmp_path / path.stem))
        assert config_lib.load_pipeline_config(saved) == config
