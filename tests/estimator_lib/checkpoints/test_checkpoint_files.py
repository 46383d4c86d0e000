from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saver_pb2

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, state_files
from tests.estimator_lib import tiny_task

pytestmark = pytest.mark.usefixtures('forked_processes')

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def save():
    """Return a function that saves a variable `a` as a checkpoint."""
    graph = tf.Graph()
    with graph.as_default():
        tf1.get_variable('a', [3], initializer=tf1.ones_initializer())
        step = tf1.train.create_global_step()
        savers = {
            version: tf1.train.Saver(write_version=version, save_relative_paths=True)
            for version in (saver_pb2.SaverDef.V1, saver_pb2.SaverDef.V2)
        }
        start = tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as session:
        session.run(start)

        def save_in(folder, name, global_step=None, version=saver_pb2.SaverDef.V2, value=7):
            step.load(value, session)
            return savers[version].save(
                session, str(folder / name), global_step=global_step, write_meta_graph=True
            )

        yield save_in


@pytest.fixture
def folder(tmp_path, save):
    for step in (5, 10, 100):
        save(tmp_path, 'model.ckpt', step)
    return tmp_path


@pytest.mark.parametrize(
    'given',
    [
        '',
        'model.ckpt-100',
        'model.ckpt-100.index',
        'model.ckpt-100.meta',
        'model.ckpt-100.data-00000-of-00001',
    ],
)
def test_every_way_to_name_a_checkpoint(folder, given):
    path = str(folder / given) if given else str(folder)
    assert checkpoint_files.resolve_checkpoint(path) == str(folder / 'model.ckpt-100')


def test_a_folder_without_a_list_gives_the_checkpoint_of_the_last_step(folder):
    (folder / 'checkpoint').unlink()
    assert checkpoint_files.resolve_checkpoint(str(folder)) == str(folder / 'model.ckpt-100')


def test_a_list_from_another_machine_is_read_by_its_file_names(folder):
    (folder / 'checkpoint').write_text('model_checkpoint_path: "/elsewhere/model.ckpt-10"\n')
    assert checkpoint_files.resolve_checkpoint(str(folder)) == str(folder / 'model.ckpt-10')


def test_the_older_format(tmp_path, save):
    prefix = save(tmp_path, 'old.ckpt', version=saver_pb2.SaverDef.V1)
    assert os.path.isfile(prefix)
    assert checkpoint_files.resolve_checkpoint(prefix) == prefix
    assert checkpoint_files.checkpoint_shapes(prefix)['a'] == [3]


def test_a_missing_checkpoint_names_the_nearest(folder):
    with pytest.raises(errors.CheckpointError) as caught:
        checkpoint_files.resolve_checkpoint(str(folder / 'model.ckpt-1000'), 'some.field')
    message = str(caught.value)
    assert message.startswith("some.field: there is no checkpoint '")
    assert "did you mean 'model.ckpt-10" in message
    assert 'model.ckpt-5' in message


@pytest.mark.parametrize(
    ('given', 'expected'),
    [('', 'holds no checkpoint'), ('x.ckpt', 'holds none'), ('no/x.ckpt', 'does not exist')],
)
def test_nothing_there(tmp_path, given, expected):
    with pytest.raises(errors.CheckpointError, match=expected):
        checkpoint_files.resolve_checkpoint(str(tmp_path / given))


def test_an_empty_path_is_refused():
    with pytest.raises(errors.CheckpointError, match="no checkpoint ''"):
        checkpoint_files.resolve_checkpoint('')


@pytest.mark.parametrize('name', ['graph.pb', 'model.tflite', 'saved/saved_model.pb'])
def test_graph_in_place_of_a_checkpoint_names_the_command_that_makes_one(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b'x')
    path = path.parent if name.startswith('saved/') else path
    with pytest.raises(errors.CheckpointError, match=f'x: {path} is a graph.*recover-config'):
        checkpoint_files.resolve_start(str(path), 'x')


def test_a_listed_checkpoint_that_was_deleted(folder):
    for path in folder.glob('model.ckpt-100*'):
        path.unlink()
    with pytest.raises(errors.CheckpointError, match=r'lists .*model.ckpt-100, which is not there'):
        checkpoint_files.latest_step(str(folder))


def test_the_newest_one_is_named_in_place_of_a_listed_one(tmp_path, save):
    for step in (0, 16):
        save(tmp_path, 'model.ckpt', step)
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-10"\n')
    with pytest.raises(errors.CheckpointError, match=r'newest one that is there is .*ckpt-16\.'):
        checkpoint_files.latest_checkpoint(str(tmp_path))


