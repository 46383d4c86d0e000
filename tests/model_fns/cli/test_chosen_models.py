"""Which model flags ask for, and which they cannot."""

import pytest

from estimator_lib import errors
from model_fns.cli import chosen_models
from model_fns.cli.run_options import RunOptions
from tests.model_fns.cli.test_flag_configs import CONFIG


@pytest.mark.parametrize(
    'given, expected',
    [
        ({}, None),
        ({'checkpoint_path': 'a/model.ckpt-3', 'saved_model_dir': 'b'}, None),
        ({'model_file': 'a/model.onnx'}, 'a/model.onnx'),
        ({'model_file': 'a/model.of_no_format'}, 'a/model.of_no_format'),
        ({'saved_model_dir': 'a/model.tflite'}, 'a/model.tflite'),
        ({'checkpoint_path': 'a/model.onnx'}, 'a/model.onnx'),
        ({'checkpoint_path': 'a/model.onnx', 'model_dir': 'b'}, 'a/model.onnx'),
    ],
)
def test_a_file_is_taken_where_other_models_are(given, expected):
    assert chosen_models.chosen_file(RunOptions(**given)) == expected


def test_a_pattern_is_the_one_file_that_it_matches(tmp_path):
    def chosen():
        return chosen_models.chosen_file(RunOptions(model_file=str(tmp_path / '*' / '*.onnx')))

    assert chosen() == str(tmp_path / '*' / '*.onnx')  # which is then reported as missing
    paths = [tmp_path / folder / 'model.onnx' for folder in ('1001', '1002')]
    for path in paths:
        path.parent.mkdir()
    paths[0].write_bytes(b'')
    assert chosen() == str(paths[0])
    paths[1].write_bytes(b'')
    with pytest.raises(errors.UserError, match='matches 2 files: .*1001/.*; expected'):
        chosen()


@pytest.mark.parametrize(
    'given, message',
    [
        (
            {'model_file': 'a.onnx', 'checkpoint_path': 'b'},
            '--model_file and --checkpoint_path: expected one of them.',
        ),
        (
            {'saved_model_dir': 'a', 'checkpoint_path': 'b.tflite'},
            '--checkpoint_path and --saved_model_dir: expected one of them.',
        ),
        (
            {'model_file': 'a.onnx', 'model_dir': 'b'},
            '--model_file and --model_dir: expected one of them.',
        ),
        ({'model_file': 'none.onnx'}, 'none.onnx is not there (in the working folder '),
        ({'model_file': 'a.onnx', 'signature_name': 'b'}, '--signature_name=b chooses a signature'),
        ({'model_dir': 'a', 'label_map': 'b'}, '--label_map=b names the classes of a --model_file'),
        ({'saved_model_dir': 'a', 'label_map': 'b'}, 'a --model_file without a config; leave it'),
        ({'model_dir': 'a', 'signature_name': 'b'}, 'a signature of a SavedModel; expected'),
    ],
)
def test_two_models_or_none_are_refused(given, message):
    with pytest.raises(errors.UserError) as caught:
        chosen_models.chosen_model(RunOptions(mode='predict', **given))
    assert message in str(caught.value)


def test_the_config_of_a_file_lies_beside_it_unless_another_is_given(tmp_path):
    path = tmp_path / 'model.tflite'
    path.write_bytes(b'')
    with pytest.raises(errors.UserError, match='there is no pipeline.config beside it'):
        chosen_models.load_file_config(RunOptions(mode='evaluate'), str(path))
    (tmp_path / 'pipeline.config').write_text(CONFIG)
    other = tmp_path / 'other.config'
    other.write_text(CONFIG.replace('batch_size: 4', 'batch_size: 9'))
    options = RunOptions(
        mode='evaluate', sample_1_of_n_eval_examples=3, set=('train_config.num_steps=11',)
    )
    config = chosen_models.load_file_config(options, str(path))
    assert config.train_config.batch_size == 4 and config.train_config.num_steps == 11
    assert [reader.sample_1_of_n_examples for reader in config.eval_input_reader] == [3, 3]
    options = RunOptions(mode='evaluate', pipeline_config_path=str(other))
    assert chosen_models.load_file_config(options, str(path)).train_config.batch_size == 9
