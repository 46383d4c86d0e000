import re

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from estimator_lib import errors
from model_fns.structures import label_map as label_map_lib
from model_fns.structures.label_map import LabelMap, LabelMapItem

tf1 = tf.compat.v1

PETS = """
item { id: 2 name: '/m/02' display_name: 'dog' }
item { id: 1 name: '/m/01' display_name: 'cat' }
item { id: 5 name: 'parrot' }
"""


def test_reads_names_and_display_names_in_the_order_of_ids():
    pets = LabelMap.parse(PETS)
    assert [item.id for item in pets.items] == [1, 2, 5]
    assert [item.name for item in pets.items] == ['/m/01', '/m/02', 'parrot']
    assert pets.names == {1: 'cat', 2: 'dog', 5: 'parrot'}
    assert pets.max_id == 5


def test_index_and_id_differ_by_one():
    pets = LabelMap.parse(PETS)
    assert pets.index(1) == 0
    assert pets.index(5) == 4
    assert pets.id(4) == 5
    with pytest.raises(errors.DataError, match='no item has id 3'):
        pets.index(3)
    with pytest.raises(errors.DataError, match='no item has id 0'):
        pets.id(-1)
    np.testing.assert_array_equal(label_map_lib.to_index(np.array([1, 5])), [0, 4])
    np.testing.assert_array_equal(label_map_lib.to_id(np.array([0, 4])), [1, 5])


def test_id_of_name():
    pets = LabelMap.parse(PETS)
    assert pets.id_of_name('/m/02') == 2
    assert pets.id_of_name('dog') == 2
    assert 'dog' in pets and '/m/02' in pets and 'parot' not in pets
    with pytest.raises(errors.DataError, match="'parot'; did you mean 'parrot'"):
        pets.id_of_name('parot')


@pytest.mark.parametrize(
    'text, message',
    [
        ("item { id: 0 name: 'none' }", "file.pbtxt: item 'none' has id 0"),
        ("item { id: -3 name: 'none' }", "item 'none' has the negative id -3"),
        ("item { name: 'cat' }", "item 'cat' has no id"),
        (
            f"item {{ id: 1 name: '{'x' * 100_000}' }}",
            r'of id 1 has 100000 letters; expected at mo',
        ),
        ('item { id: 4 }', 'id 4 has neither a name nor a display_name'),
        (
            "item { id: 1 name: 'cat' } item { id: 1 name: 'dog' }",
            "items 'cat' and 'dog' both have id 1",
        ),
        (
            "item { id: 1 name: 'cat' } item { id: 3 name: 'cat' }",
            "two items have the name 'cat': ids 1 and 3",
        ),
        ('', 'file.pbtxt: the label map has no items'),
        (
            "item {\n  idd: 1\n  name: 'cat' }",
            "file.pbtxt:2:3: in item.0: .*no field 'idd'; did you mean 'id'",
        ),
        ("item { id: 1 name: 'cat'", 'file.pbtxt:1:25: .*the brace opened on line 1'),
        ('item {\n  id: 1\n  name: “cat” }', 'file.pbtxt:3:9: .*typographic'),
        ("item { id = 1 name: 'cat' }", 'Fields are set with ":", not with "="'),
        ('{"item": []}', "looks like JSON(.|\n)*item { id: 1 name: 'cat' }"),
    ],
)
def test_what_is_not_a_label_map_is_named(text, message):
    with pytest.raises(errors.DataError, match=message):
        LabelMap.parse(text, 'file.pbtxt')


@pytest.mark.parametrize(
    'fields',
    [
        "name: 'background'",
        "name: 'none' display_name: 'background'",
        "name: 'none_of_the_above'",  # of the pets of 2017
        "name: '__Background__'",
    ],
)
def test_an_item_of_the_background_is_left_out(fields):
    parsed = LabelMap.parse(f"item {{ id: 0 {fields} }} item {{ id: 1 name: 'cat' }}")
    assert parsed.names == {1: 'cat'}
    assert 'background' not in parsed


def test_classes_from_0():
    text = "item { id: 0 name: 'background' } item { id: 1 name: 'cat' }"
    assert LabelMap.parse(text, first_id=0).names == {0: 'background', 1: 'cat'}
    with pytest.raises(errors.DataError, match='negative id -1; ids start at 0'):
        LabelMap.parse("item { id: -1 name: 'cat' }", first_id=0)
    with pytest.raises(errors.DataError, match='num_classes 1; ids must be from 0 to 0'):
        LabelMap.parse(text, first_id=0).check_num_classes(1)


def test_lines_of_ids_and_names():
    parsed = LabelMap.parse('0:daisy\n1: sun flower\n\n', first_id=0)
    assert parsed.names == {0: 'daisy', 1: 'sun flower'}
    with pytest.raises(errors.DataError, match="'daisy' has id 0, which is the background"):
        LabelMap.parse('0:daisy\n1:rose')


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / 'map.pbtxt'
    path.write_bytes("item { id: 1 name: 'cat' }".encode('utf-8-sig'))
    assert LabelMap.read(str(path)).names == {1: 'cat'}


def test_ids_beyond_num_classes_are_named(tmp_path):
    path = tmp_path / 'pets.pbtxt'
    path.write_text(PETS)
    assert LabelMap.read(path, num_classes=5).max_id == 5
    with pytest.raises(errors.DataError, match=r"pets\.pbtxt: item 'parrot' has id 5, .* 4"):
        LabelMap.read(path, num_classes=4)


