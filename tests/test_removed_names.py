import pathlib

import pytest

from estimator_lib.tf_estimator import stand_ins
from tools import removed_names

SOURCE = """
import tensorflow as tf
from tensorflow.python.ops import nowhere as names
from tensorflow.python.training import session_manager
import numpy as np

def build(other):
    np.ones(3).tensorflow
    other.nn.gone
    return tf.nn.relu(tf.nn.gone(1)).gone, session_manager.SessionManager().gone, names.thing
"""


def test_names_of_a_source():
    assert removed_names.tensorflow_names(SOURCE) == {
        'tensorflow',
        'tensorflow.nn',
        'tensorflow.nn.gone',
        'tensorflow.nn.relu',
        'tensorflow.python.ops.nowhere',
        'tensorflow.python.ops.nowhere.thing',
        'tensorflow.python.training.session_manager',
        'tensorflow.python.training.session_manager.SessionManager',
    }


def test_missing_names_of_a_package(tmp_path):
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'a.py').write_text(SOURCE)
    (tmp_path / 'b.py').write_text('import tensorflow\ntensorflow.nn.gone\n')
    assert removed_names.missing_names(tmp_path) == {
        'tensorflow.nn.gone': {'b.py', 'folder/a.py'},
        'tensorflow.python.ops.nowhere': {'folder/a.py'},
    }


@pytest.mark.parametrize(
    ('users', 'expected'),
    [
        ({'python/estimator/canned/dnn.py', 'python/estimator/keras_lib.py'}, True),
        ({'python/estimator/canned/dnn.py', 'python/estimator/estimator.py'}, False),
    ],
)
def test_parts_that_are_not_called(users, expected):
    assert removed_names.unused(users) == expected


def test_this_tensorflow_lacks_nothing_that_is_not_replaced(capsys):
    assert removed_names.main() == 0
    replaced = [line.split()[1] for line in capsys.readouterr().out.splitlines() if 'repl' in line]
    expected = sorted(one.name for one in stand_ins.REMOVED)
    assert replaced == ([] if stand_ins.is_built_in() else expected)


def test_a_new_release_may_lack_more(monkeypatch, capsys, tmp_path):
    (tmp_path / 'estimator.py').write_text('from tensorflow.python.ops import nowhere')
    monkeypatch.setattr(
        removed_names.importlib.util,
        'find_spec',
        lambda name, find=removed_names.importlib.util.find_spec: (
            find(name) if name != 'tensorflow_estimator' else Package(tmp_path)
        ),
    )
    assert removed_names.main() == 1
    assert 'MISSING       tensorflow.python.ops.nowhere  (estimator.py)' in capsys.readouterr().out


class Package:
    def __init__(self, folder: pathlib.Path):
        self.origin = str(folder / '__init__.py')
