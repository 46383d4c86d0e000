"""Manifests of a job on Kubernetes, checked by the published models of the resources."""

import json
import pathlib
import re

import pytest
import yaml

from estimator_lib import distribution
from estimator_lib.cluster import local_processes
from vision_extras.jobset import manifests as jobset

OPTIONS = jobset.JobOptions(
    name='cells',
    image='registry.example.com/vision:1',
    arguments=['--model_dir=/models/cells', '--set=a="$(b) $$(c)"'],
    restart=7,
    volumes={'models': '/models'},
    resources={'cpu': '4', 'memory': '8Gi'},
)
COUNTS = {'chief': 1, 'worker': 3, 'ps': 2, 'evaluator': 1}


def expand(text, variables):
    """Replace `$(NAME)` as Kubernetes does; `$$` is a dollar, and unknown names stay."""

    def value(match):
        if match.group() == '$$':
            return '$'
        return variables.get(match.group(1), match.group())

    return re.sub(r'\$\$|\$\((\w+)\)', value, text)


def start_pods(manifest):
    """Return (role, host, arguments, variables) of each pod that a JobSet gets."""
    name = manifest['metadata']['name']
    for job in manifest['spec']['replicatedJobs']:
        spec = job['template']['spec']
        (container,) = spec['template']['spec']['containers']
        for index in range(spec['completions']):
            variables = {}
            for each in container['env']:
                if 'value' in each:
                    variables[each['name']] = expand(each['value'], variables)
                else:
                    path = each['valueFrom']['fieldRef']['fieldPath']
                    assert path == (
                        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
                    )
                    variables[each['name']] = str(index)
            arguments = [expand(each, variables) for each in container['args']]
            host = f'{name}-{job["name"]}-0-{index}.{name}'
            yield job['name'], host, [*container['command'], *arguments], variables


def test_pods_get_the_command_line_and_the_cluster_of_the_local_launcher():
    manifest, _ = jobset.build_manifests(OPTIONS, COUNTS)
    pods = list(start_pods(manifest))
    local = local_processes.assign_ports(COUNTS)
    assert [role for role, *_ in pods] == ['chief', *['worker'] * 3, *['ps'] * 2, 'evaluator']
    expected = [(role, index) for role, count in COUNTS.items() for index in range(count)]
    hosts = {(role, index): pod[1] for (role, index), pod in zip(expected, pods)}
    for (role, index), (_, _, command, variables) in zip(expected, pods):
        assert command == ['run-train-eval', '--model_dir=/models/cells', '--set=a="$(b) $$(c)"']
        made = json.loads(variables['TF_CONFIG'])
        there = json.loads(local_processes.tf_config(local, role, index))
        assert made['task'] == there['task'] == {'type': role, 'index': index}
        assert {each: len(tasks) for each, tasks in made['cluster'].items()} == COUNTS
        assert made['cluster'].keys() == there['cluster'].keys()
        for each, addresses in made['cluster'].items():
            assert addresses == [f'{hosts[each, i]}:2222' for i in range(COUNTS[each])]
        assert distribution.read_tf_config(variables).role == role


def test_statuses_that_replace_a_pod_and_those_that_end_the_job():
    manifest, _ = jobset.build_manifests(OPTIONS, COUNTS)
    for job in manifest['spec']['replicatedJobs']:
        spec = job['template']['spec']
        drained, failed = spec['podFailurePolicy']['rules']
        assert (drained['action'], failed['action']) == ('Ignore', 'FailJob')
        assert failed['onExitCodes']['values'] == [1, 2, 126, 127]
        assert spec['backoffLimit'] == 7
        assert spec['template']['spec']['restartPolicy'] == 'Never'
        assert spec['template']['spec']['terminationGracePeriodSeconds'] > 20


def test_only_pods_of_the_job_reach_its_ports():
    _, policy = jobset.build_manifests(OPTIONS, COUNTS)
    label = {'matchLabels': {'jobset.sigs.k8s.io/jobset-name': 'cells'}}
    assert policy['spec']['podSelector'] == label
    (rule,) = policy['spec']['ingress']
    assert rule == {'from': [{'podSelector': label}], 'ports': [{'protocol': 'TCP', 'port': 2222}]}


@pytest.mark.parametrize(
    'name, problem',
    [
        ('a', ''),
        ('cells-2', ''),
        ('x' * 43, ''),
        ('x' * 44, 'has 44 characters; expected at most 43'),
        ('2cells', 'a letter at the start'),
        ('cells-', 'no hyphen at the end'),
        ('Cells', 'lowercase'),
        ('cells.b', 'lowercase'),
        ('', 'lowercase'),
    ],
)
def test_names(name, problem):
    # A pod has 63 characters: the name, '-evaluator-0-0', and '-abcde' of Kubernetes.
    found = jobset.find_problem_of_name(name, COUNTS)
    assert problem in found if problem else not found


def test_a_jobset_is_one_by_its_published_model():
    api = pytest.importorskip(
        'kubeflow_trainer_api.models', reason='kubeflow-trainer-api, with the model, is missing'
    )
    manifest, _ = jobset.build_manifests(OPTIONS, COUNTS)
    parsed = api.JobsetV1alpha2JobSet.from_dict(manifest)
    # A field that the model does not know would be lost.
    assert parsed.to_dict() == manifest


def check_by_model(model, content, client):
    """Parse a manifest by a model of the client of Kubernetes; return what it has kept."""

    class Response:
        data = json.dumps(content)

    return client.ApiClient().sanitize_for_serialization(
        client.ApiClient().deserialize(Response, model)
    )


def test_a_network_policy_is_one_by_its_published_model():
    client = pytest.importorskip('kubernetes.client', reason='kubernetes is missing')
    _, policy = jobset.build_manifests(OPTIONS, COUNTS)
    assert check_by_model('V1NetworkPolicy', policy, client) == policy


def test_the_documented_tfjob_is_one_by_its_published_model():
    kubeflow = pytest.importorskip(
        'kubeflow.training', reason='kubeflow-training, with the model of a TFJob, is missing'
    )
    docs = pathlib.Path(jobset.__file__).parents[2] / 'docs'
    job, policy = yaml.safe_load_all((docs / 'tfjob.yaml').read_text())
    assert check_by_model('KubeflowOrgV1TFJob', job, kubeflow) == job
    assert check_by_model('V1NetworkPolicy', policy, kubeflow) == policy
