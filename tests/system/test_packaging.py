"""The wheel: what is in it, and that it works where there is no checkout."""

import configparser
import email
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging import requirements, utils

from tests import tiny_data

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE', 'run_train_eval.py', 'configs')
PACKAGES = ('estimator_lib', 'model_fns', 'protos', 'vision_extras')


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """A folder with what the wheel holds, and nothing else of the project."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'
    source.mkdir()
    for name in (*NEEDED, *PACKAGES):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns('__pycache__')
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '--quiet']
        + ['--disable-pip-version-check', '--wheel-dir', str(folder), str(source)],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(source)
    (wheel,) = folder.glob('*.whl')
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / 'installed')
    return folder / 'installed'


def run(installed, folder, *arguments):
    """A program of the wheel, in a folder of its own."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(installed)},
        capture_output=True,
        text=True,
    )


def test_all_that_runs_is_in_it(installed):
    for folder in PACKAGES:
        for path in [*(ROOT / folder).rglob('*.py'), *(ROOT / folder).rglob('*.proto')]:
            assert (installed / path.relative_to(ROOT)).is_file(), path
    for path in (ROOT / 'configs').glob('*.config'):
        assert (installed / 'model_fns' / 'configs' / path.name).read_text() == path.read_text()
    published = pathlib.Path('vision_extras', 'recover', 'published')
    held = [{path.name for path in (each / published).iterdir()} for each in (installed, ROOT)]
    assert held[0] == held[1] and 'ssd.config' in held[0]
    # The wheel's own list: a test that ran before may have left bytecode in the folder.
    (wheel,) = installed.parent.glob('*.whl')
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split('/')[0] for name in archive.namelist()}
    beside = {name for name in tops if not name.endswith('.dist-info')}
    assert beside == {'run_train_eval.py', *PACKAGES}


def test_metadata_has_readme_licence_and_pythons(installed):
    (info,) = installed.glob('*.dist-info')
    metadata = email.message_from_string((info / 'METADATA').read_text())
    assert metadata.get_payload().strip() == (ROOT / 'README.md').read_text().strip()
    assert metadata['Description-Content-Type'] == 'text/markdown'
    assert metadata['License'] == 'Apache-2.0'
    assert set(metadata['Requires-Python'].split(',')) == {'>=3.9', '<3.14'}
    (licence,) = info.rglob('LICENSE')
    assert licence.read_text() == (ROOT / 'LICENSE').read_text()


@pytest.mark.parametrize(
    ('python', 'chosen', 'others'),
    [
        ('3.9', '2.15.1', ['2.14.1', '2.16.2', '2.21.0']),
        ('3.11', '2.15.1', ['2.14.1', '2.16.2', '2.21.0']),
        ('3.12', '2.21.0', ['2.15.1', '2.22.0']),
        ('3.13', '2.21.0', ['2.15.1', '2.22.0']),
    ],
)
def test_each_python_has_its_tensorflow(installed, python, chosen, others):
    (info,) = installed.glob('*.dist-info')
    metadata = email.message_from_string((info / 'METADATA').read_text())
    needs = [requirements.Requirement(text) for text in metadata.get_all('Requires-Dist')]

    def specifier(name, extra=''):
        environment = {'python_version': python, 'extra': extra}
        (need,) = (
            need
            for need in needs
            if need.name == name
            and ('extra ==' in str(need.marker)) is bool(extra)
            and (need.marker is None or need.marker.evaluate(environment))
        )
        return need.specifier

    for allowed in (specifier('tensorflow'), specifier('tensorflow-serving-api', 'serving')):
        assert chosen in allowed
        assert not any(other in allowed for other in others)
    gpu = specifier('tensorflow', 'gpu')
    assert chosen in gpu and '2.15.0' not in gpu and not any(other in gpu for other in others)
    assert ('1.18.0' in specifier('onnx', 'onnx')) is (chosen == '2.15.1')
    assert ('1.23.2' in specifier('onnx', 'onnx')) is (chosen == '2.21.0')
    assert '2.15.0' in specifier('tensorflow-estimator')
    assert '2.16.0' not in specifier('tensorflow-estimator')
    assert '8.0.0' not in specifier('protobuf') and '7.36.2' in specifier('protobuf')


# Calls functions MODULE:NAME with arguments, each as its script would, in one process.
CALLS = """
import importlib, json, sys
for target, arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    module, function = target.split(':')
    try:
        status = getattr(importlib.import_module(module), function)()
    except SystemExit as ending:
        status = ending.code
    print('ended with', status or 0)
"""


def test_console_scripts_work_far_from_the_checkout(installed, tmp_path):
    """Each gives its help, and one checks a built-in config."""
    (info,) = installed.glob('*.dist-info')
    parser = configparser.ConfigParser()
    parser.read(info / 'entry_points.txt')
    commands = dict(parser['console_scripts'])
    assert sorted(commands) == [
        'convert-checkpoint',
        'convert-records',
        'launch-jobset',
        'launch-local',
        'recover-config',
        'run-train-eval',
    ]
    tiny_data.write_all(tmp_path)
    check = [
        '--mode=check',
        '--pipeline_config_path=builtin:signs_mobilenet_v1',
        '--set=train_input_reader.tf_record_input_reader.input_path=["train.tfrecord"]',
        '--set=eval_input_reader.0.tf_record_input_reader.input_path=["val.tfrecord"]',
        '--set=train_input_reader.label_map_path=label_map.pbtxt',
        '--set=eval_input_reader.0.label_map_path=label_map.pbtxt',
    ]
    calls = [(target, ['--help']) for target in commands.values()]
    calls.append((commands['run-train-eval'], check))
    called = run(installed, tmp_path, '-c', CALLS, json.dumps(calls))
    assert called.returncode == 0, called.stderr
    *helped, checked, nothing = called.stdout.split('ended with 0\n')
    assert len(helped) == 6 and all('--' in one for one in helped) and not nothing, called.stdout
    assert '24 examples' in checked and 'steps: ' in checked


