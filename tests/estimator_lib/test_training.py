"""The engine around a toy task: a line fitted to points, so that every number is known."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, model_fn, training
from estimator_lib.commands import check
from estimator_lib.evaluation import evaluating
from estimator_lib.task import IMAGE, SOURCE_ID, Task
from protos import pipeline_pb2

tf1 = tf.compat.v1


class Line(Task):
    """y = a x: records hold x, the label is 3 x."""

    name = 'line'

    def decode(self, serialized):
        keys = {'x': tf.io.FixedLenFeature([], tf.float32)}
        x = tf.io.parse_single_example(serialized, keys)['x']
        return {IMAGE: tf.reshape(x, [1, 1, 1]), SOURCE_ID: tf.strings.as_string(x)}

    def augment(self, example, seed):
        return example

    def prepare(self, example, mode):
        return example, {'y': 3.0 * tf.reshape(example[IMAGE], [])}

    def predict(self, features, mode, labels=None):
        slope = tf1.get_variable(
            'slope',
            [],
            initializer=tf1.zeros_initializer(),
            collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES],
        )
        tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, 0.0 * tf.square(slope))
        return {'y': slope * tf.reshape(features[IMAGE], [-1])}

    def losses(self, predictions, features, labels):
        return {'squared': tf.reduce_mean(tf.square(predictions['y'] - labels['y']))}

    def loss_names(self):
        return ('squared',)

    def postprocess(self, predictions, features):
        return predictions

    def metrics(self, outputs, features, labels):
        return {'error': tf1.metrics.mean(tf.abs(outputs['y'] - labels['y']))}

    def metric_names(self):
        return ('error',)

    def serving_features(self, images):
        return {IMAGE: tf.cast(images[:, :1, :1, :1], tf.float32)}

    def export_outputs(self, outputs):
        return outputs

    def restore_map(self, variables, checkpoint_type):
        return {variable.op.name: variable for variable in variables}


CONFIG = """
train_config {{
  batch_size: 2
  num_steps: 6
  optimizer {{
    sgd_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.05 }} }} }}
    use_moving_average: false
  }}
  checkpoints {{ save_every_n_steps: 2 keep_max: 2 }}
  progress {{ every_n_steps: 3 }}
}}
train_input_reader {{ shuffle: false tf_record_input_reader {{ input_path: '{records}' }} }}
eval_config {{ batch_size: 3 num_visualizations: 0 }}
eval_input_reader {{ shuffle: false tf_record_input_reader {{ input_path: '{records}' }} }}
eval_input_reader {{
  name: 'again' shuffle: false tf_record_input_reader {{ input_path: '{records}' }}
}}
export_config {{ final {{ enabled: false }} }}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / 'points.tfrecord'
    with tf.io.TFRecordWriter(str(path)) as writer:
        for x in (1.0, 2.0, 3.0, 4.0):
            example = tf.train.Example()
            example.features.feature['x'].float_list.value.append(x)
            writer.write(example.SerializeToString())
    parsed = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(CONFIG.format(records=path), parsed)
    return parsed


def slope_after(steps, batches=((1.0, 2.0), (3.0, 4.0)), rate=0.05):
    """Gradient descent by hand."""
    slope = 0.0
    for step in range(steps):
        x = np.array(batches[step % len(batches)])
        slope -= rate * np.mean(2 * (slope - 3.0) * x * x)
    return slope


def saved_slope(model_dir):
    return tf.train.load_variable(str(model_dir), 'slope')


def test_it_descends_as_computed_by_hand_and_reports_all_sets(config, tmp_path):
    metrics = training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    slope = slope_after(6)
    assert saved_slope(tmp_path / 'run') == pytest.approx(slope, rel=1e-5)
    error = abs(slope - 3.0) * 2.5  # the mean of x is 2.5
    for name in ('0', 'again'):
        assert metrics[name]['error'] == pytest.approx(error, rel=1e-4)
    # 30 = 1 + 4 + 9 + 16, over four examples in batches of 3 and 1: a mean over examples.
    assert metrics['0']['Loss/squared'] == pytest.approx((slope - 3) ** 2 * 30 / 4, rel=1e-3)
    written = json.loads((tmp_path / 'run' / 'metrics.json').read_text())
    assert written['global_step'] == 6 and written['again']['error'] == metrics['again']['error']


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


