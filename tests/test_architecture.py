"""The rules of the house that can be read off the source."""

import ast
import functools
import pathlib
import re
import subprocess
import sys

import pytest

from tools import architecture
from tools.architecture import floors, imported_modules, rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_ROOT_MODULES = 11
MOST_LINES = 500
PACKAGES = architecture.PACKAGES
TASKS = ('classification', 'detection', 'segmentation')


def sources():
    for package in PACKAGES[1:]:
        for path in sorted((ROOT / package).rglob('*.py')):
            if not path.name.endswith('_pb2.py'):
                yield path
    yield ROOT / 'run_train_eval.py'


def level(name):
    return PACKAGES.index(name) if name in PACKAGES else None


def test_imports_go_down_only():
    for path in sources():
        package = path.relative_to(ROOT).parts[0].removesuffix('.py')
        for module in imported_modules(path, with_types=True):
            root = module.split('.')[0]
            if level(root) is not None:
                assert level(root) >= level(package), f'{path} imports {module}'
            foreign = ('tf_slim', 'keras', 'tf_keras', 'object_detection', 'nets')
            assert root not in foreign, f'{path} imports {module}'


def packages():
    """Every folder of modules, in the libraries."""
    for package in architecture.DRAWN:
        for path in sorted((ROOT / package).rglob('__init__.py')):
            yield path.parent


def test_no_core_test_needs_an_extra():
    folders = [ROOT / 'tests' / 'vision_extras', ROOT / 'tests' / 'system' / 'vision_extras']
    for path in (ROOT / 'tests').rglob('*.py'):
        if not any(folder in path.parents for folder in folders):
            imported = [module.split('.')[:2] for module in imported_modules(path)]
            needed = [parts for parts in imported if 'vision_extras' in parts]
            assert not needed, path


# Imports every module of the core, and asks for help and for a mode, without the extras.
WITHOUT_EXTRAS = """
import importlib, sys
sys.modules['vision_extras'] = None
import run_train_eval
run_train_eval.run(['run_train_eval.py', '--help'])
for module in sys.argv[1:]:
    importlib.import_module(module)
run_train_eval.main(['run_train_eval.py', '--mode=replay'])
"""


