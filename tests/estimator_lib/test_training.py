"""The engine around a toy task: a line fitted to points, so that every number is known."""

import contextlib
import csv
import json
import logging
import re
import shutil
import signal
import threading
import warnings

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.distribution import half_types
from estimator_lib.export import export_folders, exporting, saved_model
from estimator_lib.hooks import summaries
from estimator_lib.processes import preemption
from protos import cluster_pb2, train_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line, error_after, slope_after
from tests.estimator_lib.tiny_task import Presented

tf1 = tf.compat.v1


@pytest.fixture
def config(tmp_path):
    """The config of a run with one evaluation set: another one is a fifth of its time."""
    config = line_task.create_config(tmp_path)
    del config.eval_input_reader[1:]
    return config


def saved_slope(model_dir):
    return tf.train.load_variable(str(model_dir), 'slope')


def read_results(run, *columns):
    """The cells of results.csv, line by line."""
    with open(run / 'results.csv', newline='') as file:
        return [tuple(float(row[name]) for name in columns) for row in csv.DictReader(file)]


def evaluated_in(run):
    """The steps of the lines of results.csv."""
    return [step for (step,) in read_results(run, 'step')]


def read_starts(run):
    return json.loads((run / 'run.json').read_text())['starts']


def loss_of(step):
    """The loss of a step of training, by hand."""
    x = np.array([(1.0, 2.0), (3.0, 4.0)][(step - 1) % 2])
    return np.mean(np.square((slope_after(step - 1) - 3.0) * x))


def test_sessions_take_a_part_of_each_gpu(tmp_path):
    config = line_task.create_config(tmp_path)
    for fraction in (0.0, 0.25):
        config.train_config.per_process_gpu_memory_fraction = fraction
        gpu = training.create_run_config(config, str(tmp_path)).session_config.gpu_options
        assert (gpu.per_process_gpu_memory_fraction, gpu.allow_growth) == (fraction, True)


@pytest.mark.usefixtures('drawn_curves')
@pytest.mark.parametrize('loop', ['ESTIMATOR', 'TF_FUNCTION'])
def test_it_descends_as_computed_by_hand_and_reports_all_sets(tmp_path, loop):
    config = line_task.create_config(tmp_path)
    config.train_config.loop = train_pb2.TrainingLoop.Value(loop)
    metrics = training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    slope = slope_after(6)
    assert saved_slope(tmp_path / 'run') == pytest.approx(slope, rel=1e-5)
    error = error_after(6)
    for name in ('0', 'again'):
        assert metrics[name]['error'] == pytest.approx(error, rel=1e-4)
    # 30 = 1 + 4 + 9 + 16, over four examples in batches of 3 and 1: a mean over examples.
    assert metrics['0']['Loss/squared'] == pytest.approx((slope - 3) ** 2 * 30 / 4, rel=1e-3)
    written = json.loads((tmp_path / 'run' / 'metrics.json').read_text())
    assert written['global_step'] == 6 and written['again']['error'] == metrics['again']['error']
    # The scalars of a step are recorded after the first step, and where a checkpoint is saved.
    of_training = [(loss_of(1) + loss_of(2)) / 2, loss_of(4), loss_of(6)]
    columns = 'step', 'train/Loss/squared', 'learning_rate', 'eval_0/error', 'eval_again/error'
    assert read_results(tmp_path / 'run', *columns) == [
        pytest.approx((step, loss, 0.05, error_after(step), error_after(step)), rel=1e-3)
        for step, loss in zip((2, 4, 6), of_training)
    ]
    assert all(rate > 0 for (rate,) in read_results(tmp_path / 'run', 'examples_per_second'))
    assert (tmp_path / 'run' / 'results.png').read_bytes().startswith(b'\x89PNG')
    (start,) = read_starts(tmp_path / 'run')
    assert (start['status'], start['last_step']) == ('finished', 6)
    assert list(start['data']) == ['train', 'eval_0', 'eval_again']


@pytest.mark.usefixtures('drawn_curves')
def test_training_and_then_evaluation_leave_the_same_line(config, tmp_path):
    config.train_config.num_steps = 4
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    assert not (tmp_path / 'run' / 'results.csv').exists()
    for _ in range(2):
        training.evaluate(Line(), config, str(tmp_path / 'run'))
        (line,) = read_results(tmp_path / 'run', 'step', 'train/Loss/squared', 'eval_0/error')
        mean = (loss_of(1) + loss_of(2) + loss_of(4)) / 3
        assert line == pytest.approx((4, mean, error_after(4)), rel=1e-3)
        (tmp_path / 'run' / 'results.png').unlink()
    assert len(read_starts(tmp_path / 'run')) == 1


