"""The command that prints a JobSet."""

import pytest
import yaml

from vision_extras.jobset import command

NEEDED = ('--name=cells', '--image=r/v:1')


def test_it_prints_a_job_and_its_network_policy(capsys):
    command.main(
        [*NEEDED, '--workers=2', '--ps=1', '--volume=models:/m', '--resource=memory=8Gi']
        + ['--', '--model_dir=/m/cells']
    )
    text = capsys.readouterr().out
    job, policy = yaml.safe_load_all(text)
    assert (job['kind'], policy['kind']) == ('JobSet', 'NetworkPolicy')
    roles = {each['name']: each['template']['spec'] for each in job['spec']['replicatedJobs']}
    assert {role: spec['completions'] for role, spec in roles.items()} == {
        'chief': 1,
        'worker': 2,
        'ps': 1,
    }
    pod = roles['worker']['template']['spec']
    (container,) = pod['containers']
    assert container['image'] == 'r/v:1' and container['args'] == ['--model_dir=/m/cells']
    assert container['volumeMounts'] == [{'name': 'models', 'mountPath': '/m'}]
    assert container['resources'] == {'requests': {'memory': '8Gi'}, 'limits': {'memory': '8Gi'}}
    assert pod['volumes'] == [{'name': 'models', 'persistentVolumeClaim': {'claimName': 'models'}}]
    assert roles['worker']['backoffLimit'] == 100
    assert '&id' not in text  # references would hinder whoever edits it


def test_a_job_needs_no_volumes_or_resources(capsys):
    command.main([*NEEDED, '--no-chief', '--restart=0', '--', '--model_dir=gs://b/d'])
    job, _ = yaml.safe_load_all(capsys.readouterr().out)
    (worker,) = job['spec']['replicatedJobs']
    spec = worker['template']['spec']
    assert worker['name'] == 'worker' and spec['backoffLimit'] == 0
    assert not {'volumes'} & spec['template']['spec'].keys()
    assert not {'volumeMounts', 'resources'} & spec['template']['spec']['containers'][0].keys()


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--image=r/v:1', '--', 'x'], '--name'),
        (['--name=cells', '--', 'x'], '--image'),
        ([*NEEDED], 'after --'),
        (['--name=Cells', '--image=r/v:1', '--', 'x'], "--name: 'Cells'"),
        (['--name=cells', '--image=r v', '--', 'x'], "--image: 'r v' is no image"),
        ([*NEEDED, '--volume=models', '--', 'x'], "'models' is no claim with a path"),
        ([*NEEDED, '--volume=models:m', '--', 'x'], 'expected CLAIM:PATH'),
        ([*NEEDED, '--resource=memory=8GB', '--', 'x'], 'expected NAME=QUANTITY'),
        ([*NEEDED, '--resource=cpu=1', '--resource=cpu=2', '--', 'x'], 'cpu is given twice'),
        ([*NEEDED, '--no-chief', '--ps=1', '--', 'x'], 'need a chief'),
    ],
)
def test_command_lines_that_make_no_job(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err and not printed.out
