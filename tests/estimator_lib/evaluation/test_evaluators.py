"""The evaluator that a config asks for."""

import json

import pytest
import tensorflow as tf

from estimator_lib import building, errors, tf_estimator, training
from estimator_lib.evaluation import evaluators
from estimator_lib.export import serving
from protos import pipeline_pb2
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line


@pytest.fixture
def config(tmp_path):
    return line_task.create_config(tmp_path)


def test_sets_are_named_by_readers_or_numbers(config):
    def names(eval_training_data=0):
        return [one.name for one in evaluators.evaluation_sets(Line(), config, eval_training_data)]

    assert names() == ['0', 'again']
    assert names(2) == ['0', 'again', 'training_data']
    del config.eval_input_reader[:]
    assert names(1) == ['training_data']
    with pytest.raises(errors.ConfigError, match='eval_input_reader: none is set'):
        names()


@pytest.mark.parametrize(
    ('names', 'eval_training_data', 'folder'),
    [(['', 'again'], 0, 'eval_0'), (['street'], 3, 'eval_street'), ([], 3, 'eval_training_data')],
)
def test_early_stopping_reads_one_file_of_the_first_set(
    names, eval_training_data, folder, config, tmp_path, monkeypatch
):
    """Without an Estimator, which takes seconds to make."""
    del config.eval_input_reader[:]
    for name in names:
        config.eval_input_reader.add(name=name)
    run = tmp_path / 'run'
    (run / folder).mkdir(parents=True)
    state = {'metric': 'loss', 'higher_is_better': False}
    (run / folder / 'early_stopping.json').write_text(
        json.dumps({**state, 'best': 0.5, 'best_step': 2, 'steps': [4, 6]})
    )
    assert evaluators.create_stopping(config, str(run), eval_training_data) is None
    stopping = config.train_config.early_stopping
    stopping.metric, stopping.higher_is_better, stopping.patience_evaluations = 'loss', False, 2
    monkeypatch.setattr(tf_estimator, 'Estimator', None)
    (run / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-6"\n')
    (run / 'model.ckpt-6.index').write_text('')
    found = evaluators.create_stopping(config, str(run), eval_training_data)
    assert (found.state.best, found.state.steps) == (0.5, (4, 6))
    assert found.should_stop(6)


def test_all_training_examples_are_evaluated_on_whatever_training_drops(config, tmp_path, caplog):
    """Four points in batches of three: the last one is a batch of its own."""
    config.train_config.num_steps = 2
    config.train_input_reader.drop_remainder = True
    config.train_input_reader.num_epochs = 9
    config.train_input_reader.shuffle = True
    training.train_and_evaluate(Line(), config, str(tmp_path / 'run'), evaluate=False)
    slope = training.tf.train.load_variable(str(tmp_path / 'run'), 'slope')
    del config.eval_input_reader[:]
    metrics = training.evaluate(Line(), config, str(tmp_path / 'run'), eval_training_data=1)
    assert metrics['training_data']['error'] == pytest.approx(abs(slope - 3) * 2.5, rel=1e-5)
    assert 'num_epochs' not in caplog.text


def test_metrics_that_can_be_asked_for():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    assert evaluators.metric_names(Line(), config) == [
        'error',
        'loss',
        'Loss/squared',
        'Loss/regularization_loss',
        'Loss/total_loss',
    ]
    config.eval_config.tiles.size = 64  # there are no losses of tiles
    assert evaluators.metric_names(Line(), config) == ['error']


def test_an_estimator_reads_whole_images(tmp_path):
    """As without tiles: batches of three, without the images that would be cut."""
    config = line_task.create_config(tmp_path)
    config.eval_config.tiles.size = 64
    with tf.Graph().as_default():
        features, _ = building.eval_input_fn(Line(), config)()
        tiled, _ = evaluators.evaluation_sets(Line(), config)[0].input_fn()
    assert serving.REQUEST in tiled and serving.REQUEST not in features


@pytest.mark.parametrize(
    ('fields', 'decoded', 'waiting'),
    [
        ({}, 2, 1),
        ({'num_parallel_batches': 1, 'num_prefetch_batches': 0}, 1, 0),
        ({'num_parallel_batches': 5, 'num_prefetch_batches': 7}, 5, 1),
        ({'num_prefetch_batches': -1}, 2, 1),  # as TensorFlow likes
    ],
)
def test_few_large_images_are_in_memory(tmp_path, monkeypatch, fields, decoded, waiting):
    config = line_task.create_config(tmp_path)
    for name, value in fields.items():
        setattr(config.eval_input_reader[0], name, value)
    before = config.eval_input_reader[0].SerializeToString()
    plans = []

    def create_input_fn(task, reader, mode, **options):
        plans.append((options['batch_size'], reader))

    monkeypatch.setattr(evaluators.inputs, 'create_input_fn', create_input_fn)
    for tile in (0, 64):
        config.eval_config.tiles.size = tile
        evaluators.evaluation_sets(Line(), config)
    (whole, _, tiled, _) = plans
    assert whole == (3, config.eval_input_reader[0])
    assert tiled[0] == 1
    assert (tiled[1].num_parallel_batches, tiled[1].num_prefetch_batches) == (decoded, waiting)
    assert config.eval_input_reader[0].SerializeToString() == before


@pytest.mark.parametrize('merges, cuts', [(0, 32), (64, 0)])
def test_training_examples_are_whole_where_evaluations_merge_tiles(
    config, monkeypatch, merges, cuts
):
    config.train_input_reader.tiles.size = 32
    config.eval_config.tiles.size = merges
    readers = []

    def create_input_fn(task, reader, mode, **options):
        readers.append(reader)

    monkeypatch.setattr(evaluators.inputs, 'create_input_fn', create_input_fn)
    evaluators.evaluation_sets(Line(), config, eval_training_data=1)
    assert readers[2].tiles.size == cuts and config.train_input_reader.tiles.size == 32