def event_threads():
    """The threads that write events: one for each writer that is open."""
    return {each for each in threading.enumerate() if 'EventLogger' in type(each).__name__}


def test_a_run_in_a_folder_that_was_deleted_has_its_events(config, tmp_path):
    """Beside a folder whose name begins with that of the run."""
    other = summaries.get_writer(str(tmp_path / 'run_of_others'))
    threads = event_threads()
    for _ in range(2):
        shutil.rmtree(tmp_path / 'run', ignore_errors=True)
        training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
        assert event_threads() == threads
        columns = 'step', 'train/Loss/squared'
        assert read_results(tmp_path / 'run', *columns)[-1] == pytest.approx((6, loss_of(6)), 1e-3)
        assert len(list((tmp_path / 'run').glob('events.*'))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # it warns if it is closed
        other.add_summary(tf1.Summary())
    other.close()


def test_keep_max_and_cadence_are_obeyed(config, tmp_path):
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    steps = sorted(path.name for path in (tmp_path / 'run').glob('model.ckpt-*.index'))
    assert steps == ['model.ckpt-4.index', 'model.ckpt-6.index']


def test_a_second_run_resumes_with_the_next_examples(config, tmp_path):
    config.train_config.num_steps = 3
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    config.train_config.num_steps = 6
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    assert saved_slope(tmp_path / 'run') == pytest.approx(slope_after(6), rel=1e-5)


def test_a_longer_run_goes_on_where_the_learning_rate_began_to_cool_down(config, tmp_path, log):
    rate = config.train_config.optimizer.sgd_optimizer.learning_rate
    schedule = rate.warmup_stable_decay_learning_rate
    schedule.learning_rate_base = 0.02
    schedule.cool_down_steps = 2
    config.train_config.checkpoints.save_every_n_steps = 2

    def train(name, num_steps):
        config.train_config.num_steps = num_steps
        training.train_and_evaluate(Line(), config, str(tmp_path / name), evaluate=False)
        return saved_slope(tmp_path / name)

    short = train('run', 6)
    assert train('run', 6) == short  # a finished run stays as it is
    assert 'training continues' not in log.text
    longer = train('run', 10)
    assert 'training continues at step 4, not at 6: the cool-down' in log.text
    assert longer == train('at_once', 10)
    assert longer != short


def list_by_path(run):
    """Rewrite the list of a folder as programs do that save with absolute paths."""
    names = [path.stem for path in sorted(run.glob('model.ckpt-*.index'))]
    lines = [f'all_model_checkpoint_paths: "{run / name}"' for name in names]
    lines = [f'model_checkpoint_path: "{run / names[-1]}"', *lines]
    (run / 'checkpoint').write_text('\n'.join(lines))


@pytest.fixture
def begun(config, tmp_path):
    """A config and a run of 3 steps, whose `checkpoint` has absolute paths."""
    config.train_config.num_steps = 3
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    list_by_path(tmp_path / 'run')
    config.train_config.num_steps = 6
    return config, tmp_path / 'run'


@pytest.mark.parametrize('how', ['ESTIMATOR', 'TF_FUNCTION', 'Estimator.train'])
def test_a_moved_folder_resumes_weights_and_the_position_of_the_reader(begun, log, how):
    config, run = begun
    moved = run.rename(run.parent / 'moved')
    if how == 'Estimator.train':
        input_fn = training.train_input_fn(Line(), config)
        training.create_estimator(Line(), config, str(moved)).train(input_fn, max_steps=6)
    else:
        config.train_config.loop = train_pb2.TrainingLoop.Value(how)
        training.train_and_evaluate(Line(), config, str(moved), evaluate=False)
    # Step 4 takes the second batch: with the first one again, the slope is another.
    assert saved_slope(moved) == pytest.approx(slope_after(6), rel=1e-5)
    (said,) = [text for text in log.messages if 'was moved or copied' in text]
    assert f'listed {run}/model.ckpt-3' in said and f'the latest {moved}/model.ckpt-3' in said
    assert str(run.parent) not in (moved / 'checkpoint').read_text()
    assert not run.exists()


@pytest.mark.parametrize('loop', ['ESTIMATOR', 'TF_FUNCTION'])
def test_a_copied_folder_leaves_the_original_alone(begun, loop):
    config, run = begun
    copy = run.parent / 'copy'
    shutil.copytree(run, copy)
    config.train_config.loop = train_pb2.TrainingLoop.Value(loop)
    training.train_and_evaluate(Line(), config, str(run), evaluate=False)
    config.train_config.num_steps = 5
    list_by_path(run)  # of the steps 5 and 6; the copy has that of step 3
    listed = (run / 'checkpoint').read_text()
    (copy / 'checkpoint').write_text(listed.replace('ckpt-6', 'ckpt-3'))
    before = sorted(path.name for path in run.glob('model.ckpt-*'))
    training.train_and_evaluate(Line(), config, str(copy), evaluate=False)
    assert saved_slope(copy) == pytest.approx(slope_after(5), rel=1e-5)
    assert sorted(path.name for path in run.glob('model.ckpt-*')) == before


def evaluated_steps(caplog, name='eval_input_reader[0] (points.tfrecord)'):
    found = []
    for record in caplog.records:
        message = record.getMessage()
        if message.startswith(f'evaluation on {name}, step '):
            found.append(int(message.split('step ')[1].split(',')[0]))
    return found


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, logger='estimator_lib')
    return caplog


