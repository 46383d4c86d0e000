"""What all tests share: the folder of recorded cases, and a quiet TensorFlow."""

import os
import pathlib
import sys

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def shared_folder() -> pathlib.Path:
    """Where recorded cases, published configs and data are, when they are."""
    return ROOT.parent / 'shared'


@pytest.fixture(scope='session')
def shared() -> pathlib.Path:
    """The shared folder beside the project; tests that need it are skipped without it."""
    folder = shared_folder()
    if not folder.is_dir():
        pytest.skip('the folder ../shared (recorded cases and data) is not here')
    return folder


@pytest.fixture(scope='session', autouse=True)
def graphs_run_as_they_are_built():
    """Most graphs here run once: to rewrite them takes a quarter of the suite's time.

    Estimators have a session configuration of their own, and rewrite as they do for users.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})
