"""Same data, same seed, same batch: who shares the work does not change what is learned."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from estimator_lib import distribution
from tests.estimator_lib.distribution import curve_cases

STEPS = 100


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    curve_cases.write(folder)
    return folder


@pytest.fixture(scope='module')
def alone(data, tmp_path_factory):
    """Losses and last variables of one device."""
    model_dir = tmp_path_factory.mktemp('alone')
    run = curve_cases.Run(data, model_dir)
    assert run.plan.mode is distribution.Mode.ONE_DEVICE
    run.train(STEPS)
    losses = curve_cases.losses(model_dir)
    assert len(losses) == STEPS and losses[-1] < losses[0]
    return losses, curve_cases.variables(model_dir)


def same(alone, model_dir):
    losses, variables = alone
    np.testing.assert_allclose(curve_cases.losses(model_dir), losses, rtol=0, atol=1e-4)
    found = curve_cases.variables(model_dir)
    assert found.keys() == variables.keys()
    for name, value in variables.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-4, err_msg=name)


@pytest.mark.parametrize('mode', ['CLONES', 'MIRRORED'])
def test_devices_of_one_machine(mode, data, alone, tmp_path):
    override = f'train_config {{ cluster {{ mode: {mode} num_clones: 2 }} }}'
    run = curve_cases.Run(data, tmp_path, override)
    run.train(STEPS // 2)
    if mode == 'MIRRORED':  # goes on where it was
        run = curve_cases.Run(data, tmp_path, override)
    run.train(STEPS)
    same(alone, tmp_path)


def test_synchronous_parameter_servers(data, alone, tmp_path):
    override = 'train_config { sync_replicas: true }'
    curve_cases.train_with_servers(data, tmp_path, override, STEPS)
    same(alone, tmp_path)


def test_all_reduce(data, alone, tmp_path):
    addresses = {'worker': curve_cases.free_addresses(2)}
    processes = [
        subprocess.Popen(
            [sys.executable, curve_cases.__file__, data, tmp_path, str(STEPS)],
            env={
                **os.environ,
                'TF_CONFIG': json.dumps(
                    {'cluster': addresses, 'task': {'type': 'worker', 'index': index}}
                ),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=600)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], outputs
    same(alone, tmp_path)