def test_classes_without_an_id_are_warned_of(caplog):
    label_map = LabelMap.from_names(['cat', 'dog'])
    label_map.check_num_classes(2)
    assert not caplog.records
    label_map.check_num_classes(5)
    assert 'the largest id is 2, but the model has num_classes 5;' in caplog.text


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(errors.DataError, match='no_such_file'):
        LabelMap.read(tmp_path / 'no_such_file')
    binary = tmp_path / 'binary'
    binary.write_bytes(b'\xff\xfe\x00')
    with pytest.raises(errors.DataError, match='binary: the label map cannot be read'):
        LabelMap.read(binary)


def test_write_and_read(tmp_path):
    classes = LabelMap(
        (
            LabelMapItem(1, "it's", 'Größe "XL"', keypoints=((0, 'nose'), (4, 'tail'))),
            LabelMapItem(7, 'b', 'b', ancestor_ids=(1,), descendant_ids=(8, 9)),
            LabelMapItem(8, 'c', 'c', frequency=2, instance_count=0),
        )
    )
    path = tmp_path / 'new' / 'folder' / 'label_map.pbtxt'
    classes.write(path)
    assert LabelMap.read(path) == classes
    assert [entry.name for entry in path.parent.iterdir()] == ['label_map.pbtxt']


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(errors.UserError, match=re.escape(f'{tmp_path} is a folder')):
        LabelMap.from_names(['cat']).write(tmp_path)
    assert not list(tmp_path.parent.glob(f'{tmp_path.name}.*'))


@hypothesis.given(
    strategies.lists(
        strategies.text(min_size=1).filter(lambda name: name.isprintable()),
        min_size=1,
        max_size=20,
        unique=True,
    )
)
@hypothesis.settings(max_examples=30, deadline=None)
def test_any_names_survive_a_file(tmp_path_factory, names):
    path = tmp_path_factory.mktemp('names') / 'label_map.pbtxt'
    LabelMap.from_names(names).write(path)
    read = LabelMap.read(path)
    assert list(read.names.values()) == names
    assert [read.index(item.id) for item in read.items] == list(range(len(names)))


def test_names_are_looked_up_in_the_graph():
    pets = LabelMap.parse(PETS)
    with tf.Graph().as_default(), tf1.Session() as session:
        names = tf.constant([['/m/02', 'dog'], ['parrot', '']])
        by_name = pets.lookup(names)
        by_display_name = pets.lookup(names, use_display_name=True)
        session.run(tf1.tables_initializer())
        assert session.run(by_name).tolist() == [[2, 2], [5, -1]]
        assert session.run(by_display_name).tolist() == [[2, 2], [5, -1]]


def test_which_names_come_first():
    # The display name of each is the name of the other.
    crossed = LabelMap((LabelMapItem(1, 'a', 'b'), LabelMapItem(2, 'b', 'a')))
    both = LabelMap((LabelMapItem(1, 'a', 'same'), LabelMapItem(2, 'b', 'same')))
    with tf.Graph().as_default(), tf1.Session() as session:
        names = tf.constant(['a', 'b'])
        by_name, by_display_name = crossed.lookup(names), crossed.lookup(names, True)
        ambiguous = both.lookup(tf.constant(['b', 'same']))
        session.run(tf1.tables_initializer())
        assert session.run(by_name).tolist() == [1, 2]
        assert session.run(by_display_name).tolist() == [2, 1]
        assert session.run(ambiguous).tolist() == [2, -1]


def test_names_are_looked_up_in_an_input_pipeline():
    pets = LabelMap.parse(PETS)
    with tf.Graph().as_default(), tf1.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices(['/m/01', 'parrot']).map(pets.lookup)
        iterator = tf1.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
        session.run(tf1.tables_initializer())
        session.run(iterator.initializer)
        assert [session.run(following) for _ in range(2)] == [1, 5]


def test_a_display_name_of_two_items_cannot_be_looked_up():
    classes = LabelMap((LabelMapItem(1, 'a', 'same'), LabelMapItem(2, 'b', 'same')))
    with tf.Graph().as_default(), pytest.raises(errors.DataError, match=r"ids 1 and 2 .*'same'"):
        classes.lookup(tf.constant('same'), use_display_name=True)


def test_metrics_of_a_class_get_its_name():
    names = ['cat', '1', 'frog']
    titles = {
        'accuracy_class_2': 'accuracy_class_2 (frog)',
        'accuracy_class_1': 'accuracy_class_1',
        'accuracy_class_3': 'accuracy_class_3',
        'miou_1.0_class_0': 'miou_1.0_class_0 (cat)',
        'accuracy': 'accuracy',
    }
    assert {one: label_map_lib.with_class_name(one, names) for one in titles} == titles


@pytest.mark.parametrize('digits', ['2147483648', '9' * 12, '9' * 5000])
def test_ids_that_no_field_holds_are_refused(digits):
    with pytest.raises(errors.DataError):
        LabelMap.parse(f'{digits}: cat')


def test_shown_names_have_no_control_characters():
    label_map = LabelMap.from_names(['a\nb', 'c\x1b[2J'])
    assert label_map.names == {1: 'a\\nb', 2: 'c\\x1b[2J'}
    # Records have the names as they are.
    assert label_map.id_of_name('a\nb') == 1 and 'c\x1b[2J' in label_map
