"""Which files of class names a config means."""

import logging

import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.structures import label_map_files
from model_fns.structures.label_map import LabelMap
from protos import pipeline_pb2
from tests.model_fns.structures.test_label_map import PETS

tf1 = tf.compat.v1


def config_of(tmp_path, *texts):
    """A config whose readers have label maps of these texts; None for a reader without one."""
    config = pipeline_pb2.TrainEvalPipelineConfig()
    readers = [config.train_input_reader, *(config.eval_input_reader.add() for _ in texts[1:])]
    for number, (reader, text) in enumerate(zip(readers, texts)):
        if text is not None:
            (tmp_path / f'{number}.pbtxt').write_text(text)
            reader.label_map_path = str(tmp_path / f'{number}.pbtxt')
    return config


def test_a_config_without_label_maps_has_none(tmp_path):
    assert label_map_files.read_label_maps(config_of(tmp_path)) is None
    assert label_map_files.read_label_maps(config_of(tmp_path, None, None)) is None


def test_the_label_map_of_an_evaluation_is_that_of_the_config_where_training_has_none(tmp_path):
    assert label_map_files.read_label_maps(config_of(tmp_path, None, PETS)) == LabelMap.parse(PETS)


def test_a_label_map_for_each_reader(tmp_path):
    config = config_of(
        tmp_path,
        PETS,
        "item { id: 1 name: 'Katze' } item { id: 3 name: 'cow' }",
        "item { id: 2 name: 'dog' display_name: 'Hund' }",
    )
    classes = label_map_files.read_label_maps(config)
    assert classes.names == {1: 'cat', 2: 'dog', 3: 'cow', 5: 'parrot'}
    assert classes.path == str(tmp_path / '0.pbtxt')
    assert classes.id_of_name('Katze') == 1 and 'Hund' in classes and 'Pferd' not in classes
    for use_display_name in (False, True):
        with tf.Graph().as_default(), tf1.Session() as session:
            names = tf.constant(['/m/01', 'Katze', 'dog', 'Hund', 'cow', 'Pferd'])
            ids = classes.lookup(names, use_display_name)
            session.run(tf1.tables_initializer())
            assert session.run(ids).tolist() == [1, 1, 2, 2, 3, -1]


def test_a_name_that_two_items_display_is_still_nobodys(tmp_path):
    same = "item { id: 1 name: 'a' display_name: 'x' } item { id: 2 name: 'b' display_name: 'x' }"
    classes = label_map_files.read_label_maps(config_of(tmp_path, same, "item { id: 1 name: 'x' }"))
    with tf.Graph().as_default(), tf1.Session() as session:
        ids = classes.lookup(tf.constant(['a', 'b', 'x']))
        session.run(tf1.tables_initializer())
        assert session.run(ids).tolist() == [1, 2, -1]


@pytest.mark.parametrize(
    'other',
    ["item { id: 3 name: 'dog' }", "item { id: 3 name: '/m/09' display_name: 'dog' }"],
)
def test_label_maps_that_contradict_each_other_are_refused(tmp_path, other):
    config = config_of(tmp_path, PETS, other)
    with pytest.raises(errors.DataError) as caught:
        label_map_files.read_label_maps(config)
    assert str(caught.value) == (
        f"{tmp_path}/1.pbtxt: 'dog' has id 3, and in {tmp_path}/0.pbtxt it has id 2; the readers "
        'of a config give a class one id.'
    )


def test_the_classes_of_each_reader_are_within_the_model(tmp_path):
    config = config_of(tmp_path, "item { id: 1 name: 'cat' }", PETS)
    with pytest.raises(errors.DataError, match=r"1\.pbtxt: item 'parrot' has id 5, but the model"):
        label_map_files.read_label_maps(config, num_classes=2)


def test_a_label_map_is_saved_as_text_and_read_back():
    pets = LabelMap.parse(PETS)
    (text,) = label_map_files.asset_files(pets).values()
    assert LabelMap.parse(text) == pets
    assert label_map_files.asset_files(None) == {}


