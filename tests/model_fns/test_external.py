"""Tasks of other packages: how they are found, and what configs that name them may say."""

import sys

import pytest

import model_fns
import run_train_eval
from estimator_lib import config as config_lib
from estimator_lib import errors
from tests.estimator_lib import line_task

SOURCE = """
from estimator_lib.config import ConfigRules
from estimator_lib.config.rules import Range
from estimator_lib.errors import ConfigError
from estimator_lib.task import Task
from tests.estimator_lib.line_task import Line


class Curve(Line):
    def __init__(self, degree):
        self.degree = degree

    @classmethod
    def config_rules(cls, config):
        return ConfigRules(
            supported={'EvalConfig': frozenset({'metrics_set', 'min_score_threshold'})},
            ranges={'EvalConfig.min_score_threshold': Range(0, 1)},
        )

    @classmethod
    def from_config(cls, config):
        text = config.model.external.config
        if not text.isdigit():
            raise ConfigError(f'model.external.config: {text!r} is no degree.')
        return cls(int(text))


class Unfinished(Task):
    name = 'unfinished'

    def decode(self, serialized):
        return {}


class Older(Curve):
    def check_example(self, serialized):
        return None

    def examine(self, serialized):
        return None


class Other:
    pass


value = 1
"""


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    folder = tmp_path / 'curves'
    folder.mkdir()
    (folder / '__init__.py').write_text('')
    (folder / 'task.py').write_text(SOURCE)
    (folder / 'needy.py').write_text('import math\n\nimport curve_fitting_of_nobody\n')
    (folder / 'broken.py').write_text('import math\n\nmath.nothing()\n')
    (folder / 'malformed.py').write_text('x = (\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.split('.')[0] == 'curves']:
        del sys.modules[name]


def config_of(task, config='2', text=''):
    model = f'model {{ external {{ task: "{task}" config: "{config}" }} }}'
    return config_lib.parse_pipeline_config(f'{model} {text}', 'text')


def test_the_class_is_built_from_the_config():
    task = model_fns.build_task(config_of('curves.task:Curve', '3'))
    assert (type(task).__name__, task.degree) == ('Curve', 3)
    assert callable(model_fns.create_model_fn(config_of('curves.task:Curve')))


def refusal(config):
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.build_task(config)
    return str(caught.value)


EXPECTED = 'expected "package.module:Class".'
INSTALLED = 'expected the task in a package that is installed, or in a folder of PYTHONPATH.'


@pytest.mark.parametrize(
    'task, message',
    [
        ('', 'not set.'),
        ('curves.task', f"'curves.task'; {EXPECTED}"),
        ('curves.task:', f"'curves.task:'; {EXPECTED}"),
        ('curves/task.py:Curve', f"'curves/task.py:Curve'; {EXPECTED}"),
        ('.task:Curve', f"'.task:Curve'; {EXPECTED}"),
        ('curvs.task:Curve', f"there is no module 'curvs'; {INSTALLED}"),
        ('curves.tusk:Curve', f"there is no module 'curves.tusk'; {INSTALLED}"),
        (
            'curves.task:Curv',
            "curves.task has no 'Curv'; did you mean 'Curve'? Known: Curve, Line, Older, "
            'Unfinished.',
        ),
        ('curves.task:Other', 'curves.task:Other is no subclass of estimator_lib.task.Task.'),
        ('curves.task:Task', 'curves.task:Task is no subclass of estimator_lib.task.Task.'),
        ('curves.task:value', 'curves.task:value is no subclass of estimator_lib.task.Task.'),
        (
            'curves.task:Unfinished',
            'curves.task:Unfinished does not define augment, export_outputs, loss_names, losses, '
            'metric_names, metrics, postprocess, predict, prepare, serving_features, from_config.',
        ),
        (
            'curves.task:Older',
            'curves.task:Older defines check_example, examine, which nobody calls there; expected '
            'in its part `checks`, a DataChecks.',
        ),
        (
            'curves.needy:Curve',
            'importing curves.needy fails in {folder}/needy.py, line 3: ModuleNotFoundError: No '
            "module named 'curve_fitting_of_nobody'",
        ),
        (
            'curves.broken:Curve',
            'importing curves.broken fails in {folder}/broken.py, line 3: AttributeError: module '
            "'math' has no attribute 'nothing'",
        ),
        (
            'curves.malformed:Curve',
            "importing curves.malformed fails: SyntaxError: '(' was never closed (malformed.py, "
            'line 1)',
        ),
    ],
)
def test_a_name_of_no_task_is_refused_with_its_path(task, message, package):
    said = refusal(config_of(task))
    if task == 'curves.malformed:Curve':  # Each Python says it in other words.
        assert said.startswith('model.external.task: importing curves.malformed fails: SyntaxError')
    else:
        assert said == f'model.external.task: {message.format(folder=package)}'


def test_the_task_refuses_its_own_settings():
    said = refusal(config_of('curves.task:Curve', 'two'))
    assert said == "model.external.config: 'two' is no degree."


def test_fields_that_nobody_reads_are_refused():
    line = config_of(
        'curves.task:Line',
        text='eval_config { metrics_set: "m" } graph_rewriter { quantization {} }',
    )
    assert refusal(line) == (
        'the pipeline config has 2 problems:\n'
        '  graph_rewriter: not supported: neither the engine nor curves.task:Line reads it.\n'
        '  eval_config.metrics_set: not supported: neither the engine nor curves.task:Line reads '
        'it.'
    )


def test_the_rules_of_the_task_hold():
    text = 'eval_config {{ metrics_set: "m" min_score_threshold: {} }}'
    assert model_fns.validate(config_of('curves.task:Curve', text=text.format(0.5)), None) == []
    assert refusal(config_of('curves.task:Curve', text=text.format(2))) == (
        'eval_config.min_score_threshold: 2; expected at least 0 and at most 1.'
    )


def test_other_problems_are_listed_beside_a_task_that_is_not_there():
    said = refusal(config_of('curvs.task:Curve', text='train_config { batch_size: 0 }'))
    assert said.count('\n') == 2
    assert 'model.external.task: there is no module' in said
    assert 'train_config.batch_size: 0; expected' in said


@pytest.mark.parametrize('mode', ['train', 'check'])
def test_the_front_door_ends_with_status_2(mode, tmp_path, capsys):
    config = line_task.create_config(tmp_path)
    config.model.external.task = 'curves.task:Curv'
    config_lib.save_pipeline_config(config, str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        run_train_eval.main(['run_train_eval.py', f'--mode={mode}', f'--model_dir={tmp_path}'])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count('model.external.task: curves.task has no') == 1 and 'Traceback' not in said