def test_evaluations_are_throttled_but_for_the_last(config, tmp_path, log):
    config.eval_config.schedule.throttle_steps = 5
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert evaluated_steps(log) == [6]
    config.eval_config.schedule.throttle_steps = 0
    config.eval_config.schedule.start_delay_seconds = 1000
    training.train_and_evaluate(Line(), config, str(tmp_path / 'late'))
    assert evaluated_steps(log) == [6, 6]


def test_a_schedule_can_switch_evaluations_off(config, tmp_path, log):
    config.eval_config.schedule.enabled = False
    assert training.train_and_evaluate(Line(), config, str(tmp_path / 'run')) == {}
    assert evaluated_steps(log) == []


def test_training_ends_when_evaluations_get_no_better(config, tmp_path, log):
    # The error falls all the time: going up is never an improvement after the first.
    stopping = config.train_config.early_stopping
    stopping.metric, stopping.patience_evaluations = 'error', 2
    stopping.higher_is_better = True
    config.train_config.num_steps = 40
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert evaluated_steps(log) == evaluated_in(tmp_path / 'run') == [2, 4, 6]
    assert [start['status'] for start in read_starts(tmp_path / 'run')] == ['finished']


@pytest.mark.parametrize('metric', ['error', 'Loss/squared'])
def test_a_loss_that_falls_does_not_stop_training(config, tmp_path, metric):
    stopping = config.train_config.early_stopping
    stopping.metric, stopping.patience_evaluations = metric, 1
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 6


@pytest.mark.parametrize('loop', ['ESTIMATOR', 'TF_FUNCTION'])
def test_a_run_beyond_its_last_step_says_that_nothing_is_trained(config, tmp_path, log, loop):
    config.train_config.loop = train_pb2.TrainingLoop.Value(loop)
    run = tmp_path / 'run'
    training.train_and_evaluate(Line(), config, str(run), evaluate=False)
    config.train_config.num_steps = 4
    training.train_and_evaluate(Line(), config, str(run), evaluate=False)
    (said,) = (one for one in log.records if 'nothing is trained' in one.getMessage())
    assert said.levelno == logging.WARNING
    assert said.getMessage().endswith('of step 6, and num_steps is 4')
    assert checkpoint_files.latest_step(str(run)) == 6


def test_training_examples_are_evaluated_too_when_asked(config, tmp_path, log):
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), eval_training_data=2)
    assert evaluated_steps(log, 'training_data') == [2, 4, 6]


@pytest.mark.parametrize('field', ['export_config.best', 'train_config.early_stopping'])
def test_an_unknown_metric_is_refused_before_training(config, tmp_path, field):
    message = config
    for name in field.split('.'):
        message = getattr(message, name)
    message.metric = 'eror'
    with pytest.raises(errors.ConfigError) as caught:
        training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    said = str(caught.value)
    assert said.startswith(f"{field}.metric: line has no metric 'eror'; did you mean 'error'?")
    assert 'Loss/squared' in said
    assert not list((tmp_path / 'run').glob('model.ckpt*'))


