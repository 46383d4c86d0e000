import json
import os
import sys

import pytest
import tensorflow as tf
from tensorflow.python.distribute import multi_worker_util

from estimator_lib import distribution, errors
from estimator_lib.distribution import Cluster, tf_config

CLUSTER = {
    'chief': ['a:1'],
    'worker': ['b:1', 'c:1'],
    'ps': ['d:1'],
}


def read(config):
    text = config if isinstance(config, str) else json.dumps(config)
    return distribution.read_tf_config({'TF_CONFIG': text})


def test_no_cluster_is_one_machine():
    assert distribution.read_tf_config({}) is None
    assert read('') is None
    assert read({}) is None
    assert read({'cluster': {}}) is None


@pytest.mark.parametrize(
    'role, index, is_chief',
    [('chief', 0, True), ('worker', 0, False), ('worker', 1, False), ('ps', 0, False)],
)
def test_a_task_of_a_cluster(role, index, is_chief):
    task = read({'cluster': CLUSTER, 'task': {'type': role, 'index': index}})
    assert (task.role, task.index, task.is_chief) == (role, index, is_chief)
    assert task.name == f'{role}:{index}'
    assert task.addresses['worker'] == ('b:1', 'c:1')


@pytest.mark.parametrize('listed', [True, False])
def test_the_evaluator_may_be_listed_or_not(listed):
    described = {**CLUSTER, 'evaluator': ['e:1']} if listed else CLUSTER
    task = read({'cluster': described, 'task': {'type': 'evaluator', 'index': 0}})
    assert task.role == 'evaluator' and not task.is_chief


@pytest.mark.parametrize('others', [{'ps': ['d:1']}, {'worker': ['b:1', 'c:1']}, CLUSTER])
@pytest.mark.parametrize('name', ['master', 'chief'])
def test_master_is_chief_in_every_mode(others, name):
    described = {'master': ['a:1'], **{key: others[key] for key in others if key != 'chief'}}
    cluster = read({'cluster': described, 'task': {'type': name, 'index': 0}})
    assert cluster.is_chief and cluster.name == cluster.workers[0] == 'chief:0'
    assert cluster.addresses['chief'] == ('a:1',) and 'master' not in cluster.addresses
    # The strategies of TensorFlow read the variable again, and refuse a master.
    with tf_config.environment(cluster):
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        spec = resolver.cluster_spec()
        assert multi_worker_util.is_chief(spec, resolver.task_type, resolver.task_id)


def test_workers_alone_have_worker_0_as_chief():
    described = {'worker': ['b:1', 'c:1']}
    assert read({'cluster': described, 'task': {'type': 'worker', 'index': 0}}).is_chief
    assert not read({'cluster': described, 'task': {'type': 'worker', 'index': 1}}).is_chief


def test_an_index_may_be_a_string_of_digits():
    assert read({'cluster': CLUSTER, 'task': {'type': 'worker', 'index': '1'}}).index == 1


def test_the_sparse_form_is_in_the_order_of_numbers():
    tasks = {str(index): f'w{index}:1' for index in range(11)}
    described = {**CLUSTER, 'worker': tasks}
    task = read({'cluster': described, 'task': {'type': 'worker', 'index': 2}})
    assert task.addresses['worker'][task.index] == 'w2:1'
    assert task.addresses['worker'] == tuple(f'w{index}:1' for index in range(11))


