"""Runs in the process of tests, without what costs more than their few steps."""

import contextlib
import types
from unittest import mock

from estimator_lib import building
from estimator_lib.run_records import curves, results

create_as_for_users = building.create_session_config


def _create(use_bfloat16=False, gpu_memory_fraction=0.0):
    config = create_as_for_users(use_bfloat16, gpu_memory_fraction)
    # bfloat16 is a rewrite.
    config.graph_options.rewrite_options.disable_meta_optimizer = not use_bfloat16
    return config


@contextlib.contextmanager
def without_rewrites():
    """Let Estimators that are created inside run their graphs as they are built.

    A tiny graph of a few steps costs more to rewrite than to run.
    """
    with mock.patch.object(building, 'create_session_config', _create):
        yield


@contextlib.contextmanager
def with_rewrites():
    """Restore the rewrites of users, inside of `without_rewrites`."""
    with mock.patch.object(building, 'create_session_config', create_as_for_users):
        yield


def without_curves():
    """Leave out `results.png`: to draw it takes a fifth of a run of a few steps."""
    undrawn = types.SimpleNamespace(**{**vars(curves), 'draw': lambda *_: None})
    return mock.patch.object(results, 'curves', undrawn)


def with_curves():
    """Draw `results.png` as for users, inside of `without_curves`."""
    return mock.patch.object(results, 'curves', curves)
