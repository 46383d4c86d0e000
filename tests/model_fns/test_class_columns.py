"""Restores by class name: the variables with a part for each class, and a run that starts so."""

import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import class_match, fine_tuning
from estimator_lib.evaluation import evaluating
from estimator_lib.export import exported_model, exporting, saved_model
from estimator_lib.task import CheckpointMapping
from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from model_fns import build_task
from model_fns.structures import label_map_files
from model_fns.structures.label_map import LabelMap
from protos import pipeline_pb2, train_pb2
from tests import (
    tiny_center_net,
    tiny_data,
    tiny_detection,
    tiny_rotated,
    tiny_segmentation,
    tiny_two_stage,
)
from tests.estimator_lib.checkpoints.small_variables import variable
from tests.estimator_lib.tiny_task import TinyTask, save

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
Config = pipeline_pb2.TrainEvalPipelineConfig


def _instances(folder):
    return tiny_two_stage.write_all(folder, stages=3)


CASES = {
    'classification': tiny_data.write_all,
    'ssd': tiny_detection.write_all,
    'rotated': tiny_rotated.write_all,
    'masks': _instances,
    'center_net': tiny_center_net.write_all,
    'segmentation': tiny_segmentation.write_all,
}


def shapes_and_columns(path, extra):
    """Return the shapes of the variables of a model, and the layers with a part for each class."""
    config = config_lib.load_pipeline_config(str(path))
    model = getattr(config.model, config.model.WhichOneof('model'))
    model.num_classes += extra
    task = build_task(config)
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        features = task.serving_features(tf.zeros([1, 64, 64, 3], tf.uint8))
        task.predict(features, tf_estimator.ModeKeys.PREDICT)
        shapes = {each.op.name: tuple(each.shape) for each in tf1.global_variables()}
    return shapes, task.checkpoints.class_columns.axes


@pytest.mark.usefixtures('no_initial_values')
@pytest.mark.parametrize('case', CASES)
def test_layers_with_a_part_for_each_class_are_those_whose_shape_changes(case, tmp_path):
    path = CASES[case](tmp_path)
    before, _ = shapes_and_columns(path, 0)
    after, axes = shapes_and_columns(path, 1)
    changed = {name for name, shape in after.items() if shape != before[name]}
    kept = {0: 0, 1: 1}
    restored = {
        name
        for name, shape in after.items()
        for pattern, axis in axes.items()
        if re.search(pattern, name) and axis.sources(shape[-1], before[name][-1], kept)
    }
    assert changed and changed == restored


@pytest.mark.parametrize(
    ('axis', 'sizes', 'moved', 'expected'),
    [
        # Two anchors with a background; the only class of the checkpoint is now the second.
        (ClassAxis(2, before=1, repeats=True), (6, 4), {1: 0}, [0, -1, 1, 2, -1, 3]),
        # Boxes of two values by class, whose order has changed.
        (ClassAxis(2, block=2), (4, 4), {0: 1, 1: 0}, [2, 3, 0, 1]),
        (ClassAxis(3), (3, 2), {0: 0, 2: 1}, [0, -1, 1]),
        (ClassAxis(3), (6, 4), {0: 0}, None),  # two groups, where there is one
        (ClassAxis(3), (3, 2), {0: 2}, None),  # a class that the checkpoint has no column of
        (ClassAxis(4, block=4), (4, 4), {0: 0}, None),  # boxes that all classes share
    ],
)
def test_columns_by_hand(axis, sizes, moved, expected):
    assert axis.sources(*sizes, moved) == expected


class Named(TinyTask):
    """A task with class names and one layer of logits, whose first column is the background."""

    def __init__(self, *names):
        super().__init__()
        axis = ClassAxis(len(names), before=1)
        self.checkpoints = CheckpointMapping()
        self.checkpoints.asset_files = label_map_files.asset_files(LabelMap.from_names(names))
        self.checkpoints.class_columns = label_map_files.class_columns({'Logits/': axis})


@pytest.fixture
def trained(tmp_path):
    """Save a run with the classes cat and dog, whose weights are 10 and 20; the background's 1."""
    values = {
        'Net/weights': np.ones([2, 3], np.float32),
        'Logits/weights': np.array([[1, 10, 20]] * 2, np.float32),
        'Logits/biases': np.array([1, 10, 20], np.float32),
    }
    save(tmp_path / 'model.ckpt-5', values)
    LabelMap.from_names(['cat', 'dog']).write(str(tmp_path / label_map_files.FILE))
    return tmp_path


