"""The other side of a comparison, with a stand-in for its package."""

import importlib
import os
from unittest import mock

from benchmarks.training import torch_side

SETTINGS = {
    'network': 'timm:a_network',
    'batch_size': 2,
    'size': 8,
    'num_classes': 3,
    'dtype': 'float32',
    'warm_up': 1,
    'runs': 2,
}


def test_the_processor_cores_of_the_process_are_used(monkeypatch):
    torch = mock.MagicMock()
    monkeypatch.setattr(importlib, 'import_module', lambda name: torch)
    monkeypatch.setattr(os, 'sched_getaffinity', lambda process: {3, 5, 6})
    assert len(torch_side.measure(SETTINGS)) == 2
    torch.set_num_threads.assert_called_once_with(3)
    assert torch.optim.SGD.return_value.step.call_count == 3