def test_folders_in_place_of_state_files(tmp_path, save):
    save(tmp_path, 'model.ckpt', 3)
    for name in ('checkpoint', 'metrics.json'):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).mkdir()
    assert state_files.read_state(str(tmp_path / 'metrics.json')) == {}
    with pytest.raises(errors.UserError, match='checkpoint is a folder, where a file is to be'):
        checkpoint_files.clean_temporary(str(tmp_path))
    assert not list(tmp_path.glob('*.partial'))


def test_a_copy_without_its_data_is_named(folder):
    (folder / 'model.ckpt-10.data-00000-of-00001').unlink()
    with pytest.raises(errors.CheckpointError, match='without its .data'):
        checkpoint_files.resolve_checkpoint(str(folder / 'model.ckpt-10'))


def test_a_copy_without_one_of_its_parts_is_named(folder):
    whole = folder / 'model.ckpt-10.data-00000-of-00001'
    whole.rename(folder / 'model.ckpt-10.data-00001-of-00002')
    with pytest.raises(errors.CheckpointError, match='lacks the file .*data-00000-of-00002'):
        checkpoint_files.resolve_checkpoint(str(folder / 'model.ckpt-10'))


def test_a_file_that_is_no_checkpoint(tmp_path):
    path = tmp_path / 'model.ckpt'
    path.write_bytes(b'no checkpoint at all')
    prefix = checkpoint_files.resolve_checkpoint(str(path))
    with pytest.raises(errors.CheckpointError, match='cannot be read as a checkpoint'):
        checkpoint_files.checkpoint_shapes(prefix)


def test_steps(folder, tmp_path, save):
    assert checkpoint_files.latest_step(str(folder)) == 100
    assert checkpoint_files.latest_step(str(folder / 'none')) == 0
    assert checkpoint_files.checkpoint_step('/x/model.ckpt-12') == 12
    assert checkpoint_files.checkpoint_step(save(tmp_path, 'model', value=31)) == 31


