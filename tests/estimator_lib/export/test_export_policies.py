from __future__ import annotations

import json
import logging
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.export import artifacts, export_folders, export_policies, exported_model
from protos import export_pb2, pipeline_pb2, train_pb2
from tests.estimator_lib import line_task, tiny_task
from tests.estimator_lib.line_task import Line, error_after, slope_after

tf1 = tf.compat.v1


class Writes:
    """Stands for the writing of exports: makes empty ones, and remembers of what."""

    def __init__(self):
        self.checkpoints = []

    def __call__(self, checkpoint, folder):
        self.checkpoints.append(checkpoint)
        path = os.path.join(folder, str(1000 + len(self.checkpoints)))
        os.makedirs(path)
        with open(os.path.join(path, 'saved_model.pb'), 'w'):
            return path


def feed(exporter, values, metric='accuracy'):
    """Call an exporter with evaluations; return the steps at which it exported."""
    return [
        step
        for step, value in enumerate(values)
        if exporter.export(step, f'model.ckpt-{step}', {metric: value}, False)
    ]


@pytest.mark.parametrize(
    ('higher', 'values', 'expected'),
    [
        (True, [0.5, 0.4, 0.6, 0.6, 0.7], [0, 2, 4]),
        (False, [0.5, 0.4, 0.6, 0.4, 0.1], [0, 1, 4]),
        (True, [float('nan'), float('inf'), 0.1, float('nan'), 0.2], [2, 4]),
        (False, [float('-inf'), float('nan'), 0.1, np.float32(0.05)], [2, 3]),
    ],
)
def test_only_what_is_better_is_exported(tmp_path, higher, values, expected):
    write = Writes()
    exporter = export_policies.BestExporter(str(tmp_path), write, 'accuracy', higher)
    assert feed(exporter, values) == expected
    assert write.checkpoints == [f'model.ckpt-{step}' for step in expected]


