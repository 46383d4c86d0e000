"""Small jobs for tests, as one of their tasks sees them."""

import socket

from estimator_lib.cluster import job_state
from estimator_lib.cluster.job import Job
from estimator_lib.distribution.tf_config import Cluster
from protos import train_pb2


def listening():
    server = socket.socket()
    server.bind(('127.0.0.1', 0))
    server.listen()
    return server, f'127.0.0.1:{server.getsockname()[1]}'


def job(folder, addresses, role, index=0, **fields):
    config = train_pb2.TrainConfig(num_steps=10, **fields)
    config.cluster.wait_timeout_seconds = 60
    cluster = Cluster({name: tuple(tasks) for name, tasks in addresses.items()}, role, index)
    return Job(cluster, config, str(folder), job_state.JobState(str(folder), config))


SERVERS = {'chief': ['a:1'], 'worker': ['b:1', 'b:2'], 'ps': ['c:1', 'c:2'], 'evaluator': ['d:1']}
PEERS = {'chief': ['a:1'], 'worker': ['b:1', 'b:2']}
