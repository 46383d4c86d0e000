"""What `--mode=check` says of a run."""

import platform

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.commands import check
from estimator_lib.config import metric_choices
from estimator_lib.distribution import half_types
from estimator_lib.task import IMAGE, SOURCE_ID, DataChecks, DataReport
from protos import input_reader_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line


@pytest.fixture
def config(tmp_path):
    made = line_task.create_config(tmp_path)
    made.model.classification.num_classes = 2
    made.model.classification.backbone.name = 'mobilenet_v1'
    return made


@pytest.fixture
def training(config):
    """The config without evaluation sets, for what is said of the training."""
    del config.eval_input_reader[:]
    return config


def test_it_prints_the_plan(config, capsys):
    check.check(lambda _: Line(), config)
    said = capsys.readouterr().out
    assert 'train_input_reader: 4 examples in 1 file' in said
    assert 'epochs: 3.0' in said
    assert 'lr: 0.05 -> 0.05 over 6 steps' in said
    assert 'checkpoints: every 2 steps, the last 2 stay' in said
    assert 'parameters: 1 in 1 variables, 1 in 1 trained' in said


def test_it_names_the_versions_and_gpus_without_code(training, capsys, monkeypatch):
    build = {'cuda_compute_capabilities': ['sm_89', 'compute_90']}
    monkeypatch.setattr(tf.sysconfig, 'get_build_info', lambda: build)
    monkeypatch.setattr(half_types, 'gpu_capabilities', lambda: [(12, 0)])
    first, second, *_ = run(training, capsys)[0].splitlines()
    assert first.startswith(f'Python {platform.python_version()}, TensorFlow {tf.__version__}')
    assert first.endswith('; TensorFlow has code for GPUs of compute capability 8.9, 9.0')
    assert second.startswith("warning: this machine's GPUs have compute capability 12.0, and ")


@pytest.mark.parametrize('gains', [True, False])
def test_it_says_what_bfloat16_does_here(training, capsys, monkeypatch, gains):
    monkeypatch.setattr(half_types, 'multiplies_bfloat16', lambda: gains)
    assert 'precision' not in run(training, capsys)[0]
    training.train_config.use_bfloat16 = True
    said, raised = run(training, capsys)
    assert not raised
    # A line has no products at all.
    assert ('precision: training stays float32 because bfloat16 would be' in said) is gains
    assert ('precision: float32' in said) is not gains
    assert ('warning: train_config.use_bfloat16 gains nothing on this proc' in said) is not gains


def test_it_collects_all_problems(config):
    config.export_config.best.metric = 'eror'
    del config.eval_input_reader[1:]
    config.eval_input_reader[0].tf_record_input_reader.input_path[:] = ['/nowhere/*']
    with pytest.raises(errors.UserError) as caught:
        check.check(lambda _: Line(), config)
    said = str(caught.value)
    assert 'eror' in said and '/nowhere/*' in said and '2 problems found' in said


class Measuring(Line):
    def metric_names(self):
        return ('error', 'height')


def test_it_refuses_early_stopping_on_a_metric_of_unknown_direction(config, capsys):
    del config.eval_input_reader[1:]
    stopping = config.train_config.early_stopping
    stopping.metric = 'height'
    assert run(config, capsys, Measuring())[1] == (
        '1 problem found:\ntrain_config.early_stopping.higher_is_better is not set, and the name '
        "of the metric, 'height', does not say whether larger values are better; expected true or "
        'false.'
    )
    stopping.higher_is_better = True
    assert run(config, capsys, Measuring())[1] == ''


def test_early_stopping_takes_the_direction_of_a_loss(config, capsys):
    del config.eval_input_reader[1:]
    config.train_config.early_stopping.metric = 'loss'
    said, raised = run(config, capsys)
    assert raised == '' and said.endswith('no problem found\n')
    assert metric_choices.higher_is_better(config.train_config.early_stopping) is False


def test_each_problem_counts_once(config):
    """Validation lists three in one message; later checks meet the placeholder again."""
    config.train_config.batch_size = 0
    config.eval_config.batch_size = 0
    path = 'PATH_TO_BE_CONFIGURED/train.tfrecord'
    config.train_input_reader.tf_record_input_reader.input_path[:] = [path]
    config.eval_input_reader[1].tf_record_input_reader.input_path[:] = ['/nowhere/*']
    with pytest.raises(errors.UserError) as caught:
        check.check(lambda _: Line(), config)
    count, *lines = str(caught.value).splitlines()
    assert count == '4 problems found:'
    assert len(lines) == 4 and sum(path in line for line in lines) == 1


