"""Manifests of a job on Kubernetes: a JobSet with a Job for each role, and its network policy."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from estimator_lib import environment
from estimator_lib.cluster.tasks import Addresses, tf_config

Manifest = Dict[str, Any]

PORT = 2222
_CONTAINER = 'task'
_INDEX = 'TASK_INDEX'
_INDEX_ANNOTATION = 'batch.kubernetes.io/job-completion-index'
_NAME_LABEL = 'jobset.sigs.k8s.io/jobset-name'
# More than the 20 s after which a task that is told to end does so in any case.
_GRACE_SECONDS = 45
# Errors that would occur again: a traceback, a sentence, and what a shell or a container's start
# gives for a command that is not there.
_FINAL_STATUSES = (1, 2, 126, 127)
_LONGEST_LABEL = 63
# Kubernetes appends a hyphen and five characters to the host of a pod for its name, which JobSet
# checks too: `jobset_webhook.go` of kubernetes-sigs/jobset.
_SUFFIX = '-abcde'


class JobOptions(NamedTuple):
    """Options of a job: what its tasks run, on which volumes and resources.

    Attributes:
        name: of the JobSet; the names of the pods begin with it.
        image: container image that has this project installed.
        arguments: of every task.
        restart: how many pods of a role may be replaced after they were killed or told to end.
        volumes: folders in the pods by the claim of their volume; all pods write to them.
        resources: requested by every pod, by name, as `cpu`.
    """

    name: str
    image: str
    arguments: Sequence[str]
    restart: int
    volumes: Mapping[str, str]
    resources: Mapping[str, str]


def find_problem_of_name(name: str, counts: Mapping[str, int]) -> str:
    """Return what is wrong with the name of a job; empty if nothing is.

    Args:
        name: of the job.
        counts: number of tasks by role.
    """
    if not is_label(name) or name[0].isdigit():
        return (
            f'{name!r} cannot begin the names of hosts; expected lowercase letters, digits and '
            'hyphens, a letter at the start and no hyphen at the end.'
        )
    hosts = [_host('', role, counts[role] - 1) for role in counts]
    most = _LONGEST_LABEL - max(len(host + _SUFFIX) for host in hosts)
    if len(name) > most:
        return f'{name!r} has {len(name)} characters; expected at most {most}.'
    return ''


def is_label(text: str) -> bool:
    """Return whether Kubernetes takes a text as the name of a volume or the like."""
    return len(text) <= _LONGEST_LABEL and bool(re.fullmatch('[a-z0-9]([-a-z0-9]*[a-z0-9])?', text))


def build_addresses(name: str, counts: Mapping[str, int]) -> Dict[str, List[str]]:
    """Build the addresses of the tasks: the names of their pods in the DNS of the namespace.

    Args:
        name: of the JobSet.
        counts: number of tasks by role.
    """
    return {
        role: [f'{_host(name, role, index)}.{name}:{PORT}' for index in range(count)]
        for role, count in counts.items()
    }


def _host(name: str, role: str, index: int) -> str:
    # JobSet, replicated job, number of the Job (each role has one), completion index.
    return f'{name}-{role}-0-{index}'


def build_manifests(options: JobOptions, counts: Mapping[str, int]) -> List[Manifest]:
    """Build the manifests of a job.

    Args:
        options: what its tasks run.
        counts: number of tasks by role.
    """
    addresses = build_addresses(options.name, counts)
    jobs = [_replicated_job(options, addresses, role) for role in counts]
    return [_jobset(options.name, jobs), _network_policy(options.name)]


def _jobset(name: str, jobs: Sequence[Manifest]) -> Manifest:
    return {
        'apiVersion': 'jobset.x-k8s.io/v1alpha2',
        'kind': 'JobSet',
        'metadata': {'name': name},
        'spec': {
            # Gives each pod the name in DNS that the addresses of the tasks use.
            'network': {'enableDNSHostnames': True, 'publishNotReadyAddresses': True},
            # Every task ends by itself when the training, or its last evaluation, has ended.
            'successPolicy': {'operator': 'All'},
            # A Job fails when an error would occur again, or after too many restarts.
            'failurePolicy': {'maxRestarts': 0},
            'replicatedJobs': list(jobs),
        },
    }


def _replicated_job(options: JobOptions, addresses: Addresses, role: str) -> Manifest:
    count = len(addresses[role])
    job = {
        'completionMode': 'Indexed',
        'completions': count,
        'parallelism': count,
        'backoffLimit': options.restart,
        'podFailurePolicy': {
            'rules': [
                {
                    # The node is drained or gone: this is no fault of the job, and not counted.
                    'action': 'Ignore',
                    'onPodConditions': [{'type': 'DisruptionTarget', 'status': 'True'}],
                },
                {
                    'action': 'FailJob',
                    'onExitCodes': {
                        'containerName': _CONTAINER,
                        'operator': 'In',
                        'values': list(_FINAL_STATUSES),
                    },
                },
            ]
        },
        'template': {'spec': _pod(options, addresses, role)},
    }
    return {'name': role, 'replicas': 1, 'template': {'spec': job}}


def _pod(options: JobOptions, addresses: Addresses, role: str) -> Manifest:
    container: Manifest = {
        'name': _CONTAINER,
        'image': options.image,
        'command': [environment.FRONT_DOOR],
        # Kubernetes replaces $(NAME) by a variable; a doubled dollar is one.
        'args': [argument.replace('$(', '$$(') for argument in options.arguments],
        'env': _environment(addresses, role),
        'ports': [{'containerPort': PORT, 'protocol': 'TCP'}],
    }
    pod: Manifest = {
        'restartPolicy': 'Never',  # the Job replaces the pod, as its failure policy says
        'terminationGracePeriodSeconds': _GRACE_SECONDS,
        'containers': [container],
    }
    if options.resources:
        container['resources'] = {
            'requests': dict(options.resources),
            # A processor that nobody else uses is no reason to wait; memory would end the pod.
            'limits': {name: value for name, value in options.resources.items() if name != 'cpu'},
        }
    if options.volumes:
        container['volumeMounts'] = [
            {'name': claim, 'mountPath': path} for claim, path in options.volumes.items()
        ]
        pod['volumes'] = [
            {'name': claim, 'persistentVolumeClaim': {'claimName': claim}}
            for claim in options.volumes
        ]
    return pod


def _environment(addresses: Addresses, role: str) -> List[Manifest]:
    """Return the variables of a pod: the index of its task, from which TF_CONFIG is made there."""
    before, _, after = tf_config(addresses, role, 0).rpartition('0')  # the index is its last number
    index = {'fieldRef': {'fieldPath': f"metadata.annotations['{_INDEX_ANNOTATION}']"}}
    return [
        {'name': _INDEX, 'valueFrom': index},
        {'name': 'TF_CONFIG', 'value': f'{before}$({_INDEX}){after}'},
        {'name': 'PYTHONUNBUFFERED', 'value': '1'},
    ]


def _network_policy(name: str) -> Manifest:
    """Return the policy: whoever reaches a port can run code in its task, so only the job may."""
    pods = {'matchLabels': {_NAME_LABEL: name}}
    return {
        'apiVersion': 'networking.k8s.io/v1',
        'kind': 'NetworkPolicy',
        'metadata': {'name': name},
        'spec': {
            'podSelector': pods,
            'policyTypes': ['Ingress'],
            'ingress': [
                {
                    'from': [{'podSelector': pods}],
                    'ports': [{'protocol': 'TCP', 'port': PORT}],
                }
            ],
        },
    }