def test_the_step_of_a_checkpoint_without_one(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable('a', [])
        session.run(tf1.global_variables_initializer())
        prefix = tf1.train.Saver().save(session, str(tmp_path / 'published'))
    assert checkpoint_files.checkpoint_step(prefix) == 0


@pytest.mark.parametrize('value', [b'x', np.zeros([2], np.int64), np.float32('nan')])
def test_a_step_that_is_no_number_is_refused(tmp_path, value):
    prefix = tiny_task.save(tmp_path / 'published', {'global_step': value})
    with pytest.raises(errors.CheckpointError, match='published is corrupt: global_step in it is'):
        checkpoint_files.checkpoint_step(prefix)


def test_leftovers_of_a_killed_save_are_removed_and_nothing_else(folder):
    stay = {path.name for path in folder.iterdir()}
    stay |= {'model.ckpt-7_temporary', 'my_temp', 'other.ckpt-3_temp', 'checkpoint.tmp'}
    for name in ('model.ckpt-7_temporary', 'my_temp', 'other.ckpt-3_temp'):
        (folder / name).mkdir()
    (folder / 'checkpoint.tmp').write_text('mine')
    (folder / 'model.ckpt-101_temp').mkdir()
    (folder / 'model.ckpt-101_temp' / 'part-00000-of-00001.data-00000-of-00001').write_text('x')
    (folder / 'model.ckpt-101.data-00000-of-00001.tempstate123').write_text('x')
    (folder / ('checkpoint.tmp' + '0' * 32)).write_text('x')
    removed = checkpoint_files.clean_temporary(str(folder))
    assert len(removed) == 3
    assert {path.name for path in folder.iterdir()} == stay
    assert checkpoint_files.clean_temporary(str(folder)) == []


def test_cleaning_a_folder_that_is_not_there(tmp_path):
    assert checkpoint_files.clean_temporary(str(tmp_path / 'none')) == []


_SAVE_FOR_EVER = """
import sys
import tensorflow as tf
tf1 = tf.compat.v1
with tf.Graph().as_default(), tf1.Session() as session:
    for index in range(4):
        tf1.get_variable(f'v{index}', [4000000], initializer=tf1.zeros_initializer())
    session.run(tf1.global_variables_initializer())
    saver = tf1.train.Saver(sharded=True, save_relative_paths=True)
    step = 0
    while True:
        step += 1
        saver.save(session, sys.argv[1] + '/model.ckpt', global_step=step, write_meta_graph=False)
        print(step, flush=True)
"""


def test_a_really_killed_save_is_cleaned_up(tmp_path):
    process = subprocess.Popen(
        [sys.executable, '-c', _SAVE_FOR_EVER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    process.stdout.readline()
    while not list(tmp_path.glob('*_temp')):
        if process.poll() is not None:
            pytest.fail('the saving process ended by itself')
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    prefix = checkpoint_files.latest_checkpoint(str(tmp_path))
    checkpoint_files.clean_temporary(str(tmp_path))
    left = {path.name.split('.data')[0].split('.index')[0] for path in tmp_path.iterdir()}
    assert not any('temp' in name for name in left)
    assert os.path.basename(prefix) in left
    assert 'v0' in checkpoint_files.checkpoint_shapes(prefix)


def test_writing_atomically_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / 'state.json'
    for text in ('first', 'second'):
        checkpoint_files.write_atomically(str(path), text)
        assert path.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == ['state.json']


def test_a_failed_write_keeps_the_old_text(tmp_path, monkeypatch):
    path = tmp_path / 'state.json'
    path.write_text('old')

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.io.gfile, 'rename', killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint_files.write_atomically(str(path), 'new')
    assert path.read_text() == 'old'


def test_reading_json(tmp_path):
    path = tmp_path / 'state.json'
    assert state_files.read_json(str(path)) is None
    checkpoint_files.write_atomically(str(path), '{"step": 7, "name": "Größe"}')
    assert state_files.read_json(str(path)) == {'step': 7, 'name': 'Größe'}


@pytest.mark.parametrize(
    'content, problem',
    [
        (b'', 'is not JSON: Expecting value'),
        (b'{"step": 7', "is not JSON: Expecting ',' delimiter"),
        (b'\xff\xfe\xfd', 'is not JSON: '),
        (b'[' * 100_000, 'is not JSON: maximum recursion depth'),
        (b'[1]', 'has a JSON list; expected an object.'),
        (b'null', 'has a JSON NoneType; expected an object.'),
        (b'{"step": ' + b'9' * 5000 + b'}', 'is not JSON: it has an integer of 5000 characters.'),
        (b'{"loss": -1e400}', 'is not JSON: the number -1e400 is too large.'),
    ],
    ids=['empty', 'truncated', 'binary', 'deep', 'list', 'null', 'long', 'large'],
)
def test_json_that_is_no_object_is_an_error_that_names_the_file(tmp_path, content, problem):
    path = tmp_path / 'state.json'
    path.write_bytes(content)
    with pytest.raises(errors.DataError) as caught:
        state_files.read_json(str(path))
    assert str(caught.value).startswith(f'{path} {problem}')


def full_disk(text='model.ckpt-9.data; No space left on device [[{{node save/SaveV2}}]]'):
    return tf.errors.ResourceExhaustedError(None, None, text)


def test_a_checkpoint_that_cannot_be_written_names_folder_reason_and_last_good_one(save, tmp_path):
    last = save(tmp_path, 'model.ckpt', 7)
    with (
        pytest.raises(errors.CheckpointError) as caught,
        checkpoint_files.explained_write(str(tmp_path)),
    ):
        raise full_disk()
    assert f'model_dir {tmp_path}: No space left on device;' in str(caught.value)
    assert f'the last good one is {last}' in str(caught.value)
    assert 'node' not in str(caught.value)


def test_without_an_earlier_checkpoint_there_is_none_to_name(tmp_path):
    folder = str(tmp_path)
    with (
        pytest.raises(errors.CheckpointError, match='no earlier'),
        checkpoint_files.explained_write(folder),
    ):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_server_that_is_lost_while_saving_is_not_a_full_disk(tmp_path):
    for lost in (tf.errors.UnavailableError, tf.errors.FailedPreconditionError):
        with pytest.raises(lost), checkpoint_files.explained_write(str(tmp_path)):
            raise lost(None, None, 'failed to connect to all addresses')


def test_any_other_error_stays_what_it_is_when_the_disk_is_not_full(tmp_path):
    with (
        pytest.raises(tf.errors.DataLossError),
        checkpoint_files.explained_full_disk(str(tmp_path)),
    ):
        raise tf.errors.DataLossError(None, None, 'corrupted record at 12')
    with (
        pytest.raises(errors.UserError, match='No space left'),
        checkpoint_files.explained_full_disk(str(tmp_path)),
    ):
        raise full_disk()
    # What a writer of events raises for a file that may not grow.
    with (
        pytest.raises(errors.UserError, match='File too large'),
        checkpoint_files.explained_full_disk(str(tmp_path)),
    ):
        raise IndexError(f'{tmp_path}/events; File too large\n Failed to flush 2 events')
    with pytest.raises(IndexError), checkpoint_files.explained_full_disk(str(tmp_path)):
        raise IndexError('list index out of range')


def test_the_graph_of_a_save_that_found_no_space_is_removed(tmp_path):
    leftover = tmp_path / f'model.ckpt-7.meta.tmp{"a" * 32}'
    leftover.write_text('')
    assert checkpoint_files.clean_temporary(str(tmp_path)) == [leftover.name]


def unlisted(save, folder, later):
    """Create a folder with a listed and an unlisted checkpoint, the latter older or newer."""
    save(folder, 'model.ckpt', 1)
    listed = (folder / 'checkpoint').read_text()
    save(folder, 'model.ckpt', 2)
    (folder / 'checkpoint').write_text(listed)
    time = (folder / 'checkpoint').stat().st_mtime + (5 if later else -5)
    os.utime(folder / 'model.ckpt-2.index', (time, time))
    checkpoint_files.clean_temporary(str(folder))
    return tf.train.get_checkpoint_state(str(folder))


def test_a_whole_checkpoint_whose_save_was_killed_before_it_was_listed_is_listed(save, tmp_path):
    state = unlisted(save, tmp_path, later=True)
    assert state.model_checkpoint_path == str(tmp_path / 'model.ckpt-2')
    assert list(state.all_model_checkpoint_paths)[-2:] == [
        str(tmp_path / 'model.ckpt-1'),
        str(tmp_path / 'model.ckpt-2'),
    ]
    assert str(tmp_path) not in (tmp_path / 'checkpoint').read_text()  # it may be moved


def test_who_changes_the_list_by_hand_goes_back(save, tmp_path):
    state = unlisted(save, tmp_path, later=False)
    assert state.model_checkpoint_path == str(tmp_path / 'model.ckpt-1')


@pytest.mark.parametrize('content', [None, b'', b'no list', b'\xff\xfe\x00'])
def test_without_a_list_that_can_be_read_the_newest_whole_checkpoint_is_the_latest(
    save, tmp_path, content, caplog
):
    for step in (9, 10, 11):
        save(tmp_path, 'model.ckpt', step)
    (tmp_path / 'model.ckpt-11.data-00000-of-00001').unlink()
    (tmp_path / 'checkpoint').unlink()
    if content is not None:
        (tmp_path / 'checkpoint').write_bytes(content)
    assert checkpoint_files.latest_checkpoint(str(tmp_path)) is None
    checkpoint_files.clean_temporary(str(tmp_path))
    latest = str(tmp_path / 'model.ckpt-10')
    assert checkpoint_files.latest_checkpoint(str(tmp_path)) == latest
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == [str(tmp_path / 'model.ckpt-9'), latest]
    assert f'missing or cannot be read; {latest} is the newest whole checkpoint' in caplog.text


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_copy_takes_the_place_of_the_one_before(save, tmp_path):
    best = tmp_path / 'best'
    parts = ['data-00000-of-00001', 'index', 'meta']
    for step in (1, 12):
        save(tmp_path, 'model.ckpt', step, value=step)
        copy = checkpoint_files.keep_copy(str(tmp_path / f'model.ckpt-{step}'), str(best))
        assert copy == checkpoint_files.resolve_checkpoint(str(best))
        assert files_in(best) == ['checkpoint', *(f'model.ckpt-{step}.{one}' for one in parts)]
        assert tf.train.load_variable(str(best), 'global_step') == step


@pytest.mark.parametrize('survives', range(8))
def test_a_copy_that_is_killed_leaves_the_one_before_or_itself(
    save, tmp_path, monkeypatch, survives
):
    """Kill a copy at each of the moments between two changes of the folder."""
    for step in (1, 2):
        save(tmp_path, 'model.ckpt', step, value=step)
    best = str(tmp_path / 'best')
    checkpoint_files.keep_copy(str(tmp_path / 'model.ckpt-1'), best)
    left = [survives]

    def mortal(function):
        def call(*arguments, **options):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return function(*arguments, **options)

        return call

    for name in ('copy', 'rename', 'remove'):
        monkeypatch.setattr(tf.io.gfile, name, mortal(getattr(tf.io.gfile, name)))
    with pytest.raises(KeyboardInterrupt):
        checkpoint_files.keep_copy(str(tmp_path / 'model.ckpt-2'), best)
    # Three files are copied and renamed, and then the list is.
    expected = 1 if survives < 7 else 2
    assert tf.train.load_variable(checkpoint_files.resolve_checkpoint(best), 'global_step') == (
        expected
    )
    left[0] = 100
    checkpoint_files.keep_copy(str(tmp_path / 'model.ckpt-2'), best)
    assert len(files_in(tmp_path / 'best')) == 4


def test_an_index_that_has_lost_its_middle_is_named(save, tmp_path):
    """Cut an index so that its end points beyond the file: TensorFlow raises "out of range"."""
    prefix = save(tmp_path, 'model.ckpt-1')
    index = tmp_path / 'model.ckpt-1.index'
    whole = index.read_bytes()
    index.write_bytes(whole[:8] + whole[-48:])
    with pytest.raises(errors.CheckpointError, match='ckpt-1 cannot be read as a checkpoint: '):
        checkpoint_files.checkpoint_shapes(prefix)