class Killed(BaseException):
    """Stands for what no code sees coming."""


def test_the_graph_hook_reaches_every_graph_of_a_run(config, tmp_path):
    """Training, evaluation, and the exports: best, latest and final are one graph."""
    seen = []

    def hook():
        graph = tf1.get_default_graph()
        names = {operation.name for operation in graph.get_operations()}
        seen.append(any('gradients/' in name for name in names))
        (slope,) = tf1.global_variables('slope')
        tf.identity(slope, 'hooked')

    config.train_config.num_steps = 2
    config.export_config.best.metric = 'error'
    config.export_config.latest.SetInParent()
    config.export_config.final.enabled = True
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), graph_hook_fn=hook)
    assert seen == [False, False, False]  # before the gradients: training, evaluation, one export
    for name in ('best', 'latest', 'final'):
        assert len(export_folders.list_exports(str(tmp_path / 'run' / 'export' / name))) == 1


def test_the_graph_hook_reaches_the_final_export_of_a_run_without_evaluations(config, tmp_path):
    seen = []
    config.train_config.num_steps = 1
    config.export_config.final.enabled = True
    training.train_and_evaluate(
        Line(), config, str(tmp_path), evaluate=False, graph_hook_fn=lambda: seen.append(1)
    )
    assert seen == [1, 1]


def exports(run):
    """How many exports there are of each kind."""
    folders = sorted((run / 'export').iterdir())
    return {folder.name: len(export_folders.list_exports(str(folder))) for folder in folders}


def test_a_finished_run_that_is_started_again_adds_no_export(config, tmp_path):
    config.train_config.num_steps = 2
    config.export_config.best.metric = 'error'
    config.export_config.latest.SetInParent()
    config.export_config.final.enabled = True
    once = {'best': 1, 'latest': 1, 'final': 1}
    for _ in range(2):
        training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
        assert exports(tmp_path / 'run') == once
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    assert exports(tmp_path / 'run') == once
    # Another model at the same step is another export.
    for path in (tmp_path / 'run').glob('*ckpt*'):
        path.unlink()
    (tmp_path / 'run' / 'checkpoint').unlink()
    line_task.write_points(tmp_path / 'points.tfrecord', (2.0, 2.0, 3.0, 4.0))
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    assert exports(tmp_path / 'run')['final'] == 2


@pytest.fixture
def stopped(config, tmp_path):
    """The folder of a run that early stopping has ended at step 6."""
    stopping = config.train_config.early_stopping
    stopping.metric, stopping.patience_evaluations = 'error', 2
    stopping.higher_is_better = True
    config.train_config.num_steps = 40
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 6
    return tmp_path / 'run'


def test_a_run_that_early_stopping_has_ended_does_not_go_on(config, stopped):
    metrics = training.train_and_evaluate(Line(), config, str(stopped))
    assert checkpoint_files.latest_step(str(stopped)) == 6
    assert metrics['0']['error'] == pytest.approx(error_after(6), rel=1e-4)
    # More patience: one more evaluation, and that is it.
    config.train_config.early_stopping.patience_evaluations = 3
    training.train_and_evaluate(Line(), config, str(stopped))
    assert checkpoint_files.latest_step(str(stopped)) == 8
    assert evaluated_in(stopped) == [2, 4, 6, 8]
    # The second call trained nothing.
    assert [start['first_step'] for start in read_starts(stopped)] == [0, 6]


def test_early_stopping_starts_anew_where_checkpoints_are_deleted(config, stopped, log):
    for path in [*stopped.glob('model.ckpt-*'), stopped / 'checkpoint']:
        path.unlink()
    log.clear()
    earlier = (stopped / 'results.csv').read_text()
    training.train_and_evaluate(Line(), config, str(stopped))
    assert evaluated_steps(log) == evaluated_in(stopped) == [2, 4, 6]
    assert (stopped / 'results.1.csv').read_text() == earlier
    assert checkpoint_files.latest_step(str(stopped)) == 6


