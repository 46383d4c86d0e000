"""`create_model_fn(config)` under plain `tf.estimator`, with a program's own `input_fn`.

One tiny model of each task goes through every call that `tf.estimator` offers.
"""

import functools
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, tf_estimator
from estimator_lib.task import IMAGE, SOURCE_ID
from estimator_lib.tf_estimator import stand_ins
from model_fns import build_task, create_model_fn
from protos import train_pb2
from tests import (
    served,
    sessions,
    tiny_center_net,
    tiny_data,
    tiny_detection,
    tiny_segmentation,
    tiny_two_stage,
)

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

STEPS = 2
BATCH = 2
OVERRIDE = """
train_config {
  batch_size: 2
  optimizer { use_moving_average: true moving_average_decay: 0.5 }
}
eval_config { num_visualizations: 0 }
"""


class Case:
    """A task, the module that makes its records and config, and a metric of its evaluations."""

    def __init__(self, make, metric):
        self.make = make
        self.metric = metric
        self.root = None

    def write(self, folder):
        """Write records and config, and train the model that tests start from."""
        self.root = folder
        self.path = self.make.write_all(folder)
        if self.make is tiny_data:  # few layers: what is tested with it alone is not the network
            self.path.write_text(tiny_data.LENET_CONFIG.format(folder=folder))
        self.config = config_lib.load_pipeline_config(str(self.path), overrides=[OVERRIDE])
        self.task = build_task(self.config)
        self.trained = self.estimator(folder / 'trained')
        self.trained.train(self.input_fn(ModeKeys.TRAIN), steps=STEPS)

    def estimator(self, model_dir, config=None, warm_start_from=None, **options):
        """An Estimator of the task; `options` are those of its RunConfig."""
        return tf_estimator.Estimator(
            create_model_fn(config or self.config),
            model_dir=str(model_dir),
            config=run_config(**options),
            warm_start_from=warm_start_from,
        )

    def input_fn(self, mode, repeats=None):
        """A user's own: features without source ids."""
        return functools.partial(self._dataset, mode, repeats)

    def _dataset(self, mode, repeats):
        name = 'train' if mode == ModeKeys.TRAIN else 'val'
        dataset = tf.data.TFRecordDataset(str(self.root / f'{name}.tfrecord')).take(2 * BATCH)
        dataset = dataset.map(lambda record: self._example(record, mode))
        if mode == ModeKeys.TRAIN:
            dataset = dataset.repeat(repeats)
        pads = self.task.pads_batches()
        return dataset.padded_batch(BATCH) if pads else dataset.batch(BATCH, drop_remainder=True)

    def _example(self, record, mode):
        example = self.task.decode(record)
        if mode == ModeKeys.TRAIN:
            example = self.task.augment(example, tf.constant([1, 2], tf.int64))
        features, labels = self.task.prepare(example, mode)
        return {name: one for name, one in features.items() if name != SOURCE_ID}, labels

    def receiver(self, mode=ModeKeys.PREDICT):
        """A user's serving function: images as the network takes them, and all that it needs."""
        if mode == ModeKeys.PREDICT:
            images = tf1.placeholder(tf.uint8, [None, 64, 64, 3], 'images')
            features = self.task.serving_features(images)
            return tf_estimator.export.ServingInputReceiver(features, {'inputs': images})
        batch = tf.nest.map_structure(
            lambda one: tf1.placeholder(one.dtype, [None, *one.shape[1:]]),
            self._dataset(mode, 1).element_spec,
        )
        return tf_estimator.experimental.build_raw_supervised_input_receiver_fn(*batch)()


def run_config(**options):
    """A RunConfig with the options of tests, in which graphs run as they are built."""
    session_config = sessions.create_as_for_users()
    session_config.graph_options.rewrite_options.disable_meta_optimizer = True
    session_config.device_count['CPU'] = 2
    options = {'log_step_count_steps': None, 'save_summary_steps': None, **options}
    return tf_estimator.RunConfig(session_config=session_config, **options)


CASES = {
    'classification': Case(tiny_data, 'accuracy'),
    'segmentation': Case(tiny_segmentation, 'miou_1.0_overall'),
    'ssd': Case(tiny_detection, 'DetectionBoxes_Precision/mAP'),
    'faster_rcnn': Case(tiny_two_stage, 'DetectionBoxes_Precision/mAP'),
    'center_net': Case(tiny_center_net, 'DetectionBoxes_Precision/mAP'),
}
# `make test-estimator-api` goes through every call with every task. The suite leaves out what the
# model_fn does alike for all tasks, of those whose graphs take long to build.
ALL_TASKS = bool(os.environ.get('ALL_TASKS'))


