"""The configs that flags describe: files, overrides, single fields."""

import dataclasses

import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.cli import builtin_configs, flag_configs
from model_fns.cli.run_options import RunOptions
from model_fns.datasets import demo

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
        RunOptions(
            pipeline_config_path=path,
            config_override=('train_config { batch_size: 5 num_steps: 11 }',),
            set=('train_config.batch_size=6', 'train_config.num_steps=12'),
            num_train_steps=13,
            sample_1_of_n_eval_examples=3,
        )
    )
    assert config.train_config.batch_size == 6 and config.train_config.num_steps == 13
    assert [reader.sample_1_of_n_examples for reader in config.eval_input_reader] == [3, 3]


def test_without_a_path_the_config_of_the_folder_or_else_the_demo(path, tmp_path):
    (tmp_path / 'pipeline.config').write_text(CONFIG)
    assert (
        flag_configs.load_config(RunOptions(model_dir=str(tmp_path))).train_config.batch_size == 4
    )
    beside = str(tmp_path / 'model.ckpt-10')
    config = flag_configs.load_config(RunOptions(mode='predict', checkpoint_path=beside))
    assert config.model.classification.backbone.name == 'lenet'
    config = flag_configs.load_config(RunOptions(model_dir=str(tmp_path / 'new')))
    assert config.model.WhichOneof('model') == 'ssd'


@pytest.mark.parametrize(
    'given',
    [
        {'mode': 'evaluate', 'checkpoint_dir': '{run}'},
        {'mode': 'train_and_evaluate', 'checkpoint_dir': '{run}'},
        {'mode': 'evaluate', 'checkpoint_path': '{run}/model.ckpt-10'},
        {'mode': 'export', 'checkpoint_path': '{run}'},
    ],
)
def test_a_trained_model_has_the_config_beside_its_checkpoint_or_none(tmp_path, given):
    paths = {name: value.format(run=tmp_path / 'run') for name, value in given.items()}
    options = RunOptions(model_dir=str(tmp_path / 'evaluation'), **paths)
    with pytest.raises(
        errors.UserError, match='no pipeline.config in .*run.*; expected the folder'
    ):
        flag_configs.load_config(options)
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'pipeline.config').write_text(CONFIG)
    config = flag_configs.load_config(options)
    assert config.model.classification.backbone.name == 'lenet'


@pytest.mark.parametrize('mode', ['evaluate', 'export', 'predict', 'check'])
def test_the_demo_stands_for_no_run_that_is_not_there(tmp_path, mode):
    (tmp_path / 'kangaroos').mkdir()
    (tmp_path / 'kangaroos' / 'pipeline.config').write_text(CONFIG)
    with pytest.raises(errors.UserError) as caught:
        flag_configs.load_config(RunOptions(mode=mode, model_dir=str(tmp_path / 'kangaroo')))
    assert str(caught.value) == (
        f'there is no pipeline.config in {tmp_path}/kangaroo ({tmp_path}/kangaroo: no such folder; '
        f'did you mean {tmp_path}/kangaroos?); expected the folder of a run, or '
        '--pipeline_config_path.'
    )


def test_a_run_without_its_config_does_not_continue_as_the_demo(tmp_path):
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-3"\n')
    (tmp_path / 'model.ckpt-3.index').write_text('')
    with pytest.raises(errors.UserError, match='there is no pipeline.config in'):
        flag_configs.load_config(RunOptions(model_dir=str(tmp_path)))


def test_a_new_run_of_the_demo_names_the_run_that_may_be_meant(tmp_path, caplog):
    (tmp_path / 'kangaroos').mkdir()
    (tmp_path / 'kangaroos' / 'pipeline.config').write_text(CONFIG)
    flag_configs.load_config(RunOptions(model_dir=str(tmp_path / 'kangaroo')))
    assert f'did you mean {tmp_path}/kangaroos?' in caplog.text
    assert 'this is the embedded demo' in caplog.text


def test_the_demo_is_checked_where_no_run_is_named():
    config = flag_configs.load_config(RunOptions(mode='check', sample_1_of_n_eval_examples=3))
    assert config.model.WhichOneof('model') == 'ssd'
    assert [reader.sample_1_of_n_examples for reader in config.eval_input_reader] == [3]