def killed_while_evaluating(config, run, step, monkeypatch, error):
    """A run that ends while it evaluates the checkpoint of a step."""

    def finish_metrics(self, values):
        if values['step'] == step:
            raise error
        return {'error': float(values['error'])}

    def metrics(self, outputs, features, labels):
        return {
            'error': tf1.metrics.mean(tf.abs(outputs['y'] - labels['y'])),
            'step': tf1.metrics.mean(tf1.train.get_global_step()),
        }

    with monkeypatch.context() as patch:
        patch.setattr(Line, 'metrics', metrics)
        patch.setattr(Line, 'finish_metrics', finish_metrics)
        with pytest.raises(type(error)):
            training.train_and_evaluate(Line(), config, str(run))
    assert checkpoint_files.latest_step(str(run)) == step


@pytest.mark.parametrize('delay', [0, 1000])
def test_an_evaluation_that_was_killed_is_made_first_after_a_restart(
    config, tmp_path, log, monkeypatch, delay
):
    run = tmp_path / 'run'
    config.export_config.best.metric = 'error'
    config.export_config.best.higher_is_better = True  # the first is the best
    killed_while_evaluating(config, run, 2, monkeypatch, Killed())
    log.clear()
    config.eval_config.schedule.start_delay_seconds = delay
    training.train_and_evaluate(Line(), config, str(run))
    assert evaluated_steps(log) == ([2, 6] if delay else [2, 4, 6])
    assert evaluated_in(run) == evaluated_steps(log)
    best = json.loads((run / 'export' / 'best' / 'best.json').read_text())
    assert best['step'] == 2


def test_early_stopping_counts_an_evaluation_that_was_killed(config, tmp_path, monkeypatch):
    stopping = config.train_config.early_stopping
    stopping.metric, stopping.patience_evaluations = 'error', 2
    stopping.higher_is_better = True
    killed_while_evaluating(config, tmp_path / 'run', 6, monkeypatch, Killed())
    config.train_config.num_steps = 40
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 6


def test_a_run_of_more_steps_does_not_evaluate_again_what_it_begins_with(config, tmp_path, log):
    config.train_config.num_steps = 4
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    config.train_config.num_steps = 6
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert evaluated_steps(log) == evaluated_in(tmp_path / 'run') == [2, 4, 6]


@pytest.mark.usefixtures('drawn_curves')
def test_checkpoints_of_another_folder_are_watched_until_the_last(config, tmp_path, log):
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    metrics = training.evaluate_checkpoints(
        Line(), config, str(tmp_path / 'watch'), str(tmp_path / 'run'), poll_seconds=0.1
    )
    assert evaluated_steps(log) == [6]
    assert metrics['0']['error'] == pytest.approx(error_after(6), rel=1e-4)
    ((step, rate),) = read_results(tmp_path / 'watch', 'step', 'learning_rate')
    assert (step, rate) == (6, 0.05) and (tmp_path / 'watch' / 'results.png').exists()


def test_training_computes_in_bfloat16_and_evaluation_does_not(config, monkeypatch):
    monkeypatch.setattr(half_types, 'multiplies_bfloat16', lambda: True)
    config.train_config.use_bfloat16 = True
    for trains in (True, False):
        session_config = training.create_run_config(config, None, trains=trains).session_config
        options = session_config.graph_options.rewrite_options
        assert (options.auto_mixed_precision_onednn_bfloat16 == options.ON) is trains


@pytest.mark.parametrize(('mode', 'policy'), [('AUTO', 'SKIP_STEP'), ('CLONES', 'WARN')])
def test_a_step_that_is_not_finite_is_left_out_and_counted(config, tmp_path, log, policy, mode):
    path = config.train_input_reader.tf_record_input_reader.input_path[0]
    line_task.write_points(path, (1.0, 2.0, 3.0, float('nan')))
    config.train_config.non_finite_loss_policy = train_pb2.NonFiniteLossPolicy.Value(policy)
    config.train_config.cluster.mode = cluster_pb2.ClusterConfig.Mode.Value(mode)
    config.train_config.cluster.num_clones = 2 if mode == 'CLONES' else 0
    # The last step is one of them, and its checkpoint is whole.
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    assert saved_slope(tmp_path / 'run') == pytest.approx(slope_after(3, [(1.0, 2.0)]), rel=1e-5)
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 6
    assert "step 2: the loss squared is nan (learning rate 0.05; images '3" in log.text


