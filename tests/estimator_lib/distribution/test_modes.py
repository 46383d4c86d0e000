"""Which mode runs, and what does not fit together."""

import pytest
from google.protobuf import text_format

from estimator_lib import distribution, errors
from estimator_lib.distribution import Cluster, Mode, modes
from protos import pipeline_pb2

SERVERS = {'chief': ('a:1',), 'worker': ('b:1', 'c:1'), 'ps': ('d:1', 'e:1')}
WORKERS = {'worker': ('b:1', 'c:1'), 'evaluator': ('f:1',)}
ALONE = {'chief': ('a:1',), 'evaluator': ('f:1',)}


def task_of(addresses, role=None, index=0):
    return Cluster(addresses, role or next(iter(addresses)), index)


def plan(text='', task=None, accelerators=0, train_input_reader=''):
    config = text_format.Parse(
        f'train_config {{ {text} }} train_input_reader {{ {train_input_reader} }}',
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    return distribution.create_plan(config, task, num_accelerators=accelerators)


CHOSEN = {
    'one machine': ('', None, Mode.ONE_DEVICE),
    'one machine, replicas to wait for': ('sync_replicas: true', None, Mode.ONE_DEVICE),
    'a chief alone': ('', ALONE, Mode.ONE_DEVICE),
    'servers': ('', SERVERS, Mode.ASYNC_PARAMETER_SERVERS),
    'servers and waiting': (
        'sync_replicas: true batch_size: 3',
        SERVERS,
        Mode.SYNC_PARAMETER_SERVERS,
    ),
    'servers and a mode that waits': (
        'batch_size: 3 cluster { mode: SYNC_PARAMETER_SERVERS }',
        SERVERS,
        Mode.SYNC_PARAMETER_SERVERS,
    ),
    'workers': ('', WORKERS, Mode.MULTI_WORKER_MIRRORED),
    'one worker that wants collectives': (
        'cluster { mode: MULTI_WORKER_MIRRORED }',
        {'worker': ('b:1',)},
        Mode.MULTI_WORKER_MIRRORED,
    ),
    'clones of a chief alone': ('cluster { mode: CLONES num_clones: 2 }', ALONE, Mode.CLONES),
}


@pytest.mark.parametrize('case', sorted(CHOSEN))
def test_chosen(case):
    text, addresses, mode = CHOSEN[case]
    assert plan(text, addresses and task_of(addresses)).mode is mode


ALONE_OR_TOGETHER = {
    'one device': ('', None),
    'one clone': ('cluster { mode: CLONES num_clones: 1 }', None),
    'mirrored': ('batch_size: 2 cluster { mode: MIRRORED num_clones: 2 }', None),
    'workers': ('batch_size: 2', WORKERS),
    'servers of one': ('', {'chief': ('a:1',), 'ps': ('d:1',)}),
}
APART = {
    'clones': ('batch_size: 2 cluster { mode: CLONES num_clones: 2 }', None, 'whose 2 replicas'),
    'servers': ('', SERVERS, 'asynchronous parameter servers, whose 3 replicas see only their own'),
    'synchronous servers': (
        'batch_size: 3 sync_replicas: true',
        SERVERS,
        'synchronous parameter servers, whose 3 replicas see only their own batches; expected '
        'train_config.cluster.mode MIRRORED or MULTI_WORKER_MIRRORED, or no such field.',
    ),
}


@pytest.mark.parametrize('case', sorted(ALONE_OR_TOGETHER))
def test_replicas_that_compute_over_all_batches(case):
    text, addresses = ALONE_OR_TOGETHER[case]
    of_case = plan(text, addresses and task_of(addresses))
    distribution.require_own_batches(of_case, ['model.a', 'model.b'])


@pytest.mark.parametrize('case', sorted(APART))
def test_replicas_that_cannot_are_refused_by_the_field(case):
    text, addresses, message = APART[case]
    of_case = plan(text, addresses and task_of(addresses))
    distribution.require_own_batches(of_case, [])
    with pytest.raises(errors.ConfigError, match=f'^model.a: computes over .*{message}'):
        distribution.require_own_batches(of_case, ['model.a', 'model.b'])


REFUSED = {
    'clones in a cluster': (
        'cluster { mode: CLONES }',
        SERVERS,
        'mode is CLONES, which is for one machine, but TF_CONFIG describes a cluster of 1 chief, '
        '2 worker, 2 ps; expected AUTO or ASYNC_PARAMETER_SERVERS or SYNC_PARAMETER_SERVERS',
    ),
    'mirrored workers': ('cluster { mode: MIRRORED }', WORKERS, 'MULTI_WORKER_MIRRORED'),
    'servers on one machine': (
        'cluster { mode: ASYNC_PARAMETER_SERVERS }',
        None,
        'which is for a cluster, but TF_CONFIG is not set',
    ),
    'servers without servers': (
        'cluster { mode: SYNC_PARAMETER_SERVERS }',
        WORKERS,
        'has no parameter server ("ps"): it is 2 worker, 1 evaluator',
    ),
    'collectives with servers': (
        'cluster { mode: MULTI_WORKER_MIRRORED }',
        SERVERS,
        'has parameter servers',
    ),
    'not waiting and waiting': (
        'sync_replicas: true cluster { mode: ASYNC_PARAMETER_SERVERS }',
        SERVERS,
        'train_config.sync_replicas is true',
    ),
    'clones without a mode': ('cluster { num_clones: 2 }', None, 'num_clones is 2'),
    'the CPU without a mode': ('cluster { clone_on_cpu: true }', None, 'clone_on_cpu is true'),
    'a batch that cannot be shared': (
        'batch_size: 7 cluster { mode: CLONES num_clones: 2 }',
        None,
        'batch_size is 7, which 2 replicas (CLONES) cannot share equally; expected a multiple of '
        '2, such as 6 or 8',
    ),
    'a batch that synchronous workers cannot share': (
        'batch_size: 8 sync_replicas: true',
        SERVERS,
        'batch_size is 8, which 3 replicas (SYNC_PARAMETER_SERVERS) cannot share equally; expected '
        'a multiple of 3, such as 6 or 9, or another train_config.replicas_to_aggregate.',
    ),
    'a batch that micro-batches cannot share': (
        'batch_size: 6 accumulate_steps: 2 cluster { mode: CLONES num_clones: 2 }',
        None,
        'batch_size is 6, which 2 replicas (CLONES) in 2 parts each (train_config.accumulate_steps)'
        ' cannot share equally; expected a multiple of 4, such as 4 or 8',
    ),
    'clones of synchronous workers': (
        'sync_replicas: true cluster { num_clones: 2 }',
        SERVERS,
        'sync_replicas is true, and train_config.cluster.num_clones is 2; expected one of the two',
    ),
    'clones that wait for each other': (
        'sync_replicas: true cluster { mode: CLONES num_clones: 2 }',
        None,
        'sync_replicas is true, and train_config.cluster.num_clones is 2; expected one of the two',
    ),
    'a batch smaller than the workers': ('batch_size: 1', WORKERS, 'such as 2.'),
    'more replicas than workers': (
        'sync_replicas: true replicas_to_aggregate: 4',
        SERVERS,
        'replicas_to_aggregate is 4, but 3 processes train; expected 1 to 3',
    ),
    'no replicas': ('sync_replicas: true replicas_to_aggregate: 0', SERVERS, 'is 0, but 3'),
}


@pytest.mark.parametrize('case', sorted(REFUSED))
def test_refused(case):
    text, addresses, message = REFUSED[case]
    with pytest.raises(errors.ConfigError) as caught:
        plan(text, addresses and task_of(addresses))
    assert message in str(caught.value)
    assert str(caught.value).startswith('train_config.')


def test_more_clones_than_accelerators():
    text = 'batch_size: 12 cluster { mode: CLONES num_clones: 3 %s }'
    with pytest.raises(errors.ConfigError, match='num_clones is 3, but this machine has 2 acc'):
        plan(text % '', accelerators=2)
    on_cpu = plan(text % 'clone_on_cpu: true', accelerators=2)
    assert on_cpu.devices == ('/device:CPU:0',) * 3


@pytest.mark.parametrize(
    ('text', 'accelerators', 'devices'),
    [
        ('mode: CLONES', 2, ('/device:GPU:0', '/device:GPU:1')),
        ('mode: CLONES num_clones: 1', 2, ('/device:GPU:0',)),
        ('mode: CLONES num_clones: 2', 0, ('/device:CPU:0', '/device:CPU:0')),
        ('mode: CLONES', 0, ('/device:CPU:0',)),
        ('mode: MIRRORED num_clones: 2', 0, ('/device:CPU:0', '/device:CPU:1')),
        ('mode: MIRRORED clone_on_cpu: true num_clones: 1', 2, ('/device:CPU:0',)),
    ],
)
def test_devices(text, accelerators, devices):
    found = plan(f'cluster {{ {text} }}', accelerators=accelerators)
    assert found.devices == devices and found.num_replicas == len(devices)


def test_smaller_last_batches_are_refused_where_batches_are_shared():
    text = 'cluster { mode: MIRRORED num_clones: 2 }'
    reader = 'drop_remainder: false'
    with pytest.raises(errors.ConfigError, match='train_input_reader.drop_remainder is false'):
        plan(text, train_input_reader=reader)
    assert plan('', train_input_reader=reader).mode is Mode.ONE_DEVICE


@pytest.mark.parametrize(
    ('text', 'addresses'), [('', WORKERS), ('sync_replicas: true batch_size: 3', SERVERS)]
)
def test_workers_in_step_do_not_end_with_their_records(text, addresses):
    with pytest.raises(errors.ConfigError, match='train_input_reader.num_epochs is 3'):
        plan(text, task_of(addresses), train_input_reader='num_epochs: 3')
    assert plan('', task_of(SERVERS), train_input_reader='num_epochs: 3')


def test_counts_of_sources_and_backups():
    text = 'sync_replicas: true batch_size: 24 replicas_to_aggregate: %d'
    reader = 'examples_per_batch: 16 examples_per_batch: 8'
    assert plan(text % 3, task_of(SERVERS), train_input_reader=reader).input_parts == 3
    with pytest.raises(errors.ConfigError, match='of 3 workers only 2 make a step'):
        plan(text % 2, task_of(SERVERS), train_input_reader=reader)


def test_parts_of_a_batch():
    assert plan('batch_size: 8', task_of(WORKERS)).input_parts == 2
    assert plan('batch_size: 8', task_of(WORKERS), accelerators=2).input_parts == 4
    assert plan('cluster { mode: MIRRORED num_clones: 2 }').input_parts == 2
    assert plan('cluster { mode: CLONES num_clones: 2 }').input_parts == 1  # split in the graph
    sync = 'batch_size: 24 sync_replicas: true'
    assert plan(sync, task_of(SERVERS)).input_parts == 3
    assert plan(f'{sync} replicas_to_aggregate: 2', task_of(SERVERS)).input_parts == 2
    assert plan('batch_size: 24', task_of(SERVERS)).input_parts == 1


@pytest.mark.parametrize(
    ('addresses', 'role', 'index', 'own'),
    [
        (SERVERS, 'chief', 0, 0),
        (SERVERS, 'worker', 1, 2),
        (SERVERS, 'ps', 1, 0),
        (WORKERS, 'worker', 1, 1),
        (WORKERS, 'evaluator', 0, 0),
    ],
)
def test_which_worker(addresses, role, index, own):
    found = plan('', task_of(addresses, role, index))
    assert found.worker_index == own
    assert found.num_workers == (3 if addresses is SERVERS else 2)


def idle(text, task=None):
    config = text_format.Parse(f'train_config {{ {text} }}', pipeline_pb2.TrainEvalPipelineConfig())
    found = modes.idle_fields(distribution.create_plan(config, task), config.train_config)
    return {field.removeprefix('train_config.') for field in found}


def test_fields_without_effect_are_named():
    text = 'sync_replicas: true replicas_to_aggregate: 8 startup_delay_steps: 4 '
    text += 'cluster { partition_variables_over_bytes: 9 }'
    assert idle(text) == {
        'sync_replicas',
        'replicas_to_aggregate',
        'startup_delay_steps',
        'cluster.partition_variables_over_bytes',
    }
    assert idle('') == idle('startup_delay_steps: 0') == set()
    assert idle('steps_per_call: 4') == {'steps_per_call'}
    assert idle('steps_per_call: 4 loop: TF_FUNCTION') == set()
    assert idle('sync_replicas: true', task_of(WORKERS)) == set()
    asynchronous = 'startup_delay_steps: 4 cluster { partition_variables_over_bytes: 9 }'
    assert idle(asynchronous, task_of(SERVERS)) == set()
    waiting = 'sync_replicas: true startup_delay_steps: 4 batch_size: 3'
    assert idle(waiting, task_of(SERVERS)) == {'startup_delay_steps'}


@pytest.mark.parametrize(
    ('text', 'addresses', 'expected'),
    [
        (
            '',
            SERVERS,
            r'mode is ASYNC_PARAMETER_SERVERS .* does not support; expected loop: ESTIMATOR, or '
            r'train_config.cluster.mode MULTI_WORKER_MIRRORED and no "ps" in TF_CONFIG\.',
        ),
        ('sync_replicas: true', SERVERS, 'SYNC_PARAMETER_SERVERS .* or .* MULTI_WORKER_MIRRORED'),
        ('cluster { mode: CLONES }', None, r'CLONES .* expected .*mode MIRRORED\.'),
    ],
)
def test_what_the_loop_of_functions_does_not_carry_is_refused(text, addresses, expected):
    task = None if addresses is None else task_of(addresses)
    with pytest.raises(errors.ConfigError, match=expected):
        plan(f'batch_size: 6 loop: TF_FUNCTION {text}', task)


def test_the_loop_of_functions_has_workers():
    found = plan('batch_size: 4 loop: TF_FUNCTION', task_of(WORKERS, 'worker', 1))
    assert found.mode is Mode.MULTI_WORKER_MIRRORED and found.without_sessions


def test_a_process_alone_shares_nothing_whatever_the_mode():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse('train_config { cluster { mode: CLONES num_clones: 4 } }', config)
    found = distribution.alone(config)
    assert found.mode is Mode.ONE_DEVICE and found.num_replicas == 1