def evaluated_steps(caplog, name='0'):
    found = []
    for record in caplog.records:
        message = record.getMessage()
        if message.startswith(f'evaluation on {name}, step '):
            found.append(int(message.split('step ')[1].split(',')[0]))
    return found


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, logger='estimator_lib')
    logging.getLogger('estimator_lib').propagate = True
    return caplog


def test_each_checkpoint_is_evaluated_once(config, tmp_path, log):
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert evaluated_steps(log) == [2, 4, 6]


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
    config.train_config.num_steps = 40
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'))
    assert evaluated_steps(log) == [2, 4, 6]


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


def test_metrics_that_can_be_asked_for():
    assert training.metric_names(Line()) == [
        'error',
        'loss',
        'Loss/squared',
        'Loss/regularization_loss',
        'Loss/total_loss',
    ]


def test_regularisation_is_left_out_when_asked(config):
    def names(add):
        config.train_config.add_regularization_loss = add
        with tf.Graph().as_default():
            tf1.train.create_global_step()
            features = {IMAGE: tf.zeros([2, 1, 1, 1])}
            predictions = Line().predict(features, 'train')
            labels = {'y': tf.zeros([2])}
            return list(model_fn.compute_losses(Line(), config, predictions, features, labels))

    assert names(True) == ['squared', 'regularization_loss', 'total_loss']
    assert names(False) == ['squared', 'total_loss']


def test_the_graph_hook_sees_the_forward_graph_without_gradients(config, tmp_path):
    seen = []

    def hook():
        names = {operation.name for operation in tf1.get_default_graph().get_operations()}
        seen.append(any('gradients/' in name for name in names))

    training.train_and_evaluate(
        Line(), config, str(tmp_path / 'run'), evaluate=False, graph_hook_fn=hook
    )
    assert seen == [False]


def test_params_are_refused(config, tmp_path):
    made = model_fn.create_model_fn(Line(), config)
    with pytest.raises(errors.ConfigError, match='set the fields there'):
        made({}, {}, 'train', params={'learning_rate': 1})


def test_checkpoints_of_another_folder_are_watched_until_the_last(config, tmp_path, log):
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    metrics = training.evaluate_checkpoints(
        Line(), config, str(tmp_path / 'watch'), str(tmp_path / 'run'), poll_seconds=0.1
    )
    assert evaluated_steps(log) == [6]
    assert metrics['0']['error'] == pytest.approx(abs(slope_after(6) - 3) * 2.5, rel=1e-4)


def test_bfloat16_is_a_rewrite_of_the_session():
    options = training.create_session_config(True).graph_options.rewrite_options
    assert options.auto_mixed_precision_onednn_bfloat16 == options.ON
    options = training.create_session_config(False).graph_options.rewrite_options
    assert options.auto_mixed_precision_onednn_bfloat16 == options.DEFAULT


def test_check_prints_the_plan(config, capsys):
    config.model.classification.num_classes = 2
    config.model.classification.backbone.name = 'mobilenet_v1'
    check.check(lambda _: Line(), config)
    said = capsys.readouterr().out
    assert 'train_input_reader: 4 examples in 1 files' in said
    assert 'epochs: 3.0' in said
    assert 'checkpoints: every 2 steps, the last 2 stay' in said
    assert 'parameters: 1 in 1 variables, 1 in 1 trained' in said


def test_check_collects_all_problems(config):
    config.model.classification.num_classes = 2
    config.model.classification.backbone.name = 'mobilenet_v1'
    config.export_config.best.metric = 'eror'
    del config.eval_input_reader[1:]
    config.eval_input_reader[0].tf_record_input_reader.input_path[:] = ['/nowhere/*']
    with pytest.raises(errors.UserError) as caught:
        check.check(lambda _: Line(), config)
    said = str(caught.value)
    assert 'eror' in said and '/nowhere/*' in said and '2 problems found' in said


def test_finish_metrics_keeps_losses_and_leaves_arrays_to_the_task():
    values = {'error': 1.0, 'loss': 2.0, 'global_step': 5, 'Loss/squared': 3.0, 'table': np.eye(2)}
    assert evaluating.finish_metrics(Line(), values) == {
        'error': 1.0,
        'loss': 2.0,
        'Loss/squared': 3.0,
    }
