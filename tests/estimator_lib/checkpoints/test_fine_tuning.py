"""Runs that start from another checkpoint: what is loaded, what is refused, what is said."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, graph_state, tf_estimator
from estimator_lib.checkpoints import checkpoint_files, fine_tuning, savers
from protos import train_pb2
from tests.estimator_lib.checkpoints.small_variables import array, variable
from tests.estimator_lib.tiny_task import save

tf1 = tf.compat.v1


def train_config(checkpoint, **fields):
    return train_pb2.TrainConfig(fine_tune_checkpoint=str(checkpoint), **fields)


def run_config():
    return tf_estimator.RunConfig(log_step_count_steps=None, save_summary_steps=None)


@pytest.fixture(scope='module')
def published(tmp_path_factory):
    """Save a checkpoint of a classifier with 11 classes and an extractor `Net`."""
    return save(
        tmp_path_factory.mktemp('published') / 'net.ckpt',
        {
            'Net/conv/weights': array(2, 2),
            'Net/conv/weights/RMSProp': array(2, 2, start=90),
            'Net/Logits/weights': array(2, 11),
            'Net/Aux/weights': array(3),
            'global_step': np.int64(900),
        },
    )


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def plain(variables):
    return {one.op.name: one for one in variables}


def model():
    return [variable('Net/conv/weights', [2, 2]), variable('Net/Logits/weights', [2, 5])]


def started(start, target=''):
    """Return a session that is initialized by `Scaffold(**start)`."""
    session = tf1.Session(target)
    init_op = tf1.global_variables_initializer()
    session.graph.finalize()
    session.run(init_op, start.get('init_feed_dict'))
    start['init_fn'](None, session)
    return session


def test_what_fits_is_loaded_and_the_rest_is_reported(graph, published, caplog):
    weights, logits = model()
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        start = fine_tuning.fine_tune_start(
            train_config(published), plain([weights, logits]), ['Logits']
        )
    assert 'of another shape (1 variables, 10 parameters)' in caplog.text
    assert 'unused in the checkpoint (1 variables, 3 parameters)' in caplog.text
    with started(start) as session:
        np.testing.assert_array_equal(session.run(weights), array(2, 2))
        np.testing.assert_array_equal(session.run(logits), np.zeros([2, 5]))


def test_a_restore_adds_no_operation(graph, published):
    variables = plain(model())
    before = len(graph.get_operations())
    fine_tuning.fine_tune_start(train_config(published), variables)
    assert len(graph.get_operations()) == before


def test_names_are_translated_by_the_restore_map(graph, published):
    weights = variable('Extractor/Net/conv/weights', [2, 2])
    start = fine_tuning.fine_tune_start(train_config(published), {'Net/conv/weights': weights})
    with started(start) as session:
        np.testing.assert_array_equal(session.run(weights), array(2, 2))


def test_moving_averages_start_from_the_restored_values(graph, published):
    weights, logits = model()
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([weights, logits])
    start = fine_tuning.fine_tune_start(train_config(published), plain([weights, logits]))
    with started(start) as session:
        np.testing.assert_array_equal(session.run(average.average(weights)), array(2, 2))
        np.testing.assert_array_equal(session.run(average.average(logits)), np.zeros([2, 5]))


def test_a_session_that_is_made_anew_is_set_again(graph, published):
    variables = plain(model())
    start = fine_tuning.fine_tune_start(train_config(published), variables)
    for _ in range(2):
        # The second time the values that were fed to the init op are no longer held.
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer(), start['init_feed_dict'])
            start['init_fn'](None, session)
            conv = session.run(variables['Net/conv/weights'])
            np.testing.assert_array_equal(conv, array(2, 2))
        assert not start['init_feed_dict']


@pytest.mark.parametrize(
    ('fields', 'loaded', 'excluded'),
    [
        ({}, ['Net/conv/weights', 'Net/Logits/weights'], []),
        (
            {'checkpoint_exclude_scopes': ['Net/Log']},
            ['Net/conv/weights'],
            ['Net/Logits/weights'],
        ),
        ({'initialize_last_layer': False}, ['Net/conv/weights'], ['Net/Logits/weights']),
    ],
)
def test_exclusions(graph, published, fields, loaded, excluded):
    variables = [variable('Net/conv/weights', [2, 2]), variable('Net/Logits/weights', [2, 11])]
    report = fine_tuning.fine_tune_report(
        train_config(published, **fields), plain(variables), ['Logits']
    )
    assert [entry.name for entry in report.loaded] == loaded
    assert [entry.name for entry in report.excluded] == excluded


def test_an_exclusion_that_excludes_nothing_is_warned_of(graph, published, caplog):
    config = train_config(published, checkpoint_exclude_scopes=['Net/Logit/'])
    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        fine_tuning.fine_tune_report(config, plain(model()))
    assert "'Net/Logit/'; did you mean 'Net/Logits'?" in caplog.text


def test_strict_restores_refuse_what_is_missing(graph, published):
    config = train_config(published, ignore_missing_variables=False)
    variables = plain([*model(), variable('Net/new/weights', [1])])
    with pytest.raises(errors.CheckpointError, match='ignore_missing_variables') as caught:
        fine_tuning.fine_tune_report(config, variables, ['Logits'])
    assert str(caught.value).startswith('train_config.fine_tune_checkpoint: 1 variables')
    assert 'Net/new/weights' in str(caught.value)


def test_strict_restores_let_the_last_layer_differ_in_shape(graph, published):
    config = train_config(published, ignore_missing_variables=False)
    report = fine_tuning.fine_tune_report(config, plain(model()), ['Logits'])
    assert len(report.mismatched) == 1
    with pytest.raises(errors.CheckpointError, match='of another shape'):
        fine_tuning.fine_tune_report(config, plain(model_again()), [])


def model_again():
    with tf1.variable_scope('', reuse=True):
        return model()


def test_nothing_matched_shows_both_sides_and_the_prefix(graph, published):
    wanted = {
        'FeatureExtractor/Net/conv/weights': variable('a', [2, 2]),
        'FeatureExtractor/Net/Logits/weights': variable('b', [2, 5]),
    }
    with pytest.raises(errors.CheckpointError) as caught:
        fine_tuning.fine_tune_report(train_config(published), wanted)
    message = str(caught.value)
    assert 'looked for: FeatureExtractor/Net/conv/weights' in message
    assert 'it holds:   Net/Aux/weights, Net/Logits/weights, Net/conv/weights' in message
    assert "2 of the 2 names are there with '' in place of 'FeatureExtractor/'" in message
    assert 'fine_tune_checkpoint_type' in message


def test_everything_excluded_is_an_error_of_its_own(graph, published):
    config = train_config(published, checkpoint_exclude_scopes=['Net'])
    with pytest.raises(errors.CheckpointError, match='all 2 variables are excluded'):
        fine_tuning.fine_tune_report(config, plain(model()))


def test_an_object_based_checkpoint_is_called_so(graph, tmp_path):
    prefix = save(
        tmp_path / 'ckpt-0', {'model/_base/0/kernel/.ATTRIBUTES/VARIABLE_VALUE': array(2)}
    )
    with pytest.raises(errors.CheckpointError, match='object-based checkpoint of TensorFlow 2'):
        fine_tuning.fine_tune_report(train_config(prefix), plain(model()))


def test_a_missing_checkpoint_names_the_field(graph, tmp_path):
    with pytest.raises(errors.CheckpointError, match=r'^train_config.fine_tune_checkpoint: there'):
        fine_tuning.fine_tune_report(train_config(tmp_path / 'model.ckpt'), {})


def test_no_checkpoint_named_is_no_restore(graph):
    assert fine_tuning.fine_tune_start(train_pb2.TrainConfig(), {}) == {}


def test_a_run_that_resumes_does_not_look_at_the_checkpoint(graph, tmp_path, caplog):
    save(tmp_path / 'model.ckpt-3', {'a': array(2)})
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        start = fine_tuning.fine_tune_start(
            train_config('/deleted/since'), {}, model_dir=str(tmp_path)
        )
    assert start == {}
    assert f'resuming from {tmp_path}/model.ckpt-3' in caplog.text


def linear_model_fn(checkpoint, model_dir):
    def model_fn(features, labels, mode, params):
        weights = variable('Net/conv/weights', [2, 2])
        loss = tf.reduce_sum(features * weights) * 0.0
        start = fine_tuning.fine_tune_start(
            train_config(checkpoint), {'Net/conv/weights': weights}, model_dir=model_dir
        )
        optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return tf_estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            scaffold=tf1.train.Scaffold(saver=savers.create_saver(5, 10000.0), **start),
        )

    return model_fn


def train_input_fn():
    return tf.data.Dataset.from_tensors((tf.ones([2, 2]), tf.zeros([]))).repeat()


def test_under_an_estimator_and_then_resumed(published, tmp_path):
    model_dir = str(tmp_path)
    estimator = tf_estimator.Estimator(
        linear_model_fn(published, model_dir), model_dir, run_config(), params={}
    )
    estimator.train(train_input_fn, steps=2)
    np.testing.assert_array_equal(estimator.get_variable_value('Net/conv/weights'), array(2, 2))
    resumed = tf_estimator.Estimator(
        linear_model_fn('/deleted/since', model_dir), model_dir, run_config(), params={}
    )
    resumed.train(train_input_fn, steps=1)
    assert checkpoint_files.latest_step(model_dir) == 3
    np.testing.assert_array_equal(resumed.get_variable_value('Net/conv/weights'), array(2, 2))


def test_under_a_mirrored_strategy(published, tmp_path, caplog):
    model_dir = str(tmp_path)
    with tf.Graph().as_default():
        strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
    config = tf_estimator.RunConfig(
        model_dir,
        train_distribute=strategy,
        session_config=tf1.ConfigProto(device_count={'CPU': 2}, allow_soft_placement=True),
        log_step_count_steps=None,
        save_summary_steps=None,
    )
    estimator = tf_estimator.Estimator(
        linear_model_fn(published, model_dir), config=config, params={}
    )
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        estimator.train(train_input_fn, steps=1)
    np.testing.assert_array_equal(estimator.get_variable_value('Net/conv/weights'), array(2, 2))
    assert caplog.text.count('Restore from') == 1


def test_in_a_remote_session(published):
    server = tf1.train.Server.create_local_server()
    with tf.Graph().as_default():
        weights = variable('Net/conv/weights', [2, 2])
        start = fine_tuning.fine_tune_start(train_config(published), {'Net/conv/weights': weights})
        with started(start, server.target) as session:
            np.testing.assert_array_equal(session.run(weights), array(2, 2))


def loaded(config, variables):
    report = fine_tuning.fine_tune_report(config, plain(variables))
    return [(entry.name, entry.checkpoint_name) for entry in report.loaded]


def test_only_included_scopes_are_restored_less_the_excluded(graph, published):
    variables = [
        variable('Net/conv/weights', [2, 2]),
        variable('Net/Aux/weights', [3]),
        variable('Net/Logits/weights', [2, 11]),
    ]
    include = ['Net/conv', 'Net/Logits']
    config = train_config(published, checkpoint_include_scopes=include)
    names = ['Net/conv/weights', 'Net/Logits/weights']
    assert loaded(config, variables) == [(name, name) for name in names]
    config.checkpoint_exclude_scopes.append('Net/Logits')
    assert loaded(config, variables) == [(names[0], names[0])]
    config.checkpoint_include_scopes.append('Net/cov')
    with pytest.raises(errors.ConfigError, match="include_scopes.*'Net/cov'.*'Net/conv'"):
        loaded(config, variables)


def test_names_are_mapped_the_first_entry_first(graph, published):
    variables = [variable('My/conv/kernel', [2, 2]), variable('My/Aux/weights', [3])]
    config = train_config(published)
    config.checkpoint_names.add(variable='My/conv/kernel', name='Net/conv/weights')
    config.checkpoint_names.add(variable='My/*', name='Net/*')
    start = fine_tuning.fine_tune_start(config, plain(variables))
    with started(start) as session:
        assert session.run(variables[0]).tolist() == [[1, 2], [3, 4]]
        assert session.run(variables[1]).tolist() == [1, 2, 3]
    config.checkpoint_names.add(variable='My/cnv/*', name='Net/*')
    with pytest.raises(errors.ConfigError, match=r"checkpoint_names\[2\]: nothing .*'My/cnv/\*'"):
        loaded(config, variables)
    del config.checkpoint_names[1:]
    config.checkpoint_names.add(variable='My/Aux/weights', name='Net/conv/weights')
    with pytest.raises(errors.ConfigError, match='My/conv/kernel and My/Aux/weights are both'):
        loaded(config, variables)


def test_too_small_a_part_is_refused_when_a_least_one_is_set(graph, published):
    # 4 of 4 + 10 parameters: the logits have another shape.
    config = train_config(published, min_restored_fraction=0.28)
    assert loaded(config, model()) == [('Net/conv/weights', 'Net/conv/weights')]
    config.min_restored_fraction = 0.29
    with pytest.raises(errors.CheckpointError, match='28.6% of .* expected at least 29.0%'):
        fine_tuning.fine_tune_report(config, plain(model_again()))


def test_a_checkpoint_of_averages_alone_says_what_to_do(graph, tmp_path):
    path = save(tmp_path / 'm', {'Net/w/ExponentialMovingAverage': array(2)})
    weights = variable('Net/w', [2])
    with pytest.raises(errors.CheckpointError, match="checkpoint_names { variable: '\\*'"):
        loaded(train_config(path), [weights])
    with pytest.raises(errors.CheckpointError, match='eval_config.use_moving_averages: true'):
        savers.require_fit(path, plain([weights]))
    config = train_config(path)
    config.checkpoint_names.add(variable='*', name='*/ExponentialMovingAverage')
    assert loaded(config, [weights]) == [('Net/w', 'Net/w/ExponentialMovingAverage')]


def with_ranges():
    """Build the model's variables and companions of it."""
    own = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
    found = [variable('Net/conv/weights', [2, 2], collections=own)]
    for name in ('Net/conv/quant/min', 'Net/conv/quant/max'):
        found.append(variable(name, [], 7.0))
        graph_state.add_companion(name, 'quantization ranges')
    return found


