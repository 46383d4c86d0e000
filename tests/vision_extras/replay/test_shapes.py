"""Shapes of machines in `run.json`, and the configs that repeat their steps."""

import json

import pytest

from estimator_lib import distribution, errors
from estimator_lib.distribution import Mode
from protos import pipeline_pb2
from vision_extras.replay import shapes

WORKERS = ['chief:0', 'worker:0']


def entry(first_step, mode, workers=(), replicas=1):
    recorded = {'mode': mode.name, 'workers': list(workers), 'replicas': replicas}
    return {'first_step': first_step, 'distribution': recorded}


def write(folder, *entries):
    (folder / 'run.json').write_text(json.dumps({'starts': entries}))
    return str(folder)


def refused(folder, first, last):
    with pytest.raises(errors.UserError) as caught:
        shapes.one_shape(folder, first, last)
    return str(caught.value)


def test_the_shape_of_steps_is_that_of_the_last_start_that_made_them(tmp_path):
    two = entry(0, Mode.MULTI_WORKER_MIRRORED, WORKERS, 2)
    # The second start was killed at step 29 with a checkpoint of step 20, from which the third goes
    # on.
    folder = write(tmp_path, two, entry(10, Mode.ONE_DEVICE), {**two, 'first_step': 20})
    shape = shapes.one_shape(folder, 1, 10)
    assert shape == (Mode.MULTI_WORKER_MIRRORED, tuple(WORKERS), 2)
    assert shape.readers == ('chief_0', 'worker_0')
    assert shapes.one_shape(folder, 11, 20) == (Mode.ONE_DEVICE, (), 1)
    assert shapes.one_shape(folder, 21, 40).readers == shape.readers
    message = refused(folder, 9, 12)
    assert 'changed at step 11, from MULTI_WORKER_MIRRORED with 2 processes and 2 rep' in message
    assert 'the checkpoint of step 10 is deleted' in message
    assert message.endswith('; expected a step before 11.')
    assert 'changed at step 21, from ONE_DEVICE with 1 process to MULTI' in refused(folder, 15, 25)


@pytest.mark.parametrize('recorded', [None, 3, {}, {'mode': 'TPU', 'workers': []}])
def test_an_unknown_shape(tmp_path, recorded):
    folder = write(tmp_path, {'first_step': 0, 'distribution': recorded}, {'first_step': None})
    assert shapes.one_shape(folder, 1, 5) is None
    folder = write(tmp_path, {'first_step': 0}, entry(3, Mode.ONE_DEVICE))
    assert shapes.one_shape(folder, 1, 5) == (Mode.ONE_DEVICE, (), 1)


@pytest.mark.parametrize(
    ('mode', 'reason'),
    [
        (Mode.ASYNC_PARAMETER_SERVERS, 'each worker updated the variables when it was done'),
        (Mode.SYNC_PARAMETER_SERVERS, 'each worker updated the statistics of batch norm'),
    ],
)
def test_parameter_servers_are_refused_with_the_reason(tmp_path, mode, reason):
    message = refused(write(tmp_path, entry(0, mode, WORKERS)), 1, 2)
    assert message.startswith('--step=2 was made by ') and reason in message
    # A single worker makes one step after the other.
    assert shapes.one_shape(write(tmp_path, entry(0, mode, WORKERS[:1])), 1, 2).readers == ()


def test_a_device_takes_the_place_of_each_replica():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_config.batch_size = 12
    config.train_config.cluster.mode = 5  # MULTI_WORKER_MIRRORED
    config.train_config.sync_replicas = True
    shape = shapes.Shape(Mode.MULTI_WORKER_MIRRORED, tuple(WORKERS), 4)
    plan = distribution.create_plan(shapes.localize_config(config, shape))
    assert (plan.mode, plan.num_replicas, plan.cluster) == (Mode.MIRRORED, 4, None)
    one = shapes.Shape(Mode.ASYNC_PARAMETER_SERVERS, ('chief:0',), 1)
    assert distribution.create_plan(shapes.localize_config(config, one)).mode is Mode.ONE_DEVICE
    clones = shapes.Shape(Mode.CLONES, (), 3)
    plan = distribution.create_plan(shapes.localize_config(config, clones))
    assert (plan.mode, plan.num_replicas) == (Mode.CLONES, 3)
    assert config.train_config.cluster.mode == 5
