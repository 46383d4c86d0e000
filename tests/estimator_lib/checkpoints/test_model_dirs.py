"""Folders of runs that are refused, or resumed from."""

import logging
import os

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import model_dirs
from tests.estimator_lib.checkpoints.small_variables import array, variable
from tests.estimator_lib.tiny_task import save

tf1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_writable_folder_is_made_and_left_empty(tmp_path):
    model_dirs.ensure_writable(str(tmp_path / 'new' / 'deep'))
    assert list((tmp_path / 'new' / 'deep').iterdir()) == []


def test_an_unwritable_folder_is_refused(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(errors.UserError, match=r'model_dir .*file/run cannot be written to'):
        model_dirs.ensure_writable(str(tmp_path / 'file' / 'run'))


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write everywhere')
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(errors.UserError, match='cannot be written to'):
        model_dirs.ensure_writable(str(tmp_path))


@pytest.mark.parametrize('given', ['run', 'run/', 'run/model.ckpt-3', './run/model.ckpt-3'])
def test_starting_from_the_own_folder_is_refused(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.CheckpointError, match='is in model_dir itself'):
        model_dirs.refuse_own_checkpoint(str(tmp_path / 'run'), given)


@pytest.mark.parametrize('given', ['', 'other/model.ckpt-3', 'run/export/model.ckpt', 'run2/m'])
def test_starting_from_elsewhere_is_not(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    model_dirs.refuse_own_checkpoint('run', given)


@pytest.fixture
def model_dir(tmp_path):
    save(
        tmp_path / 'model.ckpt-20',
        {
            'conv/weights': array(2, 2),
            'conv/weights/Momentum': array(2, 2),
            'logits/biases': array(3),
            'global_step': np.int64(20),
        },
    )
    return str(tmp_path)


def graph_of(logits=3, slot='Momentum', conv='conv'):
    shapes = {f'{conv}/weights': [2, 2], 'logits/biases': [logits]}
    if slot:
        shapes[f'{conv}/weights/{slot}'] = [2, 2]
    variables = [variable(name, shape) for name, shape in shapes.items()]
    return [*variables, tf1.train.get_or_create_global_step()]


def test_the_same_model_resumes(graph, model_dir):
    model_dirs.check_model_dir(model_dir, graph_of())


def test_a_new_folder_is_fine(graph, tmp_path):
    variables = graph_of()
    model_dirs.check_model_dir(str(tmp_path / 'none'), variables)
    model_dirs.check_model_dir(str(tmp_path), variables)


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({'logits': 4}, ['of another shape', 'model [4]  checkpoint [3]']),
        (
            {'conv': 'conv1'},
            ['missing in the checkpoint', 'conv1/weights', 'unused in the checkpoint'],
        ),
    ],
)
def test_another_model_is_refused_with_a_table(graph, model_dir, changes, expected):
    with pytest.raises(errors.CheckpointError, match='belongs to another model') as caught:
        model_dirs.check_model_dir(model_dir, graph_of(**changes), hint='It was made by X.')
    for part in [*expected, 'model.ckpt-20', 'It was made by X.']:
        assert part in str(caught.value)
    assert 'Momentum' not in str(caught.value)


def test_another_optimizer_is_refused_as_such(graph, model_dir):
    with pytest.raises(errors.CheckpointError, match='another optimizer') as caught:
        model_dirs.check_model_dir(model_dir, graph_of(slot='RMSProp'))
    assert 'conv/weights/RMSProp' in str(caught.value)
    assert 'fine_tune_checkpoint' in str(caught.value)


def test_slots_that_are_no_longer_needed_do_not_matter(graph, model_dir, caplog):
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        model_dirs.check_model_dir(model_dir, graph_of(slot=None))
    assert '1 variables that this run does not keep' in caplog.text


def test_the_model_alone_is_compared_when_the_rest_is_not_built(graph, model_dir):
    model_alone = graph_of(slot=None)[:2]
    model_dirs.check_model_dir(model_dir, model_alone, complete=False)
    with pytest.raises(errors.CheckpointError, match='belongs to another model'):
        model_dirs.check_model_dir(model_dir, model_alone[:1], complete=False)