def test_companions_that_a_checkpoint_lacks_start_fresh_in_one_line(published, graph):
    # Not even then are they missing:
    config = train_config(published, ignore_missing_variables=False, min_restored_fraction=1.0)
    report = fine_tuning.fine_tune_report(config, plain(with_ranges()))
    assert (report.is_complete, report.fresh) == (True, {'quantization ranges': 2})
    assert '\n2 quantization ranges start fresh\n' in report.table()
    assert 'Net/conv/quant' not in report.table()


def test_companions_are_restored_where_there_are_any(graph, tmp_path):
    values = {'Net/conv/weights': array(2, 2), 'Net/conv/quant/min': np.float32(-3.0)}
    report = fine_tuning.fine_tune_report(
        train_config(save(tmp_path / 'a', values)), plain(with_ranges())
    )
    assert [entry.name for entry in report.loaded] == ['Net/conv/weights', 'Net/conv/quant/min']
    assert report.fresh == {'quantization ranges': 1}


@pytest.mark.parametrize('inputs, others', [(4, (32, 24)), (6, (48, 24))])
def test_kernels_of_further_channels_start_at_zero(tmp_path, graph, caplog, inputs, others):
    """A convolution, and a separable one, whose second part has all products of the first."""
    kernels = {'first': array(3, 3, 3, 5), 'point': array(1, 1, others[1], 5)}
    prefix = save(tmp_path / 'net.ckpt', {'bias': array(5), **kernels})
    variables = [
        variable('bias', [5]),
        variable('first', [3, 3, inputs, 5]),
        variable('point', [1, 1, others[0], 5]),
    ]
    config = train_config(prefix, ignore_missing_variables=False)
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        start = fine_tuning.fine_tune_start(config, plain(variables), channels=inputs)
    assert 'first: the weights of channels beside the three of' in caplog.text
    with started(start) as session:
        for name, kernel in kernels.items():
            (own,) = (each for each in variables if each.op.name == name)
            got = session.run(own)
            known = kernel.shape[2]
            np.testing.assert_array_equal(got[:, :, :known], kernel)
            assert got.shape[2] > known and not got[:, :, known:].any()


@pytest.mark.parametrize(
    'shape, held, channels',
    [
        ([3, 3, 4, 5], [3, 3, 3, 5], 3),
        ([3, 3, 5, 5], [3, 3, 3, 5], 4),
        ([3, 3, 4, 6], [3, 3, 3, 5], 4),
        ([4, 5], [3, 5], 4),
    ],
)
def test_other_shapes_are_no_further_channels(tmp_path, graph, shape, held, channels):
    prefix = save(tmp_path / 'net.ckpt', {'bias': array(5), 'first': array(*held)})
    variables = [variable('bias', [5]), variable('first', shape)]
    config = train_config(prefix, ignore_missing_variables=True)
    report = fine_tuning.fine_tune_report(config, plain(variables), channels=channels)
    assert [entry.name for entry in report.mismatched] == ['first']
