"""The loop without sessions around a toy task, and the same run by both loops alternately."""

import contextlib
import glob
import json
import logging
import threading
import types

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.eager import context

from estimator_lib import errors, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.function_loop import call_lengths, trainer
from protos import cluster_pb2, train_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.distribution import curve_cases
from tests.estimator_lib.distribution.curve_cases import losses
from tests.estimator_lib.line_task import Line, error_after, slope_after

tf1 = tf.compat.v1

# Two optimizer slots, averages of variables, and calls of three steps.
RICH = """
train_config {
  optimizer {
    rms_prop_optimizer {
      learning_rate { exponential_decay_learning_rate {
        initial_learning_rate: 0.05 decay_steps: 2 decay_factor: 0.9
      } }
      momentum_optimizer_value: 0.5
    }
    use_moving_average: true
    moving_average_decay: 0.8
  }
  gradient_clipping_by_norm: 20.0
  steps_per_call: 3
  checkpoints { save_every_n_steps: 100 }
  progress { every_n_steps: 100 summary_every_n_steps: 1 }
}
train_input_reader { shuffle: true }
"""


@pytest.fixture
def config(tmp_path):
    made = line_task.create_config(tmp_path)
    made.train_config.loop = train_pb2.TF_FUNCTION
    return made


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    return caplog


def train(config, model_dir, loop=None, num_steps=None, **options):
    run = type(config)()
    run.CopyFrom(config)
    if loop is not None:
        run.train_config.loop = loop
    if num_steps is not None:
        run.train_config.num_steps = num_steps
    options = {'evaluate': False, **options}
    return training.train_and_evaluate(Line(), run, str(model_dir), **options)


def saved(model_dir):
    """All variables of the latest checkpoint."""
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_it_descends_as_computed_by_hand_and_evaluates(config, tmp_path, log):
    metrics = train(config, tmp_path / 'run', evaluate=True)
    assert saved(tmp_path / 'run')['slope'] == pytest.approx(slope_after(6), rel=1e-5)
    for name in ('0', 'again'):
        assert metrics[name]['error'] == pytest.approx(error_after(6), rel=1e-4)
    kept = sorted(path.name for path in (tmp_path / 'run').glob('model.ckpt-*.index'))
    assert kept == ['model.ckpt-4.index', 'model.ckpt-6.index']
    lines = [record.getMessage() for record in log.records if 'loss' in record.getMessage()]
    # After the first step, at multiples of 3, which is the last step too.
    assert [line.split('  ')[0] for line in lines if line.startswith('step ')] == [
        'step 1/6',
        'step 3/6',
        'step 6/6',
    ]
    # At slope 0: the mean of (3 x)^2 over 1 and 2.
    assert 'step 1/6  loss 22.5' in log.text


@pytest.mark.parametrize('loop', [train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION])
def test_micro_batches_make_the_steps_of_whole_batches(config, tmp_path, log, loop):
    config.train_config.accumulate_steps = 2
    train(config, tmp_path / 'run', loop, 3)
    train(config, tmp_path / 'run', loop)  # the third step has read the first batch again
    variables = saved(tmp_path / 'run')
    assert variables['slope'] == pytest.approx(slope_after(6), rel=1e-5)
    assert variables['global_step'] == 6
    assert 'step 1/3  loss 22.5' in log.text


def test_a_run_that_is_done_is_left_alone(config, tmp_path, log):
    train(config, tmp_path / 'run')
    before = saved(tmp_path / 'run')
    train(config, tmp_path / 'run')
    assert 'nothing is trained: the latest checkpoint' in log.text
    assert 'is of step 6, and num_steps is 6' in log.text
    assert saved(tmp_path / 'run')['slope'] == before['slope']


