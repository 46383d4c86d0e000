import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.task import IMAGE, SOURCE_ID
from model_fns.classification import inputs
from model_fns.datasets import codecs
from model_fns.structures.label_map import LabelMap

PIXELS = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


def record(label=None, *more, text=None, source_id='', filename='', encoded=None):
    example = tf.train.Example()
    feature = example.features.feature
    content = codecs.encode_png(PIXELS) if encoded is None else encoded
    feature['image/encoded'].bytes_list.value.append(content)
    if label is not None:
        feature['image/class/label'].int64_list.value.extend([label, *more])
    for key, value in (
        ('image/class/text', text),
        ('image/source_id', source_id),
        ('image/filename', filename),
    ):
        if value:
            feature[key].bytes_list.value.append(value.encode())
    return example.SerializeToString()


def decode(serialized, num_classes=3, offset=1, label_map=None, **limits):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        record = tf.constant(serialized)
        example = inputs.decode(record, num_classes, offset, label_map, **limits)
        session.run(tf.compat.v1.tables_initializer())
        return session.run(example)


@pytest.mark.parametrize('label, offset, index', [(1, 1, 0), (3, 1, 2), (0, 0, 0), (2, 0, 2)])
def test_the_offset_is_the_label_of_logit_0(label, offset, index):
    example = decode(record(label), offset=offset)
    assert example[inputs.LABEL] == index
    np.testing.assert_array_equal(example[IMAGE], PIXELS)


@pytest.mark.parametrize('label, offset', [(0, 1), (4, 1), (3, 0), (-1, 0)])
def test_a_label_outside_the_range_fails_with_its_value(label, offset):
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf'image/class/label is.*{label}'):
        decode(record(label), offset=offset)


def test_names_stand_in_for_missing_labels():
    label_map = LabelMap.from_names(['red', 'green', 'blue'])
    assert decode(record(text='blue'), label_map=label_map)[inputs.LABEL] == 2
    assert decode(record(1, text='blue'), label_map=label_map)[inputs.LABEL] == 0


@pytest.mark.parametrize(
    'source_id, filename, expected', [('7', 'a.png', b'7'), ('', 'a.png', b'a.png')]
)
def test_examples_are_known_by_id_or_file_name(source_id, filename, expected):
    assert decode(record(1, source_id=source_id, filename=filename))[SOURCE_ID] == expected


def test_split_parts_what_goes_in_from_what_should_come_out():
    features, labels = inputs.split({IMAGE: 1, SOURCE_ID: 2, inputs.LABEL: 3})
    assert features == {IMAGE: 1, SOURCE_ID: 2} and labels == {inputs.LABEL: 3}


@pytest.mark.parametrize(
    'serialized, expected',
    [
        (record(2), None),
        (b'nonsense', 'not a tf.train.Example'),
        (record(4), 'image/class/label is 4; expected 1 to 3'),
        (record(2, 3), 'image/class/label has 2 values (2, 3); expected one'),
        (
            record(*range(12)),
            f'image/class/label has 12 values ({", ".join("0123456789")}, ..); expected one',
        ),
        (record(), 'no image/class/label'),
        (tf.train.Example().SerializeToString(), 'no image/encoded'),
    ],
)
def test_problems_are_found_without_a_graph(serialized, expected):
    assert inputs.find_problem(serialized, 3, 1) == expected


@pytest.mark.parametrize(
    'label, offset, hint',
    [
        (3, 0, '; for labels that start at 1 set model.classification.labels_offset: 1'),
        (0, 1, '; for labels that start at 0 set model.classification.labels_offset: 0'),
        (4, 0, ''),
        (-1, 0, ''),
        (9, 1, ''),
    ],
)
def test_labels_that_start_elsewhere_name_the_offset(label, offset, hint):
    expected = f'image/class/label is {label}; expected {offset} to {offset + 2}{hint}'
    assert inputs.find_problem(record(label), 3, offset) == expected


def test_a_record_with_two_labels_does_not_decode():
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(record(1, 2))


def test_an_unknown_class_name_is_a_problem():
    label_map = LabelMap.from_names(['red'])
    assert inputs.find_problem(record(text='red'), 1, 1, label_map) is None
    assert inputs.find_problem(record(text='rad'), 1, 1, label_map) == "unknown class 'rad'"


def test_an_image_of_too_many_pixels_is_not_decoded():
    assert decode(record(1), max_pixels=20)[IMAGE].shape == (4, 5, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match='the image has 20 pixels'):
        decode(record(1), max_pixels=19)


@pytest.mark.parametrize(('parts', 'expected'), [({'label': 3}, 3), ({'text': 'green'}, 2)])
def test_the_class_of_a_record(parts, expected):
    label_map = LabelMap.from_names(['red', 'green', 'blue'])
    assert inputs.class_id(record(**parts), label_map) == expected


def test_a_class_name_of_other_bytes_than_text_is_unknown():
    content = record(text='name').replace(b'name', b'n\xff\xfee')
    label_map = LabelMap.from_names(['red', 'green', 'blue'])
    assert inputs.find_problem(content, 3, 1, label_map) == "unknown class 'n\ufffd\ufffde'"


def issues_of(*records, num_classes=3, offset=1):
    annotated = [inputs.annotate(each)._replace(digest=str(n)) for n, each in enumerate(records)]
    return [str(issue) for issue in inputs.find_issues(annotated, num_classes, offset)]


def test_labels_that_begin_elsewhere_name_the_field():
    records = [record(label, source_id=f'{label}.png') for label in (0, 1, 2, 1)]
    assert issues_of(*records[:3]) == [
        '1 of 3 labels have the label 0: labels start at 0, it seems; expected 1 to 3. Set '
        'model.classification.labels_offset: 0 (first: 0.png)'
    ]
    assert issues_of(*records[:3], offset=0) == []
    (issue,) = issues_of(record(1), record(2), record(3), offset=0)
    assert 'labels start at 1, it seems; expected 0 to 2. Set' in issue
    assert issues_of(record(-1, text='red'), record(0), offset=0) == []
    assert inputs.annotate(b'no example') is None


def test_repeated_source_ids_of_classified_images():
    records = [record(1, source_id='a'), record(2, source_id='a'), record(2), record(1)]
    assert issues_of(*records) == [
        '1 of 4 images have the source id of an image before them (first: a)'
    ]
