"""Exporters of `tf.estimator` that a program adds to a run."""

import pytest
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.export.estimator_exporters import EstimatorExporter
from protos import train_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line, error_after, slope_after

tf1 = tf.compat.v1


@pytest.fixture
def config(tmp_path):
    made = line_task.create_config(tmp_path)
    del made.eval_input_reader[1:]
    return made


def train(config, folder, **options):
    return training.train_and_evaluate(Line(), config, str(folder / 'run'), **options)


class Recorder(tf.estimator.Exporter):
    """Notes its calls."""

    def __init__(self, name):
        self._name, self.calls = name, []

    @property
    def name(self):
        return self._name

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        assert isinstance(estimator, tf.estimator.Estimator)
        assert tf.train.load_variable(checkpoint_path, 'global_step') == eval_result['global_step']
        self.calls.append((export_path, eval_result, is_the_final_export))


@pytest.mark.parametrize('loop', [train_pb2.ESTIMATOR, train_pb2.TF_FUNCTION])
def test_exporters_are_called_after_each_evaluation(config, tmp_path, loop):
    config.train_config.loop = loop
    exporter = Recorder('own')
    train(config, tmp_path, exporters=[exporter])
    paths, results, finals = zip(*exporter.calls)
    assert set(paths) == {str(tmp_path / 'run' / 'export' / 'own')}
    assert [result['global_step'] for result in results] == [2, 4, 6]
    assert finals == (False, False, True)
    expected = [error_after(step) for step in (2, 4, 6)]
    assert [result['error'] for result in results] == pytest.approx(expected, rel=1e-4)
    assert {'loss', 'Loss/squared'} <= set(results[0])


def test_an_exporter_is_called_once_for_a_checkpoint_and_told_of_the_end(config, tmp_path):
    train(config, tmp_path)
    checkpoint = str(tmp_path / 'run' / 'model.ckpt-6')
    estimator = training.create_estimator(Line(), config, str(tmp_path / 'run'), trains=False)
    for num_steps, finals in ((6, [True]), (0, [False, True]), (9, [False, True])):
        exporter = Recorder('own')
        wrapped = EstimatorExporter(exporter, estimator, num_steps)
        for is_final in (False, False, True):  # the last one: early stopping ends the training
            wrapped.export(6, checkpoint, {}, is_final)
        assert [is_final for _, _, is_final in exporter.calls] == finals


def receive_images():
    images = tf1.placeholder(tf.float32, [None, 1, 1, 1])
    return tf.estimator.export.ServingInputReceiver({'image': images}, {'image': images})


def test_the_exporters_of_tensorflow_write_saved_models(config, tmp_path):
    exporters = [
        tf.estimator.LatestExporter('each', receive_images, exports_to_keep=2),
        tf.estimator.BestExporter(
            'lowest_loss', receive_images, event_file_pattern='eval_0/*.tfevents.*'
        ),
        tf.estimator.FinalExporter('at_the_end', receive_images),
    ]
    train(config, tmp_path, exporters=exporters)
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
def test_two_exporters_of_one_name_are_refused(config, tmp_path, names, taken):
    config.train_config.num_steps = 1
    exporters = [Recorder(name) for name in names]
    if taken is None:  # of an exporter that the config does not ask for
        train(config, tmp_path, exporters=exporters)
        return
    config.export_config.final.enabled = True
    with pytest.raises(errors.UserError) as caught:
        train(config, tmp_path, exporters=exporters)
    assert str(caught.value) == (
        f'exporters: two write to export/{names[-1]}; expected another name (names that are '
        f'taken: {taken}).'
    )


@pytest.mark.parametrize('reason', ['mode', 'schedule', 'reader'])
def test_exporters_of_a_run_without_evaluations_are_refused(config, tmp_path, reason):
    config.eval_config.schedule.enabled = reason != 'schedule'
    if reason == 'reader':
        del config.eval_input_reader[:]
    with pytest.raises(errors.UserError, match='^exporters: they are called after evaluations'):
        train(config, tmp_path, exporters=[Recorder('own')], evaluate=reason != 'mode')