def test_an_evaluation_that_comes_twice_is_described_once(tmp_path, caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    exporter = export_policies.BestExporter(str(tmp_path), Writes(), 'accuracy')
    for step, is_final in ((3, False), (3, True), (4, True)):
        exporter.export(step, f'model.ckpt-{step}', {'accuracy': 0.5}, is_final)
    assert 'best so far: accuracy 0.5 at step 3 (none before; higher is better)' in caplog.text
    (said,) = [line for line in caplog.text.splitlines() if 'not exported' in line]
    assert 'accuracy 0.5 at step 4 (before 0.5; higher is better)' in said


def test_the_best_value_survives_a_restart(tmp_path):
    def exporter(**changes):
        arguments = {'metric': 'accuracy', 'higher_is_better': True, **changes}
        return export_policies.BestExporter(str(tmp_path), write, **arguments)

    write = Writes()
    assert feed(exporter(), [0.5, 0.6]) == [0, 1]
    state = json.loads((tmp_path / 'best.json').read_text())
    assert (state['metric'], state['value'], state['step']) == ('accuracy', 0.6, 1)
    assert exporter().best_value() == 0.6
    assert feed(exporter(), [0.6, 0.55]) == []
    # What was best by another measure says nothing.
    assert exporter(metric='loss').best_value() is None
    assert exporter(higher_is_better=False).best_value() is None


@pytest.mark.parametrize('text', ['', '{"metric": "accuracy"', '[1]', '{"metric": "accuracy"}'])
def test_a_damaged_state_is_started_anew(tmp_path, text):
    (tmp_path / 'best.json').write_text(text)
    exporter = export_policies.BestExporter(str(tmp_path), Writes(), 'accuracy')
    assert feed(exporter, [0.1, 0.05]) == [0]


def test_the_best_evaluation_is_read_back_where_its_checkpoint_is_there(tmp_path, checkpoint):
    model_dir = tmp_path / 'run'
    config = export_pb2.ExportConfig(best={'metric': 'accuracy'}, final={'enabled': False})
    texts = {'pipeline.config': 'model {}', 'label_map.pbtxt': 'item {}'}
    (best,) = export_policies.exporters_from_config(config, str(model_dir), Writes(), texts)
    assert export_policies.read_best(str(model_dir)) is None
    step = checkpoint_files.checkpoint_step(checkpoint)
    path = best.export(step, checkpoint, {'accuracy': 0.25}, False)
    assert export_policies.read_best(str(model_dir)) is None  # the run has not come to that step
    checkpoint_files.keep_copy(checkpoint, str(model_dir / 'again'))
    for file in (model_dir / 'again').iterdir():
        file.rename(model_dir / file.name)
    expected = export_policies.Best(step, 'accuracy', 0.25, path)
    assert export_policies.read_best(str(model_dir)) == expected
    kept = {name: (model_dir / 'best' / name).read_text() for name in texts}
    assert kept == texts
    shutil.rmtree(path)
    assert export_policies.read_best(str(model_dir)) == expected._replace(export='')
    shutil.rmtree(model_dir / 'best')
    assert export_policies.read_best(str(model_dir)) is None


def test_a_failed_export_is_not_best(tmp_path):
    def fail(checkpoint, folder):
        raise errors.UserError('the disk is full')

    failing = export_policies.BestExporter(str(tmp_path), fail, 'accuracy')
    with pytest.raises(errors.UserError):
        feed(failing, [0.9])
    assert feed(export_policies.BestExporter(str(tmp_path), Writes(), 'accuracy'), [0.1]) == [0]


def test_an_evaluation_without_the_metric_exports_nothing(tmp_path, caplog):
    exporter = export_policies.BestExporter(str(tmp_path), Writes(), 'accuracy')
    assert feed(exporter, [0.5], metric='acuracy') == []
    assert "has no 'accuracy'; did you mean 'acuracy'?" in caplog.text


@pytest.mark.parametrize(('keep_max', 'left'), [(1, 1), (2, 2), (0, 4)])
def test_old_exports_go(tmp_path, keep_max, left):
    best = export_policies.BestExporter(
        str(tmp_path / 'a'), Writes(), 'accuracy', keep_max=keep_max
    )
    feed(best, [0.1, 0.2, 0.3, 0.4])
    latest = export_policies.LatestExporter(str(tmp_path / 'b'), Writes(), keep_max)
    feed(latest, [0.4, 0.3, 0.2, 0.1])
    for name in 'ab':
        kept = export_folders.list_exports(str(tmp_path / name))
        expected = [1001, 1002, 1003, 1004][-left:]
        assert [int(os.path.basename(path)) for path in kept] == expected


def test_final_exports_at_the_end_only(tmp_path):
    exporter = export_policies.FinalExporter(str(tmp_path), Writes())
    assert exporter.export(3, 'model.ckpt-3', {}, False) is None
    assert exporter.export(3, 'model.ckpt-3', {}, True)


def test_the_exporters_that_a_config_asks_for(tmp_path):
    def kinds(**fields):
        made = export_policies.exporters_from_config(
            export_pb2.ExportConfig(**fields), str(tmp_path), Writes()
        )
        return [type(one).__name__ for one in made]

    assert kinds() == ['FinalExporter']
    assert kinds(final={'enabled': False}) == []
    assert kinds(best={'metric': 'accuracy'}, latest={}) == [
        'BestExporter',
        'LatestExporter',
        'FinalExporter',
    ]
    assert kinds(best={'metric': 'loss', 'higher_is_better': False})[0] == 'BestExporter'


def test_a_best_export_without_a_metric_is_refused(tmp_path):
    config = export_pb2.ExportConfig(best={})
    with pytest.raises(errors.ConfigError, match=r'best\.metric is not set'):
        export_policies.exporters_from_config(config, str(tmp_path), Writes())


@pytest.mark.parametrize(
    ('best', 'step'),
    [
        ({'metric': 'mae_age'}, 2),
        ({'metric': 'Loss/total_loss'}, 2),
        ({'metric': 'accuracy'}, 1),
        ({'metric': 'loss', 'higher_is_better': True}, 1),  # as old configs may say
    ],
)
def test_the_best_is_the_lowest_where_the_name_of_the_metric_says_so(tmp_path, best, step):
    config = export_pb2.ExportConfig(best=best, final={'enabled': False})
    (exporter,) = export_policies.exporters_from_config(config, str(tmp_path), Writes())
    exporter._checkpoint_folder = ''
    for number, value in enumerate((3.0, 1.0, 2.0), 1):
        exporter.export(number, f'model.ckpt-{number}', {best['metric']: value}, False)
    assert json.loads((tmp_path / 'export' / 'best' / 'best.json').read_text())['step'] == step


@pytest.fixture
def checkpoint(tmp_path):
    return tiny_task.save(tmp_path / 'model.ckpt-7', tiny_task.values())


def test_exporters_of_a_run_write_models(tmp_path, checkpoint, monkeypatch):
    built = []
    task = tiny_task.TinyTask()
    monkeypatch.setattr(
        task, 'predict', lambda *args: built.append(1) or type(task).predict(task, *args)
    )
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.export_config.best.metric = 'accuracy'
    made = export_policies.create_exporters(task, config, str(tmp_path))
    paths = [one.export(1, checkpoint, {'accuracy': 0.5}, True) for one in made]
    images = np.zeros([3, 8, 8, 3], np.uint8)
    for path, name in zip(paths, ('best', 'final')):
        assert os.path.dirname(path) == str(tmp_path / 'export' / name)
        assert exported_model.Predictor(path).predict(images)['logits'].shape == (3, 2)
    assert len(built) == 1  # The second is a copy.


def test_a_checkpoint_is_exported_once_by_however_many_starts(tmp_path, checkpoint):
    def export(**fields):
        config = pipeline_pb2.TrainEvalPipelineConfig(**fields)
        config.export_config.latest.SetInParent()
        made = export_policies.create_exporters(tiny_task.TinyTask(), config, str(tmp_path))
        return [one.export(7, checkpoint, {}, True) for one in made]

    first = export()
    assert export() == first
    origin = artifacts.read_origin(first[0])
    assert origin['global_step'] == 7 and origin['checkpoint'] == 'model.ckpt-7'
    assert export(eval_config={'use_moving_averages': False, 'batch_size': 3}) != first
    again = export()
    tiny_task.save(tmp_path / 'model.ckpt-7', tiny_task.values(scale=2.0))
    assert not set(export()) & set(again + first)


def test_an_export_that_is_gone_is_not_copied(tmp_path, checkpoint):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.export_config.best.metric = 'accuracy'
    best, final = export_policies.create_exporters(tiny_task.TinyTask(), config, str(tmp_path))
    shutil.rmtree(best.export(1, checkpoint, {'accuracy': 0.5}, True))
    assert os.path.exists(final.export(1, checkpoint, {'accuracy': 0.5}, True))


@pytest.fixture
def line_config(tmp_path):
    made = line_task.create_config(tmp_path)
    del made.eval_input_reader[1:]
    return made


def train(config, folder, **options):
    return training.train_and_evaluate(Line(), config, str(folder / 'run'), **options)


class Recorder(tf_estimator.Exporter):
    """Notes its calls."""

    def __init__(self, name):
        self._name, self.calls = name, []

    @property
    def name(self):
        return self._name

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        assert isinstance(estimator, tf_estimator.Estimator)
        assert tf.train.load_variable(checkpoint_path, 'global_step') == eval_result['global_step']
        self.calls.append((export_path, eval_result, is_the_final_export))


@pytest.mark.parametrize('loop', [train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION])
def test_exporters_are_called_after_each_evaluation(line_config, tmp_path, loop):
    line_config.train_config.loop = loop
    exporter = Recorder('own')
    train(line_config, tmp_path, exporters=[exporter])
    paths, results, finals = zip(*exporter.calls)
    assert set(paths) == {str(tmp_path / 'run' / 'export' / 'own')}
    assert [result['global_step'] for result in results] == [2, 4, 6]
    assert finals == (False, False, True)
    expected = [error_after(step) for step in (2, 4, 6)]
    assert [result['error'] for result in results] == pytest.approx(expected, rel=1e-4)
    assert {'loss', 'Loss/squared'} <= set(results[0])


def test_an_exporter_is_called_once_for_a_checkpoint_and_told_of_the_end(line_config, tmp_path):
    train(line_config, tmp_path)
    checkpoint = str(tmp_path / 'run' / 'model.ckpt-6')
    estimator = training.create_estimator(Line(), line_config, str(tmp_path / 'run'), trains=False)
    for num_steps, finals in ((6, [True]), (0, [False, True]), (9, [False, True])):
        exporter = Recorder('own')
        wrapped = export_policies.EstimatorExporter(exporter, estimator, num_steps)
        for is_final in (False, False, True):  # the last one: early stopping ends the training
            wrapped.export(6, checkpoint, {}, is_final)
        assert [is_final for _, _, is_final in exporter.calls] == finals


def receive_images():
    images = tf1.placeholder(tf.float32, [None, 1, 1, 1])
    return tf_estimator.export.ServingInputReceiver({'image': images}, {'image': images})


def test_the_exporters_of_tensorflow_write_saved_models(line_config, tmp_path):
    exporters = [
        tf_estimator.LatestExporter('each', receive_images, exports_to_keep=2),
        tf_estimator.BestExporter(
            'lowest_loss', receive_images, event_file_pattern='eval_0/*.tfevents.*'
        ),
        tf_estimator.FinalExporter('at_the_end', receive_images),
    ]
    train(line_config, tmp_path, exporters=exporters)
    counts = {
        path.name: len([one for one in path.iterdir() if (one / 'saved_model.pb').exists()])
        for path in (tmp_path / 'run' / 'export').iterdir()
    }
    assert counts == {'each': 2, 'lowest_loss': 3, 'at_the_end': 1}
    (final,) = (tmp_path / 'run' / 'export' / 'at_the_end').iterdir()
    signature = tf.saved_model.load(str(final)).signatures['serving_default']
    outputs = signature(tf.constant([[[[2.0]]]]))
    assert outputs['y'].numpy() == pytest.approx([2.0 * slope_after(6)], rel=1e-5)


@pytest.mark.parametrize(
    'names, taken', [(['own', 'own'], 'final, own'), (['final'], 'final'), (['best'], None)]
)
def test_two_exporters_of_one_name_are_refused(line_config, tmp_path, names, taken):
    line_config.train_config.num_steps = 1
    exporters = [Recorder(name) for name in names]
    if taken is None:  # of an exporter that the config does not ask for
        train(line_config, tmp_path, exporters=exporters)
        return
    line_config.export_config.final.enabled = True
    with pytest.raises(errors.UserError) as caught:
        train(line_config, tmp_path, exporters=exporters)
    assert str(caught.value) == (
        f'exporters: two write to export/{names[-1]}; expected another name (names that are '
        f'taken: {taken}).'
    )


@pytest.mark.parametrize('reason', ['mode', 'schedule', 'reader'])
def test_exporters_of_a_run_without_evaluations_are_refused(line_config, tmp_path, reason):
    line_config.eval_config.schedule.enabled = reason != 'schedule'
    if reason == 'reader':
        del line_config.eval_input_reader[:]
    with pytest.raises(errors.UserError, match='^exporters: they are called after evaluations'):
        train(line_config, tmp_path, exporters=[Recorder('own')], evaluate=reason != 'mode')
