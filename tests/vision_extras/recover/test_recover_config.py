"""The module of the console script."""

import pytest

from vision_extras.recover import recover_config


def test_help_names_the_artifacts(capsys):
    with pytest.raises(SystemExit) as caught:
        recover_config.main(['--help'])
    assert caught.value.code == 0
    assert 'SavedModel' in capsys.readouterr().out