def localized(tmp_path, only_names, train='train.pbtxt', evaluation='eval.pbtxt'):
    """The label maps of the readers after `localize`, by the names of their files."""
    config = pipeline_pb2.TrainEvalPipelineConfig()
    if train:
        config.train_input_reader.label_map_path = str(tmp_path / train)
    config.eval_input_reader.add().label_map_path = str(tmp_path / evaluation)
    label_map_files.localize(config, ['', str(tmp_path / 'saved')], only_names)
    assert config.HasField('train_input_reader') == bool(train)
    readers = [config.train_input_reader, *config.eval_input_reader]
    return [reader.label_map_path.replace(str(tmp_path), '').strip('/') for reader in readers]


def test_label_maps_that_are_gone_are_taken_from_where_the_model_is(tmp_path):
    copy = 'saved/label_map.pbtxt'
    (tmp_path / 'eval.pbtxt').write_text(PETS)
    # Without a copy: no names at worst, but records cannot be decoded without theirs.
    assert localized(tmp_path, True) == ['', 'eval.pbtxt']
    assert localized(tmp_path, False) == ['', 'eval.pbtxt']
    assert localized(tmp_path, False, evaluation='gone') == ['', 'gone']
    (tmp_path / 'saved').mkdir()
    (tmp_path / copy).write_text(PETS)
    # Names come from the copy; to decode records, the file that the reader names is better.
    assert localized(tmp_path, True) == [copy, copy]
    assert localized(tmp_path, False) == [copy, 'eval.pbtxt']
    assert localized(tmp_path, False, train='') == ['', 'eval.pbtxt']


def beside(tmp_path, text, ids=range(0, 3), **reader):
    """The names that are found beside the records of a config, where the text lies."""
    folder = tmp_path / 'records'
    folder.mkdir(exist_ok=True)
    if text is not None:
        (folder / 'labels.txt').write_text(text)
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_input_reader.tf_record_input_reader.input_path.append(f'{folder}/train-*')
    config.eval_input_reader.add(**reader)
    found = label_map_files.read_labels_file(config, ids)
    return found and found.names


FLOWERS = '0:daisy\n1:rose\n2:tulip\n'


def test_lines_beside_the_records_name_the_classes(tmp_path):
    assert beside(tmp_path, None) is None
    assert beside(tmp_path, FLOWERS) == {0: 'daisy', 1: 'rose', 2: 'tulip'}
    # Fewer names than classes are names.
    assert beside(tmp_path, '1:rose\n2:tulip\n', range(1, 9)) == {1: 'rose', 2: 'tulip'}
    # Who names a label map means no other.
    assert beside(tmp_path, FLOWERS, label_map_path='other.pbtxt') is None


@pytest.mark.parametrize(
    ('text', 'ids', 'expected'),
    [
        (FLOWERS, range(0, 2), 'id 2 is not one of 0 to 1'),
        (FLOWERS, range(1, 4), 'id 0'),
        ('a picture of a flower\n', range(0, 3), 'labels.txt:1'),
        ('', range(0, 3), 'no items'),
        ('0:daisy\n0:rose\n', range(0, 3), 'both have id 0'),
    ],
)
def test_lines_that_do_not_fit_are_passed_over(tmp_path, caplog, text, ids, expected):
    with caplog.at_level(logging.WARNING, 'model_fns'):
        assert beside(tmp_path, text, ids) is None
    (said,) = caplog.messages
    assert 'does not name the classes' in said and expected in said


def test_names_from_beside_the_records_are_found_where_the_model_is(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.eval_input_reader.add()
    label_map_files.localize(config, [str(tmp_path)], only_names=True)
    assert not config.HasField('train_input_reader')
    (tmp_path / label_map_files.FILE).write_text(PETS)
    label_map_files.localize(config, [str(tmp_path)], only_names=True)
    assert config.train_input_reader.label_map_path == str(tmp_path / label_map_files.FILE)


def test_all_label_maps_that_cannot_be_read_are_told_by_their_fields(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_input_reader.label_map_path = str(tmp_path / 'a.pbtxt')
    for name in ('a.pbtxt', 'b.pbtxt'):
        config.eval_input_reader.add().label_map_path = str(tmp_path / name)
    with pytest.raises(errors.DataError) as caught:
        label_map_files.read_label_maps(config)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f'train_input_reader.label_map_path: {tmp_path}/a.pbtxt: the label map')
    assert second.startswith(f'eval_input_reader.1.label_map_path: {tmp_path}/b.pbtxt: the label')