def test_the_config_of_a_run_wins_over_one_beside_a_published_checkpoint(tmp_path):
    for name, batch_size in (('run', 6), ('published', 7)):
        (tmp_path / name).mkdir()
        text = CONFIG.replace('batch_size: 4', f'batch_size: {batch_size}')
        (tmp_path / name / 'pipeline.config').write_text(text)
    run, published = str(tmp_path / 'run'), str(tmp_path / 'published')

    def batch_size(**paths):
        options = RunOptions(mode='evaluate', model_dir=run, **paths)
        return flag_configs.load_config(options).train_config.batch_size

    assert batch_size(checkpoint_path=f'{published}/model.ckpt') == 6
    assert batch_size(checkpoint_dir=published) == 7


DEMOS = ('centernet', 'efficientdet', 'mask_rcnn', 'masks', 'rotated')


@pytest.fixture
def small_demo(monkeypatch, tmp_path):
    """Demo data of a few pictures, and a working directory without data; returns the cache."""
    scenes = demo.Subset(48, 2, (0.2, 0.4), 0.5, {'train': 2, 'val': 1}, {'train': 1, 'val': 1})
    monkeypatch.setattr(demo, 'SUBSETS', {'scenes': scenes})
    monkeypatch.setenv(demo.CACHE_VARIABLE, str(tmp_path / 'cache'))
    monkeypatch.chdir(tmp_path)
    return tmp_path / 'cache'


@pytest.mark.parametrize('name', DEMOS)
def test_demo_configs_of_the_package_generate_their_data(name, small_demo):
    options = RunOptions(mode='check', pipeline_config_path=f'builtin:demo_{name}')
    config = flag_configs.load_config(options)
    for reader in (config.train_input_reader, config.eval_input_reader[0]):
        paths = reader.tf_record_input_reader.input_path
        assert reader.label_map_path.startswith(str(small_demo))
        assert paths and all(tf.io.gfile.glob(path) for path in paths)
        assert tf.io.gfile.exists(reader.label_map_path)


def test_overrides_of_demo_paths_stay(small_demo):
    options = RunOptions(
        mode='check',
        pipeline_config_path='builtin:demo_masks',
        set=('eval_input_reader.0.label_map_path=data/demo/mine.pbtxt',),
    )
    reader = flag_configs.load_config(options).eval_input_reader[0]
    assert reader.label_map_path == 'data/demo/mine.pbtxt'


def test_demo_data_in_the_working_directory_is_read(small_demo):
    (small_demo.parent / 'data' / 'demo').mkdir(parents=True)
    options = RunOptions(mode='check', pipeline_config_path='builtin:demo_masks')
    reader = flag_configs.load_config(options).train_input_reader
    assert reader.label_map_path == 'data/demo/label_map.pbtxt'
    assert not small_demo.exists()


@pytest.mark.parametrize('path', ['builtin:bccd_ssd', 'copy of a demo'])
def test_other_configs_generate_no_data(path, small_demo):
    if not path.startswith('builtin'):
        path = builtin_configs.resolve('builtin:demo_masks')
    config = flag_configs.load_config(RunOptions(mode='check', pipeline_config_path=path))
    assert config.train_input_reader.label_map_path.startswith('data/')
    assert not small_demo.exists()


def test_epochs_are_counted_for_training_and_not_needed_afterwards(path, tmp_path, caplog):
    records = tmp_path / 'train.tfrecord'
    with tf.io.TFRecordWriter(str(records)) as writer:
        for _ in range(6):
            writer.write(b'')
    reader = f'train_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}'
    options = RunOptions(
        pipeline_config_path=path,
        config_override=(f'train_config {{ length {{ epochs: 10 }} }} {reader}',),
        set=('train_config.checkpoints.save_every.percent=20',),
    )
    train_config = flag_configs.load_config(options).train_config
    assert train_config.num_steps == 15
    assert train_config.checkpoints.save_every_n_steps == 3
    records.unlink()
    with pytest.raises(errors.DataError, match='no file matches'):
        flag_configs.load_config(options)
    config = flag_configs.load_config(dataclasses.replace(options, mode='export'))
    assert config.train_config.length.epochs == 10
    assert 'durations in epochs are not known here' in caplog.text