def run(config, capsys, task=None):
    """Run the check; return its output and its error."""
    raised = ''
    try:
        check.check(lambda _: task or Line(), config)
    except errors.UserError as error:
        raised = str(error)
    return capsys.readouterr().out, raised


class TellingChecks(DataChecks):
    """Says of its examples what it was told of them; refuses negative ones."""

    def check_example(self, serialized):
        x = self.examine(serialized)
        return f'{x:g} is negative' if x < 0 else None

    def examine(self, serialized):
        features = tf.train.Example.FromString(serialized).features.feature
        return features['x'].float_list.value[0]

    def data_report(self, examined):
        lines = [f'{name}: {values}' for name, values in examined.items()]
        return DataReport(lines, ['the numbers are odd'])


class Telling(Line):
    checks = TellingChecks()


def test_each_kind_of_problem_is_said_once(config, tmp_path, capsys):
    path = tmp_path / 'points.tfrecord'
    line_task.write_points(path, [-1.0, 1.0, -2.5, -3.0, 4.0, -5e-9])
    said, raised = run(config, capsys, Telling())
    places = f'{path}, record 0; {path}, record 2; {path}, record 3; and 1 more'
    assert raised.split('\n') == [
        '3 problems found:',
        f'train_input_reader: 4 records like this: -1 is negative ({places})',
        f'eval_input_reader[0]: 4 records like this: -1 is negative ({places})',
        f'eval_input_reader[1]: 4 records like this: -1 is negative ({places})',
    ]
    assert 'train_input_reader: [1.0, 4.0]\neval_input_reader[0]: [1.0, 4.0]\n' in said
    assert 'warning: the numbers are odd.\n' in said


def test_what_the_policy_leaves_out_is_a_warning(training, tmp_path, capsys):
    training.train_input_reader.corrupt_record_policy = input_reader_pb2.SKIP
    line_task.write_points(tmp_path / 'points.tfrecord', [-1.0, 1.0, -2.5, 4.0])
    said, raised = run(training, capsys, Telling())
    assert 'warning: left out: train_input_reader: 2 records like this: -1 is negative' in said
    assert not raised
    line_task.write_points(tmp_path / 'points.tfrecord', [-1.0, -2.0])  # nothing is left
    said, raised = run(training, capsys, Telling())
    assert 'train_input_reader: 2 records like this: -1 is negative' in raised


class RefusingChecks(TellingChecks):
    """Refuses a run whose examples have other units, valid or not."""

    def check_first_examples(self, records, are_all):
        if any(self.examine(record) < -1 for record in records):
            raise errors.DataError('train_input_reader: the unit is another.')
        return ()


class Refusing(Line):
    checks = RefusingChecks()


def test_what_the_policy_leaves_out_still_refuses_a_run(training, tmp_path, capsys):
    """As labels from 0: those are malformed, and say that the others mean something else."""
    training.train_input_reader.corrupt_record_policy = input_reader_pb2.SKIP
    line_task.write_points(tmp_path / 'points.tfrecord', [-2.0, 1.0])
    said, raised = run(training, capsys, Refusing())
    assert raised == '1 problem found:\ntrain_input_reader: the unit is another.'
    assert 'warning: left out: train_input_reader' in said
    line_task.write_points(tmp_path / 'points.tfrecord', [-1.0, 1.0])
    assert run(training, capsys, Refusing())[1] == ''


def test_a_reader_without_files_is_named(config, capsys):
    config.eval_input_reader[1].tf_record_input_reader.input_path[:] = ['/nowhere/*']
    assert 'eval_input_reader[1]: ' in run(config, capsys)[1]


def test_a_sample_is_called_one(training, tmp_path, capsys):
    line_task.write_points(tmp_path / 'points.tfrecord', np.arange(1.0, 71.0))
    said, _ = run(training, capsys, Telling())
    assert '70 examples in 1 file, 64 looked at' in said
    assert 'the numbers are odd, of the records that were looked at (--check_all looks' in said


def test_memory_is_compared_with_the_machines(training, capsys, monkeypatch):
    monkeypatch.setattr(check.environment, 'memory_bytes', lambda: 2**20)
    assert '; this machine has 1 MiB' in run(training, capsys)[0]
    monkeypatch.setattr(check.environment, 'memory_bytes', lambda: 3)
    assert 'warning: a training step needs about 0 MiB, and this mach' in run(training, capsys)[0]


