"""Sessions of tests that run their graphs as they are built, without Grappler's rewrites."""

import contextlib
from unittest import mock

from estimator_lib import building

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
