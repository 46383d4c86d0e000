"""Commands, programs, configs and links of the pages are true of the code."""

import argparse
import importlib
import importlib.util
import os
import re
import runpy
import subprocess
import sys
import textwrap

import pytest
from google.protobuf import text_format

from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns.cli import builtin_configs, flag_parsing, legacy_flags
from protos import label_map_pb2, other_names, pipeline_pb2
from tests import documents, tiny_data
from tests.model_fns.cli.test_legacy_flags import LEGACY, OF_THIS_PROGRAM_TOO

# Programs that are not of this project.
FOREIGN = {
    '.', 'cd', 'curl', 'docker', 'edgetpu_compiler', 'export', 'git', 'kubectl', 'python3',
    'python3.13', 'saved_model_cli', 'sed', 'tensorboard', 'tensorflow_model_server',
    'tritonserver',
}  # fmt: skip
EXTRAS = {
    'recover-config': 'vision_extras.recover.recover_config',
    'launch-jobset': 'vision_extras.jobset.command',
}
MODULES = {
    'convert-records': 'model_fns.datasets.convert',
    'convert-checkpoint': 'model_fns.convert_checkpoint',
    'launch-local': 'estimator_lib.launch_local',
    **EXTRAS,
}
# Programs of pages, and the tests that run them.
RUN_BY = {
    'README.md': 'tests/test_docs.py',
    'docs/deployment.md': 'tests/system/test_files_for_devices.py',
    'docs/external_task.md': 'tests/system/test_external_task.py',
    'docs/prediction.md': 'tests/system/test_prediction_page.py',
    'docs/python.md': 'tests/system/test_estimator_api.py',
    'docs/tuning.md': 'tests/test_tuning_page.py',
    'docs/versions.md': 'tests/test_docs.py',
}
MAKEFILE = (documents.ROOT / 'Makefile').read_text()
SETUP = (documents.ROOT / 'setup.py').read_text()


class ParsedError(Exception):
    """A command line was parsed; what it asks for is not done."""


def check_command(words, monkeypatch):
    """Raise an error if a command line of this project cannot be parsed."""
    while re.match(r'[A-Z_]+=', words[0]):
        words = words[1:]
    if '>' in words:
        words = words[: words.index('>')]
    program, *arguments = words
    if program == 'make':
        for word in arguments:
            if '=' not in word:
                assert re.search(rf'^{word}:', MAKEFILE, re.M), f'make {word}'
    elif program == 'pip':
        for extra in re.findall(r'\[(\w+)\]', ' '.join(arguments)):
            assert f"'{extra}': [" in SETUP, extra
    elif program == 'run-train-eval' or words[:2] == ['python', 'run_train_eval.py']:
        flags = arguments if program == 'run-train-eval' else words[2:]
        check_front_door(flags)
    elif program in MODULES:
        check_module(MODULES[program], arguments, monkeypatch)
    elif words[:2] == ['python', '-m']:
        check_module(words[2], words[3:], monkeypatch)
    else:
        assert program in FOREIGN, words


def check_front_door(arguments):
    """Parse flags, and change a config by those that do."""
    flags = flag_parsing.parse_flags(['run_train_eval.py', *arguments])
    config = pipeline_pb2.TrainEvalPipelineConfig()
    for text in flags.config_override:
        text_format.Merge(text, config)
    config.eval_input_reader.add()
    config_lib.apply_settings(config, flags.set)


def check_module(name, arguments, monkeypatch):
    """Parse the arguments of a module's command."""
    if name in EXTRAS.values() and importlib.util.find_spec('vision_extras') is None:
        return
    assert importlib.util.find_spec(name), name
    if name in ('pytest', 'tools.architecture', 'protos.generate'):
        return
    if '--' in arguments:
        check_front_door(arguments[arguments.index('--') + 1 :])
        arguments = arguments[: arguments.index('--')]
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser, args=None, namespace=None):
        parse(parser, args, namespace)
        raise ParsedError

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, 'parse_args', parse_only)
        patch.setattr(sys, 'argv', [name, *arguments])
        try:
            importlib.import_module(name).main()
        except ParsedError:
            return
        except SystemExit as ending:
            raise AssertionError(f'python -m {name} {arguments}') from ending
    raise AssertionError(f'{name} parsed no command line')


def test_commands_are_understood(monkeypatch):
    lines = list(documents.commands())
    for words in lines:
        check_command(words, monkeypatch)
    assert len(lines) > 60


def test_rows_of_results_name_configs():
    table = (documents.ROOT / 'docs' / 'results.md').read_text()
    rows = re.findall(r'^\| (?:`(\w+)`|embedded).*\| `(.*)` \|$', table, re.M)
    assert len(rows) > 5
    for name, command in rows:
        program, *arguments = command.split()
        if program == 'make':
            assert arguments == ['demo']
            continue
        check_front_door(arguments)
        assert builtin_configs.resolve(f'builtin:{name}')
        assert f'builtin:{name}' in command