def test_files_that_are_missing_are_told_portable_by_their_fields(config, capsys):
    config.train_input_reader.tf_record_input_reader.input_path[:] = ['/nowhere/a*']
    config.eval_input_reader[1].tf_record_input_reader.input_path[:] = ['/nowhere/a*']
    config.train_config.fine_tune_checkpoint = '/nowhere/model.ckpt'

    def fail(config):
        raise errors.DataError('train_input_reader.label_map_path: /nowhere/b: not there')

    with pytest.raises(errors.UserError) as caught:
        check.check(fail, config)
    count, *lines = str(caught.value).splitlines()
    starts = [
        'train_input_reader: tf_record_input_reader.input_path:',
        'eval_input_reader[1]: ',
        'train_config.fine_tune_checkpoint: ',
        'train_input_reader.label_map_path: ',
    ]
    assert count == '4 problems found:'
    assert all(line.startswith(start) for line, start in zip(lines, starts))
    # With a task they are told once, although more looks for them.
    assert run(config, capsys)[1].splitlines()[1:] == lines[:3]


class ChecksOfNothing(TellingChecks):
    def data_report(self, examined):
        return DataReport(problems=['train_input_reader: there are no lines'])


class OfNothing(Line):
    """Has examples that nothing can be learned from."""

    checks = ChecksOfNothing()

    def augmentations(self):
        return ['flips', 'crops']


def test_examples_without_content_are_a_problem_where_all_have_been_looked_at(
    training, tmp_path, capsys
):
    said, raised = run(training, capsys, OfNothing())
    assert raised == '1 problem found:\ntrain_input_reader: there are no lines'
    line_task.write_points(tmp_path / 'points.tfrecord', np.arange(1.0, 71.0))
    said, raised = run(training, capsys, OfNothing())
    assert not raised
    assert 'warning: train_input_reader: there are no lines, of the records that were' in said


def test_augmentations_are_listed(training, capsys):
    assert 'augmentation in training: flips, crops\n' in run(training, capsys, OfNothing())[0]
    assert 'augmentation in training: none\n' in run(training, capsys)[0]


class OfImages(Line):
    """Has images of several sizes."""

    def prepare(self, example, mode):
        features, labels = super().prepare(example, mode)
        side = tf.strings.length(features[SOURCE_ID])
        return {**features, IMAGE: tf.ones(tf.stack([side, side, 1]))}, labels

    def predict(self, features, mode, labels=None):
        pixels = tf.reduce_sum(features[IMAGE], [1, 2, 3])
        return super().predict({IMAGE: pixels}, mode)

    def pads_batches(self):
        return True


class OfKnownSize(OfImages):
    def largest_input(self):
        return 3, 5


def test_memory_is_of_the_largest_input(training, capsys):
    assert 'MiB, and activations that depend on the' in run(training, capsys, OfImages())[0]
    assert 'MiB, for inputs of 3 x 5; this machine' in run(training, capsys, OfKnownSize())[0]


def test_what_is_made_of_examples_counts_as_activations():
    with tf.Graph().as_default():
        examples = tf.compat.v1.placeholder(tf.float32, [None, 5])
        weights = tf.compat.v1.get_variable('weights', [5, 7]) * 2.0
        rows = tf.reshape(tf.matmul(examples, weights), [-1, 7])  # twice [3, 7]
        first = tf.gather(rows, [0, 1])
        tf.concat([first] * 4, axis=0)  # [8, 7], whatever the batch is
        tf.cast(rows, tf.int32)
        assert check._activation_bytes([examples], 3) == 4 * 7 * (3 + 3 + 2 + 8)


class Normalizing(Line):
    def predict(self, features, mode, labels=None):
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, tf.no_op())
        return super().predict(features, mode, labels)


@pytest.mark.parametrize(('batch_size', 'warns'), [(7, True), (8, False)])
def test_batch_normalization_wants_batches(training, capsys, batch_size, warns):
    training.train_config.batch_size = batch_size
    said, _ = run(training, capsys, Normalizing())
    assert (f'train_config.batch_size is {batch_size}, and batch normalization' in said) == warns
    assert 'batch normalization' not in run(training, capsys)[0]


@pytest.mark.parametrize(('steps', 'warns'), [(99, True), (101, False)])
def test_averages_that_span_more_than_the_run(training, capsys, steps, warns):
    optimizer = training.train_config.optimizer
    optimizer.use_moving_average, optimizer.moving_average_decay = True, 0.99
    training.train_config.num_steps = steps
    said, _ = run(training, capsys)
    expected = f'0.99: the averages are of about 100 steps, and the run has {steps}; they'
    assert (expected in said) == warns
