"""Savers of training and inference graphs: what they read, what may be missing, what they write."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, graph_state
from estimator_lib.checkpoints import checkpoint_files, fine_tuning, model_dirs, savers
from protos import train_pb2
from tests.estimator_lib.checkpoints.small_variables import array, variable
from tests.estimator_lib.tiny_task import save

tf1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(('keep_max', 'left'), [(2, [4, 5]), (0, [1, 2, 3, 4, 5])])
def test_the_saver_keeps_as_many_as_it_should(graph, tmp_path, keep_max, left):
    tf1.train.create_global_step()
    saver = savers.create_saver(keep_max, 10000.0)
    saver.build()
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for step in range(1, 6):
            saver.save(session, str(tmp_path / 'model.ckpt'), global_step=step)
    assert [
        step for step in range(1, 6) if (tmp_path / f'model.ckpt-{step}.index').exists()
    ] == left
    # Relative, so that the folder can be moved.
    moved = tmp_path.rename(tmp_path.with_name(f'moved-{keep_max}'))
    assert checkpoint_files.latest_checkpoint(str(moved)) == str(moved / 'model.ckpt-5')


def save_run(folder, readers):
    with tf.Graph().as_default(), tf1.Session() as session:
        graph_of_readers(readers, value=7)
        saver = savers.create_saver(5, 10000.0)
        saver.build()
        session.run(tf1.global_variables_initializer())
        return saver.save(session, str(folder / 'model.ckpt'), global_step=3)


def graph_of_readers(readers, value=0):
    variables = [
        variable(f'input_reader/{name}/position', [rows, 3], value) for name, rows in readers
    ]
    return [variable('a', [2], value), *variables]


@pytest.mark.parametrize(
    ('now', 'expected'),
    [
        ([('chief', 2), ('worker_0', 2)], [[7, 7], [7, 7]]),
        # Of epoch 7 and all readers together, with the sum of what each has drawn.
        ([('chief', 2)], [[-8, 14]]),
        ([('chief', 2), ('worker_0', 2), ('worker_1', 2)], [[-8, 5], [-8, 5], [-8, 4]]),
        ([('chief', 4), ('worker_0', 2)], [[0, 0], [7, 7]]),
        ([('chief', 4)], [[0, 0]]),
    ],
)
def test_other_readers_go_on_and_those_of_other_sources_start_anew(graph, tmp_path, now, expected):
    prefix = save_run(tmp_path, [('chief', 2), ('worker_0', 2)])
    variables = graph_of_readers(now)
    saver = savers.create_saver(5, 10000.0)
    saver.build()
    model_dirs.check_model_dir(str(tmp_path), variables)
    graph.finalize()
    with tf1.Session() as session:
        saver.restore(session, prefix)
        model, *positions = session.run(variables)
        assert model.tolist() == [7, 7]
        assert [[value[0, 1], value[-1, 0]] for value in positions] == expected


@pytest.mark.parametrize(('reader', 'rows', 'index'), [('chief', 4, 1), ('other', 2, -8)])
def test_readers_of_several_devices_start_anew_or_go_on(graph, tmp_path, reader, rows, index):
    prefix = save_run(tmp_path, [('chief', 2)])
    strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
    with strategy.scope():
        variables = graph_of_readers([(reader, rows)], value=1)[1:]
        saver = savers.create_saver(5, 10000.0)
        saver.build()
    start = tf1.global_variables_initializer()
    copies = [each.read_value() for variable in variables for each in variable.values]
    graph.finalize()
    with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
        session.run(start)
        saver.restore(session, prefix)
        assert [value[0, 1] for value in session.run(copies)] == [index] * 2


def test_what_a_saver_needs_and_lacks_is_still_an_error(graph, tmp_path):
    prefix = save_run(tmp_path, [('chief', 2)])
    graph_of_readers([('chief', 4)])
    variable('b', [1])
    saver = savers.create_saver(5, 10000.0)
    saver.build()
    with tf1.Session() as session, pytest.raises(tf.errors.OpError):
        saver.restore(session, prefix)


def test_a_run_does_not_resume_from_values_of_another_type(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt-3', {'a': np.array([3, 4])})
    variable('a', [2])
    saver = savers.create_saver(5, 10000.0)
    with (
        tf1.Session() as session,
        pytest.raises(errors.CheckpointError, match='holds a as int64; expected float32'),
    ):
        saver.restore(session, prefix)


@pytest.mark.parametrize('step', [None, 30])
def test_inference_reads_the_model_and_the_step_where_there_is_one(graph, tmp_path, step):
    values = {'conv/weights': array(2, 2), 'unused': array(3)}
    if step:
        values['global_step'] = np.int64(step)
    prefix = save(tmp_path / 'model.ckpt', values)
    weights = variable('conv/weights', [2, 2])
    global_step = tf1.train.create_global_step()
    saver = savers.create_inference_saver()
    saver.build()
    graph.finalize()
    with tf1.Session() as session:
        saver.restore(session, prefix)
        np.testing.assert_array_equal(session.run(weights), array(2, 2))
        assert session.run(global_step) == (step or 0)


@pytest.mark.parametrize('name', ['conv/weights', 'conv/BatchNorm/moving_mean'])
def test_inference_on_moving_averages(name, graph, tmp_path):
    average = f'{name}/ExponentialMovingAverage'
    prefix = save(tmp_path / 'm', {name: array(2), average: array(2, start=8)})
    weights = variable(name, [2])
    with tf1.Session() as session:
        savers.create_inference_saver(use_moving_averages=True).restore(session, prefix)
        np.testing.assert_array_equal(session.run(weights), [8, 9])


def test_inference_refuses_another_model(graph, tmp_path):
    prefix = save(tmp_path / 'm', {'conv/weights': array(2)})
    variable('conv/weights', [3])
    with tf1.Session() as session, pytest.raises(errors.CheckpointError, match='not a checkpoint'):
        savers.create_inference_saver().restore(session, prefix)


def test_inference_refuses_a_global_step_of_another_shape(graph, tmp_path):
    prefix = save(tmp_path / 'm', {'a': array(2), 'global_step': np.zeros([2, 3], np.int64)})
    variable('a', [2])
    tf1.train.create_global_step()
    with tf1.Session() as session, pytest.raises(errors.CheckpointError, match='global_step'):
        savers.create_inference_saver().restore(session, prefix)


def test_an_evaluation_needs_the_companions(graph, tmp_path):
    variable('Net/conv/weights', [2, 2])
    for name in ('Net/conv/quant/min', 'Net/conv/quant/max'):
        variable(name, [], 7.0)
        graph_state.add_companion(name, 'quantization ranges')
    published = save(tmp_path / 'a', {'Net/conv/weights': array(2, 2)})
    saver = savers.create_inference_saver()
    with tf1.Session() as session:
        with pytest.raises(errors.CheckpointError) as caught:
            saver.restore(session, published)
        assert '2 of the 2 quantization ranges of this model are not in it' in str(caught.value)
        values = {
            'Net/conv/weights': array(2, 2),
            'Net/conv/quant/min': np.float32(-3.0),
            'Net/conv/quant/max': np.float32(5.0),
        }
        saver.restore(session, save(tmp_path / 'b', values))
        held = session.run({one.op.name: one for one in tf1.global_variables()})
    assert (held['Net/conv/quant/min'], held['Net/conv/quant/max']) == (-3.0, 5.0)


def test_inference_never_takes_an_initial_value(graph, tmp_path):
    prefix = save(tmp_path / 'm', {'conv/weights': array(2)})
    variable('conv/weights', [2])
    variable('forgotten', [1])  # in no collection of the model's
    with tf1.Session() as session, pytest.raises(errors.CheckpointError, match='forgotten'):
        savers.create_inference_saver().restore(session, prefix)


@pytest.mark.parametrize('use_moving_averages', [False, True])
def test_what_inference_has_read_is_saved_by_the_same_names(graph, tmp_path, use_moving_averages):
    average = 'w/ExponentialMovingAverage'
    prefix = save(tmp_path / 'a', {'w': array(2), average: array(2, start=8), 'b': array(1)})
    variable('w', [2])
    variable('b', [1])
    tf1.train.create_global_step()
    saver = savers.create_inference_saver(use_moving_averages)
    with tf1.Session() as session:
        saver.restore(session, prefix)
        written = saver.save(session, str(tmp_path / 'b'))
    reader = tf.train.load_checkpoint(written)
    name, value = (average, [8, 9]) if use_moving_averages else ('w', [1, 2])
    assert set(reader.get_variable_to_shape_map()) == {name, 'b', 'global_step'}
    assert reader.get_tensor(name).tolist() == value


def test_a_variable_that_is_created_after_the_saver_may_be_missing(graph, tmp_path, caplog):
    prefix = save(tmp_path / 'model.ckpt-3', {'w': array(2), 'global_step': np.int64(3)})
    weights, step = variable('w', [2]), tf1.train.create_global_step()
    saver = savers.create_saver()
    counter = variable('counter_of_a_hook', [], 5.0)
    saver.build()
    with tf1.Session() as session, caplog.at_level(logging.WARNING, 'estimator_lib'):
        saver.restore(session, prefix)
        assert session.run([weights, step, counter])[1:] == [3, 5.0]
        np.testing.assert_array_equal(session.run(weights), array(2))
    assert 'counter_of_a_hook' in caplog.text


def test_a_saver_builds_itself_where_nobody_does(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt-3', {'w': array(2), 'global_step': np.int64(3)})
    weights = variable('w', [2])
    tf1.train.create_global_step()
    with tf1.Session() as session:
        savers.create_saver().restore(session, prefix)
        np.testing.assert_array_equal(session.run(weights), array(2))


def test_require_fit(graph, tmp_path):
    prefix = save(tmp_path / 'm', {'conv/weights': array(2, 2), 'logits/biases': array(3)})
    variables = {
        'conv/weights': variable('conv/weights', [2, 2]),
        'logits/biases': variable('logits/biases', [3]),
    }
    savers.require_fit(prefix, variables)
    with pytest.raises(errors.CheckpointError, match='is not a checkpoint of this model') as caught:
        savers.require_fit(prefix, {**variables, 'new': variable('new', [1])})
    assert 'missing in the checkpoint (1 variables' in str(caught.value)


def flip(data):
    data.write_bytes(bytes(byte ^ 0xFF for byte in data.read_bytes()))


DAMAGE = {
    'truncated': lambda data: data.write_bytes(data.read_bytes()[:9]),
    'flipped': flip,
    'empty': lambda data: data.write_bytes(b''),
    'missing': lambda data: data.unlink(),
}


def resume(session, prefix):
    saver = savers.create_saver(5, 10000.0)
    saver.build()
    saver.restore(session, prefix)


def evaluate(session, prefix):
    savers.create_inference_saver().restore(session, prefix)


def fine_tune(session, prefix):
    del session
    config = train_pb2.TrainConfig(fine_tune_checkpoint=prefix)
    variables = {one.op.name: one for one in tf1.global_variables()}
    fine_tuning.fine_tune_start(config, variables)


@pytest.mark.parametrize('damage', DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize('read', [resume, evaluate, fine_tune])
@pytest.mark.parametrize('part', ['data-00000-of-00001', 'index'])
def test_a_corrupt_checkpoint_is_named_with_the_one_before(graph, tmp_path, damage, read, part):
    if (part, damage) == ('index', DAMAGE['missing']):
        pytest.skip('without an index there is no checkpoint')
    tf1.add_to_collection(tf1.GraphKeys.MODEL_VARIABLES, variable('a', [5]))
    tf1.train.create_global_step()
    saver = tf1.train.Saver()
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        earlier, last = (saver.save(session, str(tmp_path / 'model.ckpt'), i) for i in (1, 2))
        damage(tmp_path / f'model.ckpt-2.{part}')
        with pytest.raises(errors.CheckpointError) as caught:
            read(session, last)
    message = str(caught.value)
    assert last in message and '\n' not in message
    if damage is not DAMAGE['missing']:
        assert f'{last} is corrupt: ' in message or f'{last} cannot be read as' in message
        assert (
            f'the newest other one is {earlier}; to resume from it, delete model.ckpt-2.*'
            in message
        )