def names_of(*names):
    return list(CASES) if ALL_TASKS else names


def of_tasks(*names):
    return pytest.mark.parametrize('case', names_of(*names), indirect=True)


each_task = of_tasks(*CASES)
two_tasks = of_tasks('classification', 'ssd')
one_task = of_tasks('classification')


@pytest.fixture(scope='module')
def case(request, tmp_path_factory):
    one = CASES[request.param]
    if one.root is None:
        one.write(tmp_path_factory.mktemp(request.param))
    return one


def two_devices():
    with tf.Graph().as_default():
        return tf.distribute.MirroredStrategy(['/device:CPU:0', '/device:CPU:1'])


def values_of(model_dir):
    """All variables of the latest checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@each_task
def test_evaluate_returns_the_documented_metrics(case):
    metrics = case.trained.evaluate(case.input_fn(ModeKeys.EVAL))
    expected = {*case.task.metric_names(), 'loss', 'global_step', 'Loss/total_loss'}
    expected.add('learning_rate')
    assert expected <= set(metrics)
    losses = {f'Loss/{name}' for name in (*case.task.loss_names(), 'regularization_loss')}
    assert set(metrics) - expected <= losses
    assert metrics['global_step'] == STEPS
    assert 0.0 <= metrics[case.metric] <= 1.0
    assert all(np.ndim(one) == 0 for one in metrics.values())


@one_task
def test_params_are_for_the_input_fn(case, tmp_path):
    seen = []

    def input_fn(params):
        seen.append(params['batch_size'])
        return case.input_fn(ModeKeys.TRAIN)()

    model_fn = create_model_fn(case.config)
    params = {'batch_size': 6}
    estimator = tf_estimator.Estimator(model_fn, str(tmp_path), run_config(), params)
    estimator.train(input_fn, steps=1)
    assert seen == [6] and estimator.get_variable_value('global_step') == 1


@pytest.mark.skipif(
    not stand_ins.is_built_in(), reason='TensorFlow 2.16 and later have no TPU estimators'
)
@one_task
def test_a_tpu_estimator_runs_on_a_cpu(case, tmp_path):
    tpu = tf_estimator._names('v1').tpu
    own = tpu.RunConfig(model_dir=str(tmp_path), session_config=run_config().session_config)
    estimator = tpu.TPUEstimator(
        create_model_fn(case.config),
        config=own,
        use_tpu=False,
        **dict.fromkeys(('train_batch_size', 'eval_batch_size', 'predict_batch_size'), BATCH),
    )

    def input_fn(mode):
        def batches(params):
            assert params['batch_size'] == BATCH
            return case.input_fn(mode)()

        return batches

    estimator.train(input_fn(ModeKeys.TRAIN), max_steps=STEPS)
    metrics = estimator.evaluate(input_fn(ModeKeys.EVAL), steps=2)
    assert metrics['global_step'] == STEPS and 0.0 <= metrics[case.metric] <= 1.0
    assert len(list(estimator.predict(input_fn(ModeKeys.PREDICT)))) == 2 * BATCH
    # By default it writes a second graph, for TPUs.
    on_cpu = tpu.TPUEstimator(
        create_model_fn(case.config),
        config=own,
        use_tpu=False,
        train_batch_size=BATCH,
        export_to_tpu=False,
    )
    path = on_cpu.export_saved_model(str(tmp_path / 'export'), case.receiver).decode()
    assert (pathlib.Path(path) / 'saved_model.pb').exists()


@one_task
def test_predict_needs_neither_labels_nor_source_ids(case):
    found = list(case.trained.predict(case.input_fn(ModeKeys.PREDICT)))
    assert len(found) == 2 * BATCH
    assert all(np.isfinite(one).all() for each in found for one in each.values())


@two_tasks
def test_a_saved_model_answers_as_predict_does(case, tmp_path):
    path = case.trained.export_saved_model(str(tmp_path), case.receiver)
    images = np.random.RandomState(0).randint(0, 255, [2, 64, 64, 3]).astype(np.uint8)

    def input_fn():
        return tf.data.Dataset.from_tensors(images).map(case.task.serving_features)

    expected = list(case.trained.predict(input_fn))
    found = served.answers(path.decode(), images, is_ours=False)
    assert set(found) == set(expected[0])
    for name, values in found.items():
        for value, one in zip(values, expected):
            np.testing.assert_allclose(value, one[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ('case', 'use_averages'),
    [('classification', False), *((name, True) for name in names_of('classification', 'ssd'))],
    indirect=['case'],
)
def test_graphs_of_all_modes_share_one_set_of_variables(case, tmp_path, use_averages):
    config = type(case.config)()
    config.CopyFrom(case.config)
    config.eval_config.use_moving_averages = use_averages
    estimator = case.estimator(case.root / 'trained', config)
    path = estimator.experimental_export_all_saved_models(
        str(tmp_path), {mode: functools.partial(case.receiver, mode) for mode in MODES}
    ).decode()
    saved = values_of(case.root / 'trained')
    (average,) = [name for name in saved if name.endswith('/ExponentialMovingAverage')][:1]
    weight = average.rpartition('/')[0]
    for mode, tags in MODES.items():
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.saved_model.load(session, tags, path)
            (variable,) = (one for one in tf1.global_variables() if one.op.name == weight)
            averaged = use_averages and mode != ModeKeys.TRAIN
            expected = saved[average if averaged else weight]
            np.testing.assert_array_equal(session.run(variable), expected, mode)


MODES = {
    ModeKeys.TRAIN: ['train'],
    ModeKeys.EVAL: ['eval'],
    ModeKeys.PREDICT: ['serve'],
}


@one_task
def test_exporters_and_early_stopping_go_by_documented_metrics(case, tmp_path):
    estimator = case.estimator(tmp_path / 'run', save_checkpoints_steps=1)

    def is_better(best_eval_result, current_eval_result):
        return current_eval_result[case.metric] >= best_eval_result[case.metric]

    exporters = [
        tf_estimator.BestExporter('best', case.receiver, compare_fn=is_better),
        tf_estimator.LatestExporter('latest', case.receiver),
        tf_estimator.FinalExporter('final', case.receiver),
    ]
    train = tf_estimator.TrainSpec(case.input_fn(ModeKeys.TRAIN), max_steps=2)
    evaluation = tf_estimator.EvalSpec(
        case.input_fn(ModeKeys.EVAL), steps=1, exporters=exporters, throttle_secs=0
    )
    metrics, _ = tf_estimator.train_and_evaluate(estimator, train, evaluation)
    assert case.metric in metrics
    for exporter in exporters:
        assert list((tmp_path / 'run' / 'export' / exporter.name).glob('*/saved_model.pb'))
    # An evaluation is as good as itself after 0 steps, which ends the training at once.
    hook = tf_estimator.experimental.stop_if_no_increase_hook(
        estimator, case.metric, max_steps_without_increase=0, run_every_secs=None, run_every_steps=1
    )
    estimator.train(case.input_fn(ModeKeys.TRAIN), hooks=[hook], max_steps=8)
    assert 2 < estimator.get_variable_value('global_step') < 8
    # The hook has a variable of its own: the run resumes with it, and without.
    assert 'signal_early_stopping/STOP' in estimator.get_variable_names()
    estimator.train(case.input_fn(ModeKeys.TRAIN), max_steps=9)
    assert estimator.get_variable_value('global_step') == 9


@one_task
def test_averages_of_warm_started_variables_start_from_their_values(case, tmp_path):
    name = next(one for one in values_of(case.root / 'trained') if one.endswith('/weights'))
    start = tf_estimator.WarmStartSettings(str(case.root / 'trained'), vars_to_warm_start='.*')
    estimator = case.estimator(tmp_path, warm_start_from=start)
    # The first checkpoint is what the run starts from.
    estimator.train(case.input_fn(ModeKeys.TRAIN), steps=1)
    begun = tf.train.load_checkpoint(str(tmp_path / 'model.ckpt-0'))
    expected = case.trained.get_variable_value(name)
    np.testing.assert_array_equal(begun.get_tensor(name), expected)
    np.testing.assert_array_equal(
        begun.get_tensor(f'{name}/ExponentialMovingAverage'), expected, name
    )


@one_task
@pytest.mark.parametrize(
    ('options', 'left'),
    [
        ({'keep_checkpoint_max': 2, 'checkpoint_save_graph_def': False}, [2, 3]),
        ({'keep_checkpoint_max': 1, 'keep_checkpoint_every_n_hours': 1e-9}, [0, 1, 2, 3]),
    ],
)
def test_the_fields_of_a_run_config_hold(case, tmp_path, options, left):
    estimator = case.estimator(tmp_path, save_checkpoints_steps=1, **options)
    estimator.train(case.input_fn(ModeKeys.TRAIN), steps=3)
    found = sorted(one.name for one in tmp_path.glob('*.index'))
    assert found == [f'model.ckpt-{step}.index' for step in left]
    has_graphs = options.get('checkpoint_save_graph_def', True)
    assert len(list(tmp_path.glob('*.meta'))) == has_graphs * len(left)


@one_task
def test_a_users_hook_may_save_too(case, tmp_path):
    estimator = case.estimator(
        tmp_path / 'run', save_checkpoints_steps=None, save_checkpoints_secs=None
    )
    hook = tf_estimator.CheckpointSaverHook(str(tmp_path / 'other'), save_steps=1)
    estimator.train(case.input_fn(ModeKeys.TRAIN), hooks=[hook], steps=1)
    assert tf.train.latest_checkpoint(str(tmp_path / 'other')).endswith('-1')


@one_task
def test_a_run_config_may_ask_for_no_checkpoints(case, tmp_path):
    estimator = case.estimator(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    estimator.train(case.input_fn(ModeKeys.TRAIN), steps=1)
    assert tf.train.latest_checkpoint(str(tmp_path)) is None


@two_tasks
def test_metrics_are_the_same_on_two_devices(case):
    on_two = case.estimator(case.root / 'trained', eval_distribute=two_devices())
    expected = case.trained.evaluate(case.input_fn(ModeKeys.EVAL), name='one')
    found = on_two.evaluate(case.input_fn(ModeKeys.EVAL), name='two')
    assert set(found) == set(expected)
    for name in case.task.metric_names():
        assert found[name] == pytest.approx(expected[name], rel=1e-4, nan_ok=True), name


@one_task
def test_two_devices_leave_out_a_step_that_is_not_finite(case, tmp_path):
    config = type(case.config)()
    config.CopyFrom(case.config)
    config.train_config.non_finite_loss_policy = train_pb2.SKIP_STEP
    estimator = case.estimator(tmp_path, config, train_distribute=two_devices())

    def broken():
        def spoil(features, labels):
            return {**features, IMAGE: features[IMAGE] * float('nan')}, labels

        whole = case.input_fn(ModeKeys.TRAIN)()
        # Each replica takes a batch: the second step is broken on one of them.
        return whole.take(3).concatenate(whole.take(1).map(spoil))

    estimator.train(broken, steps=2)
    assert estimator.get_variable_value('global_step') == 2
    assert all(np.isfinite(one).all() for one in values_of(tmp_path).values())
    only = case.estimator(tmp_path / 'only', config, train_distribute=two_devices())
    only.train(lambda: broken().take(2), steps=1)
    expected = values_of(tmp_path / 'only')
    for name, value in values_of(tmp_path).items():
        if name != 'global_step':
            np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


@one_task
def test_metrics_are_added(case):
    def count(features, labels, predictions):
        del labels
        names = set(case.task.export_outputs(predictions))
        assert names == set(predictions) and IMAGE in features
        return {'examples': tf1.metrics.mean(tf.cast(tf.shape(features[IMAGE])[0], tf.float32))}

    added = tf_estimator.add_metrics(case.trained, count)
    found = added.evaluate(case.input_fn(ModeKeys.EVAL), name='added')
    assert found['examples'] == BATCH and case.metric in found


@one_task
def test_an_evaluation_in_memory_has_the_variables_of_the_training(case, tmp_path):
    estimator = case.estimator(tmp_path)
    hook = tf_estimator.experimental.InMemoryEvaluatorHook(
        estimator, case.input_fn(ModeKeys.EVAL), name='memory', every_n_iter=1
    )
    estimator.train(case.input_fn(ModeKeys.TRAIN), hooks=[hook], steps=1)
    (path,) = (tmp_path / 'eval_memory').glob('events*')
    in_memory = {}
    for event in tf1.train.summary_iterator(str(path)):
        in_memory.update({(event.step, one.tag): one.simple_value for one in event.summary.value})
    metrics = estimator.evaluate(case.input_fn(ModeKeys.EVAL))
    for name in (case.metric, 'Loss/total_loss'):
        assert in_memory[1, name] == pytest.approx(metrics[name], rel=1e-4)


@one_task
def test_a_moved_folder_is_never_evaluated_with_initial_values(case, tmp_path):
    shutil.copytree(case.root / 'trained', tmp_path / 'moved')
    (tmp_path / 'moved' / 'checkpoint').write_text(
        f'model_checkpoint_path: "/gone/model.ckpt-{STEPS}"\n'
    )
    moved = case.estimator(tmp_path / 'moved')
    with pytest.raises(errors.CheckpointError, match='was moved: .* call again'):
        moved.evaluate(case.input_fn(ModeKeys.EVAL))
    assert moved.evaluate(case.input_fn(ModeKeys.EVAL))['global_step'] == STEPS


@two_tasks
def test_labels_that_are_missing_are_named(case):
    def input_fn():
        return case.input_fn(ModeKeys.EVAL)().map(lambda features, labels: (features, {}))

    with pytest.raises(errors.DataError, match='the labels of the input_fn have no '):
        case.trained.evaluate(input_fn)