def test_so_many_steps_in_a_row_that_are_not_finite_end_the_run(config, tmp_path):
    path = config.train_input_reader.tf_record_input_reader.input_path[0]
    nan = float('nan')
    line_task.write_points(path, (1, 2, 1, nan, 1, nan, 1, 2, 1, nan, nan, 1, 1, nan))
    config.train_config.non_finite_loss_policy = train_pb2.SKIP_STEP
    config.train_config.max_skipped_steps = 3
    config.train_config.num_steps = 20
    with pytest.raises(errors.UserError, match='step 7: .* the last of 3 such steps in a row'):
        training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    assert saved_slope(tmp_path / 'run') == pytest.approx(slope_after(2, [(1.0, 2.0)]), rel=1e-5)


class Averaging(Line):
    """Keeps a moving statistic of its images, as batch norm does, and adds it to no collection."""

    def predict(self, features, mode, labels=None):
        mean = tf1.get_variable(
            'mean',
            [],
            initializer=tf1.zeros_initializer(),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        if mode == 'train':
            update = mean.assign(tf.reduce_max(features['image']), read_value=False)
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
        return super().predict(features, mode, labels)


@pytest.mark.parametrize(
    ('policy', 'nan_first'), [('SKIP_STEP', False), ('SKIP_STEP', True), ('WARN', True)]
)
def test_replicas_of_a_strategy_leave_out_a_step_together(config, tmp_path, policy, nan_first):
    path = config.train_input_reader.tf_record_input_reader.input_path[0]
    broken = (float('nan'), 3.0) if nan_first else (3.0, float('nan'))
    line_task.write_points(path, (1.0, 2.0, *broken))
    config.train_config.non_finite_loss_policy = train_pb2.NonFiniteLossPolicy.Value(policy)
    config.train_config.cluster.mode = cluster_pb2.ClusterConfig.MIRRORED
    config.train_config.cluster.num_clones = 2
    training.train_and_evaluate(Averaging(), config, str(tmp_path / 'run'), evaluate=False)
    assert saved_slope(tmp_path / 'run') == pytest.approx(slope_after(3, [(1.0, 2.0)]), rel=1e-5)
    # Of the first replica, whose example of a whole step is 1.
    assert tf.train.load_variable(str(tmp_path / 'run'), 'mean') == 1.0
    assert checkpoint_files.latest_step(str(tmp_path / 'run')) == 6


def test_the_best_checkpoint_stays_and_can_be_started_from(config, tmp_path):
    # The error falls all the time: where it is to rise, the first evaluation is the best one.
    config.export_config.best.metric = 'error'
    config.export_config.best.higher_is_better = True
    config.train_config.checkpoints.keep_max = 1
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert not list((tmp_path / 'run').glob('model.ckpt-2.*'))
    best = str(tmp_path / 'run' / 'best')
    assert checkpoint_files.checkpoint_step(checkpoint_files.resolve_checkpoint(best)) == 2
    assert saved_slope(best) == pytest.approx(slope_after(2), rel=1e-5)
    config.train_config.num_steps = 8  # another start; no evaluation is better
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert saved_slope(best) == pytest.approx(slope_after(2), rel=1e-5)
    metrics = training.evaluate(Line(), config, str(tmp_path / 'other'), best)
    assert metrics['0']['error'] == pytest.approx(error_after(2), rel=1e-4)
    exporting.export(
        Line(),
        config,
        checkpoint_files.resolve_checkpoint(best),
        str(tmp_path / 'export'),
        saved_model.SavedModelWriter(),
    )
    config.train_config.fine_tune_checkpoint = best
    config.train_config.num_steps = 1
    training.train_and_evaluate(Line(), config, str(tmp_path / 'tuned'), evaluate=False)
    # A step on the examples 1 and 2, whose gradient is 2 (slope - 3) 2.5.
    slope = slope_after(2)
    slope -= 0.05 * 2 * (slope - 3.0) * 2.5
    assert saved_slope(tmp_path / 'tuned') == pytest.approx(slope, rel=1e-5)


class Titled(Presented, Line):
    """Draws its targets, and has a title for its metric."""

    def metric_title(self, name):
        return f'{name} (of the line)' if name == 'error' else name

    def draw(self, features, outputs, labels=None):
        assert not outputs
        return np.full([2, 2, 3], int(labels['y']), np.uint8)


def test_what_a_run_says_is_in_model_dir(config, tmp_path, log):
    run = tmp_path / 'run'
    config.train_config.num_steps = 4
    config.train_config.progress.pictures_every_n_steps = 2
    training.train_and_evaluate(Titled(), config, str(run))
    config.train_config.num_steps = 6
    training.train_and_evaluate(Titled(), config, str(run))
    text = (run / 'log.txt').read_text()
    # At the steps 2, 4 and 6.
    assert len(re.findall(r'  error \(of the line\) +[\d.]+$', text, re.MULTILINE)) == 3
    assert re.findall('resuming from step [0-9]+', text) == ['resuming from step 4']
    assert json.loads((run / 'metrics.json').read_text())['0'].keys() >= {'error'}
    drawn = set()
    for path in run.glob('events*'):
        for event in tf1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.HasField('image'):
                    pixel = tf.io.decode_png(value.image.encoded_image_string)[0, 0, 0]
                    drawn.add((event.step, value.tag, int(pixel)))
    # Batches are 1, 2 and 3, 4 in turn; the targets are three times that.
    steps = {1: (3, 6), 2: (9, 12), 4: (9, 12), 5: (3, 6), 6: (9, 12)}
    assert drawn == {
        (step, f'training/{index}', y) for step, ys in steps.items() for index, y in enumerate(ys)
    }


class Interrupting(Line):
    """A user presses Ctrl-C while the graph is built; notes who handles signals by then."""

    def predict(self, features, mode, labels=None):
        self.handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        signal.raise_signal(signal.SIGINT)
        return super().predict(features, mode, labels)


@pytest.mark.parametrize('call', ['train_and_evaluate', 'evaluate', 'evaluate_checkpoints'])
@pytest.mark.parametrize('guarded', [False, True])
def test_the_library_handles_signals_on_request_only(config, tmp_path, call, guarded):
    run, task = str(tmp_path / 'run'), Interrupting()
    arguments = [task, config, run]
    if call != 'train_and_evaluate':
        training.train_and_evaluate(Line(), config, run, evaluate=False)
    if call == 'evaluate_checkpoints':
        arguments.append(run)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    guard = preemption.preemption_guard() if guarded else contextlib.nullcontext()
    expected = preemption.Preempted if guarded else KeyboardInterrupt
    with pytest.raises(expected), guard:
        getattr(training, call)(*arguments)
    assert (task.handlers == before) is not guarded
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


class Mover(tf_estimator.SessionRunHook, tf1.train.CheckpointSaverListener, tf_estimator.Exporter):
    """Moves the folder of the run at a stage of it: `step`, `save` or `export`."""

    name = 'mover'

    def __init__(self, folder, stage):
        self._folder, self._stage = folder, stage
        self._is_done = False

    def _move(self, stage):
        if stage == self._stage and not self._is_done:
            self._is_done = True
            self._folder.rename(self._folder.with_name('moved'))

    def after_run(self, run_context, run_values):
        self._move('step')

    def after_save(self, session, global_step_value):
        self._move('save')

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        self._move('export')


@pytest.mark.parametrize('stage', ['step', 'save', 'export'])
@pytest.mark.parametrize('loop', [train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION])
def test_a_run_whose_folder_is_moved_ends_with_a_sentence(config, tmp_path, loop, stage):
    config.train_config.loop = loop
    run = tmp_path / 'run'
    mover = Mover(run, stage)
    with pytest.raises(errors.UserError, match=f'^the folder {run} is gone: it was deleted or'):
        training.train_and_evaluate(
            Line(), config, str(run), hooks=[mover], saving_listeners=[mover], exporters=[mover]
        )
    assert (tmp_path / 'moved' / 'log.txt').exists()


@pytest.mark.parametrize('run_once', [None, False, True])
def test_an_evaluation_whose_folder_is_moved_ends_with_a_sentence(config, tmp_path, run_once):
    run = tmp_path / 'run'
    training.train_and_evaluate(Line(), config, str(run), evaluate=False)

    class Moving(Line):
        def postprocess(self, predictions, features):
            if run.exists():
                run.rename(tmp_path / 'moved')
            return predictions

    with pytest.raises(errors.UserError, match=f'^the folder {run} is gone'):
        if run_once is None:
            training.evaluate(Moving(), config, str(run))
        else:
            training.evaluate_checkpoints(
                Moving(), config, str(run), str(run), run_once=run_once, max_retries=-1
            )