def test_the_core_works_without_the_extras():
    core = [name for name in architecture.source_files() if name.split('.')[0] in PACKAGES[2:]]
    assert len(core) > 400
    run = subprocess.run(
        [sys.executable, '-c', WITHOUT_EXTRAS, *(name for name in core if '__main__' not in name)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2, run.stderr
    assert '[replay]' in run.stdout
    assert run.stderr.splitlines()[-1] == (
        'error: --mode=replay: vision_extras.replay.mode is not installed; expected the folder '
        'vision_extras of this project beside model_fns, or: pip install vision-model-fns'
    )


def test_floors_by_hand():
    assert floors({'a': {'b', 'c'}, 'b': {'c'}, 'c': set()}) == {'a': 3, 'b': 2, 'c': 1}
    with pytest.raises(architecture.CircleError, match='a -> b -> a'):
        floors({'a': {'b'}, 'b': {'a'}})


def test_imports_for_the_type_checker_do_not_count(tmp_path):
    path = tmp_path / 'a.py'
    path.write_text(
        'import typing\n'
        'from typing import TYPE_CHECKING\n'
        'if TYPE_CHECKING:\n'
        '    import hidden\n'
        'else:\n'
        '    import other\n'
        'if typing.TYPE_CHECKING:\n'
        '    from hidden import too\n'
        'def function():\n'
        '    if True:\n'
        '        import late\n'
    )
    assert set(imported_modules(path, with_types=True)) >= {'hidden', 'hidden.too'}
    assert set(imported_modules(path)) == {
        'typing',
        'typing.TYPE_CHECKING',
        'other',
        'late',
    }


def test_longest_path_by_hand(tmp_path):
    sources = {
        'top': 'from package import low\nimport package.middle\n',
        'package': 'from package.low import name\n',
        'package.middle': 'def late():\n    from package import name\n',
        'package.low': 'import os\nfrom typing import List\n',
        'package.aside': 'from __future__ import annotations\n',
    }
    files = {}
    for module, text in sources.items():
        files[module] = tmp_path / f'{module}.py'
        files[module].write_text(text)
    graph = architecture.file_graph(files)
    assert graph == {
        'top': {'package.low', 'package.middle'},
        'package': {'package.low'},
        'package.middle': {'package'},
        'package.low': set(),
        'package.aside': set(),
    }
    path = ['top', 'package.middle', 'package', 'package.low']
    assert architecture.longest_path(graph) == path


def test_files_import_each_other_in_no_circle():
    files = architecture.source_files()
    assert {'run_train_eval', 'model_fns', 'estimator_lib.task', 'protos.train_pb2'} <= set(files)
    floors(architecture.file_graph(files, with_types=True))


def test_no_circle_of_rooms():
    for folder in packages():
        floors(rooms(folder))


def test_benchmarks_have_no_circle_and_need_no_tests():
    folder = ROOT / 'benchmarks'
    for each in (folder, *(path.parent for path in folder.rglob('*/__init__.py'))):
        floors(rooms(each))
    for path in folder.rglob('*.py'):
        imported = {module.split('.')[0] for module in imported_modules(path)}
        assert 'tests' not in imported, path


def test_engine_root_holds_what_a_newcomer_reads_first():
    modules = {path.stem for path in (ROOT / 'estimator_lib').glob('*.py')} - {'__init__'}
    assert len(modules) <= MOST_ROOT_MODULES, modules
    assert {'task', 'model_fn', 'training', 'errors', 'registry', 'launch_local'} <= modules


def test_no_folder_is_a_crowd():
    for folder in packages():
        modules = [path for path in folder.glob('*.py') if path.name != '__init__.py']
        # Published networks have a file for each family.
        most = 22 if 'backbones' in folder.parts else 16
        assert len(modules) <= most, f'{folder}: {len(modules)} modules side by side'


def test_no_file_is_too_long():
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources()}
    assert not {path: lines for path, lines in lengths.items() if lines >= MOST_LINES}


def test_drawing_is_of_the_code_as_it_is():
    assert architecture.DRAWING.read_text() == architecture.draw(), 'python -m tools.architecture'


def test_arrows_that_a_longer_path_implies_are_left_out():
    graph = {'a': {'b', 'c', 'd'}, 'b': {'c'}, 'c': set(), 'd': set()}
    assert architecture.direct_imports(graph) == {
        'a': {'b', 'd'},
        'b': {'c'},
        'c': set(),
        'd': set(),
    }


def test_no_text_is_wider_than_its_box():
    widest = 8.5  # pixels of a letter at 13 pixels
    drawing = architecture.DRAWING.read_text()
    boxes = re.findall(
        r'<rect x="(\d+)" y="\d+" width="(\d+)".*\n<text x="(\d+)".*"middle">(\w+|the schema)<',
        drawing,
    )
    names = [name for package in architecture.DRAWN for name in rooms(ROOT / package)]
    assert sorted(name for *_, name in boxes) == sorted([*names, 'the schema'])
    for left, width, middle, name in boxes:
        assert len(name) * widest < int(width) and int(middle) == int(left) + int(width) // 2
    arrows = drawing.count('<line')
    graphs = [architecture.direct_imports(rooms(ROOT / package)) for package in architecture.DRAWN]
    between = len(architecture.DRAWN)
    assert arrows == between + sum(len(others) for graph in graphs for others in graph.values())


def test_plan_as_built_names_every_room():
    plan = (ROOT / 'docs' / 'architecture.md').read_text()
    for package in architecture.DRAWN:
        for room in rooms(ROOT / package):
            assert re.search(rf'`{room}(/|\.py)?`', plan), f'{package}/{room}'


def test_tasks_do_not_import_each_other():
    for path in sources():
        parts = path.relative_to(ROOT).parts
        if len(parts) < 3 or parts[1] not in TASKS:
            continue
        others = [task for task in TASKS if task != parts[1]]
        for module in imported_modules(path):
            assert not re.match(rf'model_fns\.({"|".join(others)})\b', module), f'{path}: {module}'


def uses_built_in_estimator(path):
    """Whether code, docstrings left aside, uses `tf.estimator` or imports its package."""
    text = path.read_text()
    # Few files have the word, so that few syntax trees are walked.
    for node in ast.walk(ast.parse(text)) if re.search(r'\.\s*estimator\b', text) else ():
        is_attribute = isinstance(node, ast.Attribute) and node.attr == 'estimator'
        if is_attribute and ast.unparse(node.value) in ('tf', 'tf1', 'tf.compat.v1'):
            return True
    return 'tensorflow_estimator' in text and any(
        module.startswith('tensorflow_estimator') for module in imported_modules(path)
    )


def test_all_code_uses_the_estimator_of_every_tensorflow():
    folders = [*PACKAGES, 'benchmarks', 'tests', 'tools']
    paths = [path for folder in folders for path in (ROOT / folder).rglob('*.py')]
    found = {str(path.relative_to(ROOT)) for path in paths if uses_built_in_estimator(path)}
    room = 'estimator_lib/tf_estimator/'
    assert {path for path in found if room not in path} == set()
    assert f'{room}__init__.py' in found


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


def schema_fields(root, left_out=()):
    """The messages below a message, and the names of their fields and oneofs."""
    messages, queue = {}, [root]
    while queue:
        message = queue.pop()
        if message is None or message.name in messages:
            continue
        held = [field for field in message.fields if field.name not in left_out]
        messages[message.name] = {one.name for one in [*held, *message.oneofs]}
        queue += [field.message_type for field in held]
    return messages


@functools.cache
def task_words():
    """What belongs to tasks in the schema: what `model` alone reaches, augmentations included.

    Names of one word are English too ("weight", "Loss"), so of those only the kinds of `model` and
    what is no word but an abbreviation of the schema ("ssd", "aspp", "fpn") count.

    Returns:
        Names of messages, and of fields.
    """
    from protos import model_pb2, pipeline_pb2

    of_tasks = schema_fields(model_pb2.DetectionModel.DESCRIPTOR)
    rest = schema_fields(
        pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR, ('model', 'data_augmentation_options')
    )
    everything = schema_fields(pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR)
    messages = set(everything) - set(rest)
    fields = {field for message in messages for field in everything[message]}
    fields -= {field for names in rest.values() for field in names}
    assert set(of_tasks) - messages == {'Duration'}  # of any part of a config
    kinds = {field.name for field in model_pb2.DetectionModel.DESCRIPTOR.fields}
    kinds.remove('external')  # It stands for no task, and input readers can be external too.
    messages = {name for name in messages if re.search('[a-z][A-Z]', name)}
    return messages, {name for name in fields if '_' in name or name in kinds | {'aspp', 'fpn'}}


def words_of_code(text):
    """Every identifier and every word of a string in a source, without comments and docstrings."""
    tree = ast.parse(text)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from re.findall(r'\w+', node.value)
        for name in ('id', 'attr', 'arg', 'name', 'asname', 'module'):
            value = getattr(node, name, None)
            if isinstance(value, str):
                yield from re.findall(r'\w+', value)


def words_of_tasks(text):
    """The words of a source that belong to tasks."""
    messages, fields = task_words()
    kinds = {name for name in fields if '_' not in name}
    found = set()
    for word in words_of_code(text):
        plain = word.strip('_')
        if plain in messages or plain.lower() in fields or kinds & set(plain.lower().split('_')):
            found.add(word)
    return found


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ("x = 'model.ssd'", {'ssd'}),
        ('def check_ssd(): pass', {'check_ssd'}),
        ('config.faster_rcnn.x', {'faster_rcnn'}),
        ("f'no {box_predictor}'", {'box_predictor'}),
        ("RANGES = {'SsdAnchorGenerator.num_layers': 1}", {'SsdAnchorGenerator', 'num_layers'}),
        ('ssd_pb2.Ssd()', {'ssd_pb2', 'Ssd'}),
        ('f(image_resizer=1)', {'image_resizer'}),
        ('from protos import ssd_pb2', {'ssd_pb2'}),
        ('_IMAGE_RESIZER = 1', {'_IMAGE_RESIZER'}),
        ('"A docstring about ssd."  # and a comment on image_resizer', set()),
        ("config.train_config.batch_size, 'loss', weight, scale", set()),
    ],
)
def test_words_of_tasks_are_found(text, expected):
    assert words_of_tasks(text) == expected


def test_engine_names_nothing_of_a_task():
    found = {}
    for path in sorted((ROOT / 'estimator_lib').rglob('*.py')):
        for word in words_of_tasks(path.read_text()):
            found.setdefault(word, []).append(path.name)
    assert found == {}