def other_python(code, version):
    """Run code that takes this Python for another version, without absl."""
    before = f"import sys; sys.version_info = {version}; sys.modules['absl'] = None\n"
    return subprocess.run(
        [sys.executable, '-c', before + code], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ('version', 'text'), [((3, 8, 18), '3.8'), ((3, 14, 0), '3.14')], ids=['3.8', '3.14']
)
@pytest.mark.parametrize(
    'code',
    [
        "import run_train_eval; run_train_eval.main(['run_train_eval.py'])",
        # What `python -m` does before it runs a module of a package.
        "sys.argv[0] = '-m'; import model_fns.datasets.convert",
        "sys.argv[0] = '-m'; import estimator_lib.launch_local",
        "import runpy; sys.argv = ['setup.py', '--version']; runpy.run_path('setup.py')",
    ],
)
def test_another_python_gets_one_sentence(code, version, text):
    refused = other_python(code, version)
    assert refused.returncode in (1, 2)
    (line,) = refused.stderr.splitlines()
    assert line.removeprefix('error: ') == (
        f'This project needs Python 3.9 to 3.13, and this is Python {text}: '
        'TensorFlow 2.15 to 2.21 have no builds for it.'
    )


def instructions():
    """The instructions of the Dockerfile: (keyword, rest), by stage; the first is before any."""
    text = re.sub(r'^#.*\n', '', (ROOT / 'Dockerfile').read_text(), flags=re.M)
    stages = [[]]
    for line in text.replace('\\\n', ' ').splitlines():
        keyword, _, rest = line.partition(' ')
        if keyword == 'FROM':
            stages.append([])
        if keyword:
            stages[-1].append((keyword, ' '.join(rest.split())))
    return stages


def values(stage, keyword):
    return [rest for each, rest in stage if each == keyword]


def test_image_is_built_from_the_files_of_the_wheel():
    """The wheel of these tests comes from the same files."""
    _, wheel, image = instructions()
    copied = {name for rest in values(wheel, 'COPY') for name in rest.split()[:-1]}
    assert copied == {*NEEDED, *PACKAGES}
    assert values(image, 'COPY') == [
        'constraints.txt /constraints.txt',
        '--from=wheel /wheels /wheels',
    ]
    lines = (ROOT / '.dockerignore').read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith('!')}
    assert '*' in lines and kept == {*copied, 'constraints.txt'}
    assert all((ROOT / name).exists() for name in kept)


def test_image_has_pinned_versions(installed):
    before, _, image = instructions()
    python = values(before, 'ARG')[0].removeprefix('PYTHON=')
    assert all(rest.startswith('python:${PYTHON}-slim') for rest in values(image, 'FROM'))
    (install,) = [rest for rest in values(image, 'RUN') if 'pip install' in rest]
    assert 'pip install --constraint /constraints.txt' in install
    (info,) = installed.glob('*.dist-info')
    metadata = email.message_from_string((info / 'METADATA').read_text())
    needs = [requirements.Requirement(text) for text in metadata.get_all('Requires-Dist')]
    devices = dict(re.findall(r'(\w+)\) extras=([\w,]+) ;;', install))
    assert devices['gpu'] == devices['cpu'] + ',gpu'
    extras = devices['gpu'].split(',')
    assert set(extras) <= set(metadata.get_all('Provides-Extra'))
    pinned = {}
    for line in (ROOT / 'constraints.txt').read_text().splitlines():
        if not line.startswith('#'):
            need = requirements.Requirement(line)
            if need.marker.evaluate({'python_version': python}):
                pinned[utils.canonicalize_name(need.name)] = str(need.specifier)[2:]
    for need in needs:
        for extra in ('', *extras):
            if not need.marker or need.marker.evaluate({'python_version': python, 'extra': extra}):
                assert pinned[utils.canonicalize_name(need.name)] in need.specifier, need


def test_image_runs_as_a_user_without_rights(installed):
    *_, image = instructions()
    last = [rest for keyword, rest in image if keyword in ('USER', 'ENTRYPOINT')]
    assert last == ['1000:1000', '["run-train-eval"]']  # a number, which Kubernetes can check
    (info,) = installed.glob('*.dist-info')
    assert 'run-train-eval' in (info / 'entry_points.txt').read_text()


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        ([], 'docker build --build-arg DEVICE=cpu --tag vision-model-fns:cpu .'),
        (
            ['DEVICE=gpu', 'PYTHON=python3.11', 'IMAGE=registry.example.com/vision'],
            'docker build --build-arg DEVICE=gpu --build-arg PYTHON=3.11 '
            '--tag registry.example.com/vision:gpu .',
        ),
    ],
)
def test_make_image(arguments, expected):
    environment = {name: os.environ[name] for name in os.environ if not name.startswith('MAKE')}
    environment.pop('PYTHON', None)
    run = subprocess.run(
        ['make', '-n', 'image', *arguments],
        cwd=ROOT, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert ' '.join(run.stdout.replace('\\\n', ' ').split()) == expected
