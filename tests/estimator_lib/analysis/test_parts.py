"""Parts of an analysis: light, and never changed."""

import dataclasses
import subprocess
import sys

import pytest

from estimator_lib.analysis import parts


def test_defaults():
    assert parts.Finding(0.0).errors == ()
    error = parts.ExampleError('missed', 'cat')
    assert (error.score, error.overlap, error.note) == (None, None, '')
    section = parts.Section('a', [])
    assert section.text == '' and section.tiles == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        error.kind = 'c'


def test_nothing_is_loaded_that_only_drawing_needs():
    code = 'import sys, estimator_lib.analysis.plots as _; print("matplotlib" in sys.modules)'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'False'
