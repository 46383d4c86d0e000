"""A run with a wrong label, which all tests of replays read."""

import pytest

from tests.vision_extras.replay import wrong_label_run


@pytest.fixture(scope='session')
def run(tmp_path_factory):
    return wrong_label_run.train(tmp_path_factory.mktemp('line'))
