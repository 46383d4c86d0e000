"""The rules of the house that can be read off the source."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ('run_train_eval', 'model_fns', 'estimator_lib', 'protos')
TASKS = ('classification', 'detection', 'segmentation')


def sources():
    for package in PACKAGES[1:]:
        for path in sorted((ROOT / package).rglob('*.py')):
            if not path.name.endswith('_pb2.py'):
                yield path
    yield ROOT / 'run_train_eval.py'


def imported_modules(path):
    """Every module that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            for alias in node.names:
                yield f'{node.module}.{alias.name}'


def level(name):
    return PACKAGES.index(name) if name in PACKAGES else None


@pytest.mark.parametrize('path', list(sources()), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path):
    package = path.relative_to(ROOT).parts[0].removesuffix('.py')
    for module in imported_modules(path):
        root = module.split('.')[0]
        if level(root) is not None:
            assert level(root) >= level(package), f'{path.name} imports {module}'
        assert root not in ('tf_slim', 'keras', 'tf_keras', 'object_detection', 'nets')


def test_tasks_do_not_import_each_other():
    for path in sources():
        parts = path.relative_to(ROOT).parts
        if len(parts) < 3 or parts[1] not in TASKS:
            continue
        others = [task for task in TASKS if task != parts[1]]
        for module in imported_modules(path):
            assert not re.match(rf'model_fns\.({"|".join(others)})\b', module), f'{path}: {module}'


def test_no_flag_is_read_in_library_code():
    for path in sources():
        if path.name != 'run_train_eval.py':
            assert 'flags.FLAGS' not in path.read_text()


def test_engine_imports_little_beside_tensorflow():
    code = (
        'import sys, tensorflow; before = set(sys.modules); import estimator_lib.training; '
        'print(len({m.split(".")[0] for m in set(sys.modules) - before}))'
    )
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # The project's own packages, tqdm, and what tqdm and tensorflow_estimator load late.
    assert int(run.stdout) < 30


def test_version_check_reads_no_tensorflow():
    code = 'import sys, estimator_lib; print("tensorflow" in sys.modules)'
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == 'False'