@pytest.mark.parametrize(
    'line',
    [
        'run-train-eval --modell_dir=a',
        'run-train-eval --model_dir=a --set train_config.batch_sizes=1',
        'python -m model_fns.datasets.convertt --from=voc',
        'convert-records --from=voc --lable_map=a',
        'make demonstration',
        'unknown-program',
    ],
)
def test_wrong_commands_are_noticed(line, monkeypatch):
    with pytest.raises((AssertionError, ModuleNotFoundError, errors.UserError)):
        check_command(line.split(), monkeypatch)


def test_each_block_has_a_language():
    unknown = [block[:3] for block in documents.blocks() if not block.language]
    assert not unknown


def test_each_program_is_run_by_a_test():
    assert {block.page for block in documents.blocks('python')} == set(RUN_BY)


@pytest.mark.parametrize('block', documents.blocks('py'), ids=lambda block: block.page)
def test_parts_of_programs_are_python(block):
    compile(textwrap.dedent(block.text), block.page, 'exec')


@pytest.mark.parametrize(
    'block', documents.blocks('proto'), ids=lambda block: f'{block.page}:{block.line}'
)
def test_configs_are_of_the_schema(block):
    is_label_map = block.text.startswith('item')
    message = label_map_pb2.StringIntLabelMap() if is_label_map else None
    text_format.Parse(block.text, message or pipeline_pb2.TrainEvalPipelineConfig())


def test_the_program_of_the_readme_trains(tmp_path, monkeypatch):
    (block,) = (block for block in documents.blocks('python') if block.page == 'README.md')
    tiny_data.write_all(tmp_path)
    (tmp_path / 'my.config').write_text(tiny_data.LENET_CONFIG.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    program = tmp_path / 'program.py'
    program.write_text(block.text.replace('batch_size: 8', 'batch_size: 2 num_steps: 2'))
    runpy.run_path(str(program))
    assert list((tmp_path / 'runs' / 'second').glob('model.ckpt-2.index'))


def test_the_program_with_tf_estimator_trains(tmp_path):
    (block,) = (block for block in documents.blocks('python') if block.page == 'docs/versions.md')
    program = tmp_path / 'program.py'
    program.write_text(block.text)
    # In a process of its own: `install` changes TensorFlow for the whole process.
    environment = {**os.environ, 'PYTHONPATH': str(documents.ROOT), 'TMPDIR': str(tmp_path)}
    run = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    # Each step leaves half of the error: 3 - 3 / 2^20.
    assert float(run.stdout.removeprefix('slope ')) == pytest.approx(3.0, abs=1e-5)


def test_files_that_pages_name_are_there():
    missing = []
    for path in documents.PAGES:
        text = path.read_text(encoding='utf-8')
        named = re.findall(r'`((?:configs|model_fns|estimator_lib|tests|docs)/[\w/.]+)`', text)
        linked = re.findall(r'\]\((?!http|#)([^)#]+)', text)
        files = [documents.ROOT / name for name in named] + [path.parent / name for name in linked]
        missing += [(path.name, str(file)) for file in files if not file.exists()]
    assert not missing


def test_links_to_sections_lead_somewhere():
    missing = []
    for path in documents.PAGES:
        for page, section in re.findall(r'\]\(([\w/.]*)#([\w-]+)\)', path.read_text()):
            text = ((path.parent / page) if page else path).read_text()
            titles = re.findall(r'^#+ (.*)$', text, re.M)
            slugs = {re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-') for title in titles}
            if section not in slugs:
                missing.append((path.name, page, section))
    assert not missing


def migration_rows():
    """Return what the page about migration says of each flag, by its name; all rows."""
    page = (documents.ROOT / 'docs' / 'migrating.md').read_text()
    rows = {}
    for name, text in re.findall(r'^\| `--(\w+)` \| (.*) \|$', page, re.M):
        rows.setdefault(name, []).append(text)
    return rows


def test_every_flag_of_other_programs_has_a_row():
    published = {name for names in LEGACY.values() for name in names.split()} - OF_THIS_PROGRAM_TOO
    rows = migration_rows()
    assert published <= set(rows)
    assert set(rows) <= legacy_flags.replacements().names()


def test_rows_of_flags_say_what_the_front_door_says():
    for name, texts in migration_rows().items():
        answer = legacy_flags.answer([f'--{name}='])
        fields = set(re.findall(r'--set ([\w.]+)=', answer))
        codes = re.findall('`([^`]+)`', ' '.join(texts))
        shown = set(re.findall(r'[a-z]\w*(?:\.\w+)+', ' '.join(codes)))
        shown -= {'run_train_eval.py', 'log.txt'}
        assert bool(fields) <= bool(shown), name
        for path in shown:
            assert path in answer or path.rpartition('.')[2] in answer, f'{name}: {path}'


def test_every_renamed_field_has_a_row():
    page = (documents.ROOT / 'docs' / 'migrating.md').read_text()
    for path, rule in other_names.RENAMED.items():
        names = [path.rpartition('/')[2], *filter(None, [rule.now])]
        assert all(re.search(rf'\b{name}\b', page) for name in names), path
    for name, field in other_names.ELSEWHERE.items():
        assert f'| `{name}` | `{field}` |' in page
