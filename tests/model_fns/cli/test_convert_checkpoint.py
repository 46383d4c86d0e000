import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.task_interfaces import weight_files
from model_fns import build_task
from model_fns import convert_checkpoint as program
from model_fns.cli import convert_checkpoint
from model_fns.structures import label_map_files
from tests import tiny_detection

tf1 = tf.compat.v1
KERAS = 'ssd_mobilenet_v1_fpn_keras'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A detector's `model_dir`: its config, and a checkpoint with random values."""
    folder = tmp_path_factory.mktemp('trained')
    text = tiny_detection.config_text(folder).replace('ssd_mobilenet_v1_fpn', KERAS)
    (folder / 'pipeline.config').write_text(text)
    config = config_lib.load_pipeline_config(str(folder / 'pipeline.config'))
    label_map_files.localize(config, [], only_names=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        task = build_task(config, 'export')
        images = tf.zeros([1, 64, 64, 3], tf.uint8)
        task.predict(task.serving_features(images), tf_estimator.ModeKeys.PREDICT)
        variables = tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
        random = np.random.RandomState(0)
        values = {one: random.normal(size=one.shape) for one in variables}
        feed = {one.initializer.inputs[1]: value for one, value in values.items()}
        session.run([one.initializer for one in variables], feed)
        saver = tf1.train.Saver(variables)
        return saver.save(session, str(folder / 'model.ckpt'), 30), text


def test_a_detector_goes_there_and_back_to_the_last_bit(trained, tmp_path, capsys):
    prefix, text = trained
    convert_checkpoint.main([f'--checkpoint_path={prefix}', f'--output_dir={tmp_path}/objects'])
    assert capsys.readouterr().out.split() == [f'{tmp_path}/objects/ckpt-0']
    objects = checkpoint_files.checkpoint_shapes(f'{tmp_path}/objects/ckpt-0')
    network = 'model/_feature_extractor/classification_backbone/layer_with_weights-0/kernel'
    assert objects[f'{network}/.ATTRIBUTES/VARIABLE_VALUE'] == [3, 3, 3, 8]
    (tmp_path / 'pipeline.config').write_text(text)
    flags = [f'--checkpoint_path={tmp_path}/objects', f'--output_dir={tmp_path}/back']
    back = convert_checkpoint.run([*flags, f'--pipeline_config_path={tmp_path}/pipeline.config'])
    assert back == f'{tmp_path}/back/model.ckpt-30'
    first, last = map(checkpoint_files.open_checkpoint, (prefix, back))
    names = first.get_variable_to_shape_map().keys()
    assert names == last.get_variable_to_shape_map().keys() - {'global_step'}
    for name in names:
        np.testing.assert_array_equal(first.get_tensor(name), last.get_tensor(name))


def test_a_network_of_the_other_generation_is_told(trained, tmp_path):
    prefix, text = trained
    (tmp_path / 'pipeline.config').write_text(text.replace(KERAS, KERAS[: -len('_keras')]))
    flags = [f'--checkpoint_path={prefix}', f'--output_dir={tmp_path}/out']
    with pytest.raises(errors.CheckpointError, match='of a network of TensorFlow 2 .* computes'):
        convert_checkpoint.run([*flags, f'--pipeline_config_path={tmp_path}/pipeline.config'])


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        (['--checkpoint_path=a'], 'the following arguments are required: --output_dir'),
        (['--checkpoint_path=a/b', '--output_dir=c'], 'there is no pipeline.config beside a/b'),
    ],
)
def test_what_is_missing_is_one_sentence(flags, message, capsys):
    with pytest.raises(SystemExit) as caught:
        program.main(flags)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


class TestWeights:
    """Weights of another program, which need no config."""

    @pytest.fixture
    def weights(self, tmp_path, monkeypatch):
        """A path of a file with two variables."""
        values = {'net/conv/weights': np.float32([[1.0, 2.0]]), 'scale': np.float32([3.0])}
        path = tmp_path / 'net.weights'
        path.write_text('')
        reader = types.SimpleNamespace(
            get_variable_to_shape_map=lambda: {k: list(v.shape) for k, v in values.items()},
            get_variable_to_dtype_map=lambda: dict.fromkeys(values, tf.float32),
            get_tensor=values.__getitem__,
            description=lambda: 'Net, license mine',
        )
        monkeypatch.setitem(weight_files.READERS, '.weights', lambda path: reader)
        return str(path)

    def test_a_checkpoint_of_step_0(self, weights, tmp_path, capsys):
        out = str(tmp_path / 'out')
        convert_checkpoint.main([f'--from={weights}', f'--output_dir={out}'])
        assert capsys.readouterr().out == f'{out}/model.ckpt-0\n'
        prefix = checkpoint_files.resolve_checkpoint(out)
        reader = tf.train.load_checkpoint(prefix)
        assert reader.get_tensor('net/conv/weights').tolist() == [[1.0, 2.0]]
        assert reader.get_tensor('scale').tolist() == [3.0]
        assert reader.get_tensor('global_step') == 0
        assert len(reader.get_variable_to_shape_map()) == 3
        with pytest.raises(errors.UserError, match='holds a checkpoint already'):
            convert_checkpoint.run([f'--from={weights}', f'--output_dir={out}'])

    @pytest.mark.parametrize(
        ('flags', 'message'),
        [
            (['--from=model.ckpt-1'], '--from: model.ckpt-1 is no file of weights; expected one'),
            (['--from=x.weights'], '--from: there is no file x.weights.'),
            (
                ['--from=x.weights', '--pipeline_config_path=c'],
                'expected no --pipeline_config_path',
            ),
        ],
    )
    def test_flags_that_do_not_fit(self, weights, tmp_path, flags, message):
        with pytest.raises(errors.UserError, match=message):
            convert_checkpoint.run([*flags, f'--output_dir={tmp_path}/out'])

    @pytest.mark.parametrize('flags', [[], ['--from=x.weights', '--checkpoint_path=y']])
    def test_one_source(self, flags):
        with pytest.raises(errors.UserError, match='--from'):
            convert_checkpoint.run([*flags, '--output_dir=out'])
