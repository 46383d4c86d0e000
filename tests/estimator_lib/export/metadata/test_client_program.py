"""Programs beside files: run in a process without TensorFlow, on images of any shape."""

import json
import locale

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.export.metadata import client_program
from estimator_lib.export.metadata.client_program import Runtime
from estimator_lib.task_interfaces.resizing import Resize

IMAGE = np.full([6, 10, 3], 30, np.uint8)
NUMPY = Runtime(('numpy',), ('import re',), ('def run(pixels):', '    return {"x": pixels}', ''))


class Means:
    input_shape = (2, 4, 3)
    resize = Resize()
    report = ('results = [names[0], float(outputs["x"].mean()), list(outputs["x"].shape), size]',)


def write(tmp_path, deployable, runtime=NUMPY):
    (tmp_path / 'export.json').write_text(json.dumps({'names': {'0': 'café'}}))
    client_program.write(str(tmp_path), client_program.text(deployable, runtime), runtime, IMAGE)
    return tmp_path / 'predict.py'


def test_a_program_runs_without_tensorflow(tmp_path):
    path = write(tmp_path, Means())
    assert client_program.run(str(path), IMAGE) == ['café', 30.0, [2, 4, 3], [6, 10]]
    assert len(path.read_text().splitlines()) < 60


def test_a_program_finds_packages_where_this_process_does(tmp_path, monkeypatch):
    (tmp_path / 'packages').mkdir()
    (tmp_path / 'packages' / 'only_here.py').write_text('')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'PIL.py').write_text('raise RuntimeError')
    monkeypatch.chdir(tmp_path / 'folder')
    monkeypatch.syspath_prepend(str(tmp_path / 'packages'))
    monkeypatch.syspath_prepend('')
    path = write(tmp_path, Means(), NUMPY._replace(imports=('import only_here',)))
    assert client_program.run(str(path), IMAGE)


def test_names_arrive_in_any_locale(tmp_path):
    path = write(tmp_path, Means())
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, 'C')
    try:
        assert client_program.run(str(path), IMAGE)[0] == 'café'
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def test_one_that_needs_tensorflow_is_refused(tmp_path):
    runtime = NUMPY._replace(imports=('import tensorflow',))
    with pytest.raises(errors.UserError, match='predict.py fails on an image: .*No export is left'):
        write(tmp_path, Means(), runtime)


def test_one_that_prints_nothing_of_its_own_is_refused(tmp_path):
    class Wrong(Means):
        report = ('raise SystemExit',)

    with pytest.raises(errors.UserError, match='it prints nothing'):
        write(tmp_path, Wrong())


@pytest.mark.parametrize(
    'name, value', [('resize', None), ('report', ()), ('input_shape', (2, 4, 5))]
)
def test_files_that_need_more_than_a_page_have_none(tmp_path, name, value):
    deployable = Means()
    setattr(deployable, name, value)
    assert not write(tmp_path, deployable).exists()


def test_without_the_runtime_it_is_written_and_not_run(tmp_path):
    runtime = NUMPY._replace(packages=('no_such_runtime',), imports=('import no_such_runtime',))
    assert write(tmp_path, Means(), runtime).exists()