def started(task, folder, size):
    """Return the report and the values of a model that starts from a run, in a new graph."""
    config = train_pb2.TrainConfig(fine_tune_checkpoint=str(folder / 'model.ckpt-5'))
    with tf.Graph().as_default() as graph:
        variables = {
            'Net/weights': variable('Net/weights', [2, 3]),
            'Logits/weights': variable('Logits/weights', [2, size], 0.5),
            'Logits/biases': variable('Logits/biases', [size], -4.5),
        }
        average = tf.train.ExponentialMovingAverage(0.9)
        average.apply([variables['Logits/biases']])

        def find(prefix):
            return class_match.find(task.checkpoints, prefix)

        report = fine_tuning.fine_tune_report(config, variables, find_classes=find)
        start = fine_tuning.fine_tune_start(config, variables, find_classes=find)
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer(), start.get('init_feed_dict'))
            start['init_fn'](None, session)
            average = session.run(average.average(variables['Logits/biases']))
            return report.table(), {**session.run(variables), 'average': average}


@pytest.mark.parametrize(
    ('names', 'biases', 'note'),
    [
        (['cat', 'dog', 'owl'], [1, 10, 20, -4.5], '2 of 3 kept by name; new: owl'),
        (['dog', 'cat'], [1, 20, 10], '2 of 2 kept by name, 2 of them at another index'),
        (['dog'], [1, 20], '1 of 1 kept by name, 1 of them at another index; gone: cat'),
        (['ant', 'dog'], [1, -4.5, 20], '1 of 2 kept by name; new: ant; gone: cat'),
    ],
)
def test_classes_are_restored_by_name(trained, names, biases, note):
    table, values = started(Named(*names), trained, len(biases))
    assert f'classes: {note}' in table
    np.testing.assert_allclose(values['Logits/biases'], biases)
    np.testing.assert_allclose(values['average'], biases)
    weights = [0.5 if value == -4.5 else value for value in biases]
    np.testing.assert_allclose(values['Logits/weights'], [weights] * 2)
    np.testing.assert_allclose(values['Net/weights'], 1.0)


def test_equal_classes_and_checkpoints_without_names_are_restored_as_they_are(trained):
    table, values = started(Named('cat', 'dog'), trained, 3)
    assert 'classes:' not in table
    np.testing.assert_allclose(values['Logits/biases'], [1, 10, 20])
    (trained / label_map_files.FILE).unlink()
    _, values = started(Named('dog', 'cat'), trained, 3)
    np.testing.assert_allclose(values['Logits/biases'], [1, 10, 20])


def test_classes_of_other_names_are_restored_as_they_are(trained):
    table, values = started(Named('Katze', 'Hund'), trained, 3)
    assert 'classes:' not in table
    np.testing.assert_allclose(values['Logits/biases'], [1, 10, 20])


def test_the_label_file_is_looked_up_once(trained, monkeypatch):
    asked = []
    exists = tf.io.gfile.exists
    monkeypatch.setattr(tf.io.gfile, 'exists', lambda path: asked.append(path) or exists(path))
    task = Named('dog', 'cat')
    prefix = str(trained / 'model.ckpt-5')
    assert class_match.find(task.checkpoints, prefix) is not None
    assert len(asked) == 1


def _export(task, prefix, folder):
    exporting.export(task, Config(), prefix, str(folder), saved_model.SavedModelWriter())


def _predict(task, prefix, folder):
    del folder
    exported_model.CheckpointPredictor(task, Config(), prefix)


def _evaluate(task, prefix, folder):
    run_config = tf_estimator.RunConfig(model_dir=str(folder))
    estimator = tf_estimator.Estimator(lambda features: None, config=run_config)
    evaluating.Evaluator(task, Config(), estimator, []).evaluate(prefix)


@pytest.mark.parametrize('use', [_export, _predict, _evaluate])
def test_a_checkpoint_is_not_used_with_another_order(trained, use, tmp_path):
    with pytest.raises(errors.ConfigError, match="'dog' as class 1 .* it is class 0"):
        use(Named('dog', 'cat'), str(trained / 'model.ckpt-5'), tmp_path / 'out')


@pytest.mark.parametrize('names', [['Katze', 'Hund'], ['cat', 'Hund', 'owl']])
def test_a_checkpoint_is_used_with_other_names_in_the_same_order(trained, names):
    task, prefix = Named(*names), str(trained / 'model.ckpt-5')
    class_match.require_same_classes(task.checkpoints, prefix)


def test_a_file_beside_a_checkpoint_that_is_no_label_map_names_no_classes(trained, caplog):
    (trained / label_map_files.FILE).write_text('item { id: cat }')
    task, prefix = Named('dog', 'cat'), str(trained / 'model.ckpt-5')
    class_match.require_same_classes(task.checkpoints, prefix)
    assert f'{trained / label_map_files.FILE} does not name the classes' in caplog.text


def test_a_run_is_not_resumed_with_another_order(trained):
    (trained / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-5"\n')

    def require(*names):
        task = Named(*names)
        class_match.require_resumable(task.checkpoints, str(trained))

    require('cat', 'dog')
    require('cat', 'hound')  # a better name
    with pytest.raises(errors.CheckpointError, match="'dog' as class 1 .* it is class 0"):
        require('dog', 'cat')
