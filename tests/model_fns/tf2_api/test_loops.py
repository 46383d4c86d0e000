"""Programs that are written against the published loop."""

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from model_fns.tf2_api import loops
from protos import pipeline_pb2
from tests import tiny_data

OVERRIDE = 'train_config { batch_size: 4 } eval_config { num_visualizations: 0 }'


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    path = tiny_data.write_all(folder)
    path.write_text(tiny_data.LENET_CONFIG.format(folder=folder))
    return str(path)


@pytest.fixture(scope='module')
def trained(path, tmp_path_factory):
    """A model_dir of a run of 7 steps, and what an exporter was told."""
    model_dir, told = tmp_path_factory.mktemp('run'), []
    loops.train_loop(
        pipeline_config_path=path,
        model_dir=str(model_dir),
        config_override=OVERRIDE,
        train_steps=7,
        checkpoint_every_n=3,
        checkpoint_max_to_keep=2,
        record_summaries=False,
        performance_summary_exporter=lambda *arguments: told.append(arguments),
        num_steps_per_iteration=2,
        use_bfloat16=False,
        learning_rate=0.002,
        export_to_tpu=False,
    )
    return model_dir, told


def test_training_ends_at_the_step_that_was_asked_for(trained):
    model_dir, _ = trained
    kept = sorted(path.name for path in model_dir.glob('model.ckpt-*.index'))
    assert kept == ['model.ckpt-6.index', 'model.ckpt-7.index']
    saved = (model_dir / 'pipeline.config').read_text()
    lines = ('loop: TF_FUNCTION', 'steps_per_call: 2', 'batch_size: 4', 'num_steps: 7')
    for line in (*lines, 'learning_rate: 0.002'):
        assert line in saved


def test_a_program_is_told_how_fast_it_was(trained):
    ((found, number_type),) = trained[1]
    assert number_type == 'fp32'
    assert 0.0 < found['steps_per_sec_p50'] <= found['steps_per_sec_max']
    assert found['steps_per_sec'] <= found['steps_per_sec_max']
    # Three classes: not far from log(3).
    assert 0.2 < found['last_batch_loss'] < 3.0


def test_checkpoints_are_evaluated_until_the_last_step(trained, path, tmp_path):
    override = pipeline_pb2.TrainEvalPipelineConfig()
    override.eval_config.num_visualizations = 0
    metrics = loops.eval_continuously(
        pipeline_config_path=path,
        config_override=override,
        train_steps=7,
        model_dir=str(tmp_path),
        checkpoint_dir=str(trained[0]),
        wait_interval=1,
        timeout=5,
        sample_1_of_n_eval_examples=3,
        save_final_config=True,
    )
    ((_, values),) = metrics.items()
    assert 0.0 <= values['accuracy'] <= 1.0
    saved = (tmp_path / 'pipeline.config').read_text()
    assert 'sample_1_of_n_examples: 3' in saved
    assert checkpoint_files.latest_checkpoint(str(tmp_path)) is None


@pytest.mark.parametrize(
    'arguments, said',
    [
        ({'use_tpu': True}, 'use_tpu is True: TPUs are not supported; expected False'),
        ({'export_to_tpu': True}, 'export_to_tpu is True: TPUs are not supported'),
        ({'checkpoint_every_n': 0}, 'checkpoint_every_n is 0; expected at least 1'),
        (
            {'batch_sizes': 3},
            "batch_sizes is not an argument of this loop; did you mean 'batch_size'",
        ),
    ],
)
def test_arguments_of_training_that_are_refused(path, tmp_path, arguments, said):
    with pytest.raises(errors.ConfigError, match=said):
        loops.train_loop(path, str(tmp_path), **arguments)
    assert not list(tmp_path.iterdir())


class HParams:
    """The published type, as far as a loop reads it."""

    def values(self):
        return {'use_tpu': True}


@pytest.mark.parametrize('hparams', [HParams(), {'use_tpu': True}])
def test_hparams_are_the_first_argument_of_older_programs(path, tmp_path, hparams):
    for loop in (loops.train_loop, loops.eval_continuously):
        with pytest.raises(errors.ConfigError, match='use_tpu is True'):
            loop(hparams, path, model_dir=str(tmp_path))
        with pytest.raises(errors.ConfigError, match='export_to_tpu is True'):
            loop(None, path, model_dir=str(tmp_path), export_to_tpu=True)


def test_arguments_replace_those_of_hparams(path, tmp_path):
    hparams = {'pipeline_config_path': 'another', 'checkpoint_every_n': -1, 'use_tpu': True}
    with pytest.raises(errors.ConfigError, match='checkpoint_every_n is 0'):
        loops.train_loop(hparams, path, str(tmp_path), use_tpu=False, checkpoint_every_n=0)


def test_the_scope_of_a_strategy_is_refused(path, tmp_path):
    strategy = tf.distribute.MirroredStrategy(['/cpu:0'])
    with strategy.scope(), pytest.raises(errors.ConfigError, match='mode: MIRRORED'):
        loops.train_loop(path, str(tmp_path))


@pytest.mark.parametrize(
    'arguments, said',
    [
        ({'use_tpu': True}, 'TPUs are not supported'),
        ({'postprocess_on_cpu': True}, 'postprocess_on_cpu is True'),
        ({'override_eval_num_epochs': False}, 'an evaluation reads its examples once'),
        ({'checkpoint_dir': None}, 'checkpoint_dir is None; expected a folder'),
        ({'eval_index': 2}, 'eval_index is 2, and the config has 1 eval_input_reader'),
    ],
)
def test_arguments_of_evaluation_that_are_refused(path, tmp_path, arguments, said):
    arguments = {'model_dir': str(tmp_path), 'checkpoint_dir': str(tmp_path), **arguments}
    with pytest.raises(errors.ConfigError, match=said):
        loops.eval_continuously(path, **arguments)