REFUSED = {
    'a gap in the sparse form': (
        {'cluster': {**CLUSTER, 'worker': {'0': 'b:1', '10': 'c:1'}}},
        """the indices of 'worker' are '0', '10'; expected "0" to "1", one for each task""",
    ),
    'not json': ('{"cluster": ', 'is not JSON'),
    'not an object': ('[1, 2]', 'expected a JSON object'),
    'cluster is a list': ({'cluster': ['a:1']}, 'expected an object of address lists'),
    'unknown role': (
        {'cluster': {'cheif': ['a:1']}, 'task': {'type': 'chief', 'index': 0}},
        "unknown role 'cheif' in \"cluster\"; did you mean 'chief'?",
    ),
    'unknown task role': (
        {'cluster': CLUSTER, 'task': {'type': 'wroker', 'index': 0}},
        "did you mean 'worker'?",
    ),
    'no chief': (
        {'cluster': {'worker': ['b:1'], 'ps': ['d:1']}, 'task': {'type': 'worker', 'index': 0}},
        'no chief',
    ),
    'two chiefs': (
        {'cluster': {**CLUSTER, 'chief': ['a:1', 'z:1']}, 'task': {'type': 'chief', 'index': 0}},
        '2 chiefs (a:1, z:1)',
    ),
    'chief and master': (
        {'cluster': {**CLUSTER, 'master': ['z:1']}, 'task': {'type': 'chief', 'index': 0}},
        '2 chiefs',
    ),
    'index out of range': (
        {'cluster': CLUSTER, 'task': {'type': 'worker', 'index': 2}},
        'this process is worker:2, but the cluster has 2 tasks of that role, 0 to 1',
    ),
    'negative index': (
        {'cluster': CLUSTER, 'task': {'type': 'worker', 'index': -1}},
        'the index of "task" is -1',
    ),
    'role without tasks': (
        {'cluster': {'chief': ['a:1']}, 'task': {'type': 'worker', 'index': 0}},
        "the cluster has no 'worker'",
    ),
    'one address twice': (
        {
            'cluster': {'chief': ['a:1'], 'worker': ['a:1']},
            'task': {'type': 'chief', 'index': 0},
        },
        'chief:0 and worker:0 have the same address, a:1',
    ),
    'no task': ({'cluster': CLUSTER}, '"task" is null'),
    'task without cluster': ({'task': {'type': 'worker', 'index': 0}}, 'but no cluster'),
    'no port': (
        {'cluster': {'chief': ['a']}, 'task': {'type': 'chief', 'index': 0}},
        'is not "host:port"',
    ),
    'keys in capitals': (
        {'Cluster': CLUSTER, 'Task': {'type': 'worker', 'index': 0}},
        "TF_CONFIG has the key 'Cluster'; did you mean 'cluster'?",
    ),
    'nearly a key': (
        {'cluster': CLUSTER, 'tasks': {'type': 'worker', 'index': 0}},
        "TF_CONFIG has the key 'tasks'; did you mean 'task'?",
    ),
    'keys of the task in capitals': (
        {'cluster': CLUSTER, 'task': {'type': 'worker', 'Index': 1}},
        "TF_CONFIG: \"task\" has the key 'Index'; did you mean 'index'?",
    ),
    'a digit that is no decimal one, as an index': (
        {'cluster': CLUSTER, 'task': {'type': 'worker', 'index': '²'}},
        'the index of "task" is "\\u00b2"; expected 0, 1, 2, ...',
    ),
    'a digit that is no decimal one, in a port': (
        {'cluster': {'chief': ['a:2²']}, 'task': {'type': 'chief', 'index': 0}},
        'an address of \'chief\', is not "host:port"',
    ),
    'an address with a scheme': (
        {'cluster': {'chief': ['grpc://a:1']}, 'task': {'type': 'chief', 'index': 0}},
        '"grpc://a:1", an address of \'chief\', is not "host:port", with neither a scheme',
    ),
    'an address with a space': (
        {'cluster': {'chief': ['a :1']}, 'task': {'type': 'chief', 'index': 0}},
        '"a :1", an address of \'chief\', is not "host:port", with neither a scheme nor a space.',
    ),
    'a port of 5000 digits': (
        {'cluster': {'chief': ['a:' + 5000 * '1']}, 'task': {'type': 'chief', 'index': 0}},
        'is not "host:port"',
    ),
    'a number of 5000 digits': (
        '{"cluster": {}, "task": {"index": ' + 5000 * '1' + '}}',
        'but no cluster' if sys.version_info < (3, 10, 7) else 'cannot be read: Exceeds the limit',
    ),
    'deeper than can be read': (100000 * '[', 'cannot be read: maximum recursion depth exceeded'),
    'deeper than can be shown': (
        '{"cluster": ' + 900 * '[' + 900 * ']' + '}',
        '"cluster" is [[[[',
    ),
    'addresses not a list': (
        {'cluster': {'chief': 'a:1'}, 'task': {'type': 'chief', 'index': 0}},
        'expected a list of "host:port"',
    ),
}


def test_keys_that_are_read_elsewhere_and_ipv6_are_accepted():
    described = {'cluster': {'chief': ['[::1]:2222']}, 'task': {'type': 'chief', 'index': 0}}
    task = read({**described, 'environment': 'cloud', 'rpc_layer': 'grpc', 'job': {}})
    assert task.addresses == {'chief': ('[::1]:2222',)}


@pytest.mark.parametrize('case', sorted(REFUSED))
def test_refused_with_the_value_and_what_was_expected(case):
    config, expected = REFUSED[case]
    with pytest.raises(errors.ClusterError) as caught:
        read(config)
    assert expected in str(caught.value)
    assert str(caught.value).startswith('TF_CONFIG')


def test_the_environment_is_as_before():
    addresses = {role: tuple(tasks) for role, tasks in CLUSTER.items()}
    os.environ.pop('TF_CONFIG', None)
    with tf_config.environment(Cluster(addresses, 'worker', 0)):
        described = json.loads(os.environ['TF_CONFIG'])
        assert described['task'] == {'type': 'worker', 'index': 0}
        assert distribution.read_tf_config() == Cluster(addresses, 'worker', 0)
    assert 'TF_CONFIG' not in os.environ