@pytest.mark.parametrize('loop', [train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION])
def test_each_start_keeps_so_many_checkpoints(config, tmp_path, loop):
    config.train_config.checkpoints.keep_max = 2
    for num_steps in (2, 4, 6, 7):
        train(config, tmp_path / 'run', loop, num_steps)
    kept = sorted(path.name for path in (tmp_path / 'run').glob('model.ckpt-*.index'))
    assert kept == ['model.ckpt-6.index', 'model.ckpt-7.index']


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """A run of 12 steps by each loop; the config."""
    folder = tmp_path_factory.mktemp('whole')
    config = line_task.create_config(folder)
    line_task.write_points(folder / 'points.tfrecord', (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
    config.train_config.optimizer.Clear()
    text_format.Merge(RICH, config)
    runs = {}
    for loop in (train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION):
        runs[loop] = folder / str(loop)
        train(config, runs[loop], loop, 12)
    return config, runs


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
        assert found[name].dtype == value.dtype


def test_both_loops_write_the_same_checkpoint_and_losses(whole):
    _, runs = whole
    by_session, by_function = (saved(run) for run in runs.values())
    assert {'slope/RMSProp', 'slope/RMSProp_1', 'slope/ExponentialMovingAverage'} < set(by_function)
    assert_same(by_function, by_session)
    curves = [losses(run) for run in runs.values()]
    assert len(curves[0]) == 12
    assert curves[1] == pytest.approx(curves[0], rel=1e-5)


@pytest.mark.parametrize('first', [train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION])
def test_a_run_of_one_loop_goes_on_with_the_other(whole, tmp_path, first):
    config, runs = whole
    train(config, tmp_path, first, 5)
    train(config, tmp_path, 1 - first, 12)
    assert_same(saved(tmp_path), saved(runs[train_pb2.ESTIMATOR]))
    assert losses(tmp_path) == pytest.approx(losses(runs[train_pb2.ESTIMATOR]), rel=1e-5)


def test_it_stops_at_a_loss_that_is_not_finite_and_names_the_step(config, tmp_path):
    points = (1.0, 2.0, 3.0, 4.0, 1.0, float('nan'), 1.0, 2.0)
    line_task.write_points(tmp_path / 'points.tfrecord', points)
    config.train_config.progress.every_n_steps = 100
    config.train_config.checkpoints.save_every_n_steps = 100
    # The step is in the middle of a call, of steps 2 to 6.
    with pytest.raises(errors.UserError, match=r"step 3: the loss squared is nan .*images '1\.0"):
        train(config, tmp_path / 'run')
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 0


@pytest.mark.parametrize('policy', ['SKIP_STEP', 'WARN'])
def test_a_step_that_is_not_finite_is_left_out(config, tmp_path, log, policy):
    line_task.write_points(tmp_path / 'points.tfrecord', (1.0, 2.0, 3.0, float('nan')))
    config.train_config.non_finite_loss_policy = train_pb2.NonFiniteLossPolicy.Value(policy)
    train(config, tmp_path / 'run')
    expected = slope_after(3, [(1.0, 2.0)])
    assert saved(tmp_path / 'run')['slope'] == pytest.approx(expected, rel=1e-5)
    assert "step 2: the loss squared is nan (learning rate 0.05; images '3" in log.text


def test_it_ends_with_its_examples(config, tmp_path):
    config.train_input_reader.num_epochs = 2  # of two batches each
    config.train_config.num_steps = 0
    train(config, tmp_path / 'run')
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 4
    assert saved(tmp_path / 'run')['slope'] == pytest.approx(slope_after(4), rel=1e-5)


def test_it_ends_when_evaluations_get_no_better(config, tmp_path):
    config.train_config.num_steps = 40
    stopping = config.train_config.early_stopping
    stopping.metric, stopping.higher_is_better, stopping.patience_evaluations = 'error', True, 2
    train(config, tmp_path / 'run', evaluate=True)
    # The error falls all the time: the first evaluation, of step 0, is the best.
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) < 40


def test_it_starts_from_another_checkpoint(config, tmp_path):
    train(config, tmp_path / 'first', num_steps=2)
    config.train_config.fine_tune_checkpoint = str(tmp_path / 'first' / 'model.ckpt-2')
    config.train_config.fine_tune_checkpoint_type = 'classification'
    config.train_config.optimizer.use_moving_average = True
    train(config, tmp_path / 'second', num_steps=1)
    start = tf.train.load_checkpoint(str(tmp_path / 'second' / 'model.ckpt-0'))
    for name in ('slope', 'slope/ExponentialMovingAverage'):
        assert start.get_tensor(name) == pytest.approx(slope_after(2), rel=1e-6)


def steps_by_tag(folder):
    """The global steps at which events were written."""
    found = {}
    for path in glob.glob(f'{folder}/events*'):
        for event in tf1.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(event.step)
    return found


def test_histograms_pictures_and_a_profile_are_written(config, tmp_path):
    reports = config.train_config.progress
    reports.summary_every_n_steps, reports.pictures_every_n_steps = 3, 2
    reports.summarize_variables = True
    reports.profile_step = 6
    train(config, tmp_path / 'run')
    found = steps_by_tag(tmp_path / 'run')
    assert found['variables/slope'] == [1, 3, 6]
    assert found['loss'] == [1, 2, 3, 4, 6]  # of each checkpoint too
    trace = json.loads((tmp_path / 'run' / 'profile' / 'trace_step_6.json').read_text())
    assert any('Iterator' in event['name'] for event in trace['traceEvents'])


def test_histograms_are_written_at_the_end_of_calls_of_several_steps(config, tmp_path):
    config.train_config.checkpoints.save_every_n_steps = 100
    config.train_config.progress.every_n_steps = 100
    config.train_config.progress.summary_every_n_steps = 5
    config.train_config.progress.summarize_variables = True
    config.train_config.steps_per_call = 10
    train(config, tmp_path / 'run', num_steps=12)
    assert steps_by_tag(tmp_path / 'run')['variables/slope'] == [1, 5, 10]


def test_the_only_worker_of_a_cluster_trains_by_functions_too(config, tmp_path, monkeypatch, log):
    addresses = {'worker': curve_cases.free_addresses(1)}
    task = {'cluster': addresses, 'task': {'type': 'worker', 'index': 0}}
    monkeypatch.setenv('TF_CONFIG', json.dumps(task))
    config.train_config.cluster.mode = cluster_pb2.ClusterConfig.MULTI_WORKER_MIRRORED
    train(config, tmp_path / 'run')
    assert saved(tmp_path / 'run')['slope'] == pytest.approx(slope_after(6), rel=1e-5)
    assert not list((tmp_path / 'run').glob('*.meta'))  # which Estimators write
    assert 'the job is finished: step 6 (num_steps)' in log.text


class Calls:
    """Hooks of one worker, who want to stop after so many calls."""

    def __init__(self, most):
        self.counts, self._most = [], most

    def before(self, count):
        self.counts.append(count)

    def after(self, count, each, last, trace):
        self.session.step += count

    @property
    def should_stop(self):
        return len(self.counts) >= self._most


def test_workers_make_the_same_calls_and_stop_together(monkeypatch):
    """However long a step takes each of them, and whoever wants to stop."""
    workers = [Calls(most) for most in (1000, 6)]
    barrier, wishes = threading.Barrier(2), [None, None]

    def run(index, seconds):
        own = workers[index]
        own.session = types.SimpleNamespace(step=0)
        lengths = call_lengths.CallLengths(0, [7])

        def agreed(values):
            wishes[index] = [values[0], seconds * own.counts[-1]]
            barrier.wait(60)
            mean = np.mean(wishes, axis=0)
            barrier.wait(60)
            return mean

        trainer._train(lambda count: ([], []), own, lengths, agreed, own.session, 1000)

    threads = [threading.Thread(target=run, args=one) for one in enumerate((0.1, 0.7))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # 0.4 s a step on average: two in a second; and calls end at multiples of 7.
    assert workers[0].counts == workers[1].counts == [1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize('mean, is_refused', [(4.0, False), (2.0, True)])
def test_workers_begin_at_one_step(mean, is_refused):
    expected = pytest.raises(errors.ClusterError, match='begins at step 4, and all begin at 2 on')
    with expected if is_refused else contextlib.nullcontext():
        trainer._check_start(lambda values: [mean], 4, 'here')


def test_without_eager_execution_it_is_refused(config, tmp_path):
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match='needs eager execution'):
        train(config, tmp_path / 'run')


@pytest.mark.parametrize(
    'name',
    ['auto_mixed_precision', 'auto_mixed_precision_onednn_bfloat16', 'disable_meta_optimizer'],
)
def test_functions_are_compiled_with_the_rewrites_of_a_session(name):
    """By the options that functions get, for TensorFlow ignores one that it does not know."""

    def options_of_functions():
        options = tf1.ConfigProto.FromString(
            context.context().function_call_options.config_proto_serialized
        )
        return getattr(options.graph_options.rewrite_options, name)

    before = options_of_functions()
    session_config = tf1.ConfigProto()
    rewrites = session_config.graph_options.rewrite_options
    for value in (True, False):
        is_switch = name == 'disable_meta_optimizer'
        wanted = value if is_switch else rewrites.ON if value else rewrites.OFF
        setattr(rewrites, name, wanted)
        with trainer._rewrites(session_config):
            assert options_of_functions() == wanted
    assert options_of_functions() in (before, rewrites.OFF)
