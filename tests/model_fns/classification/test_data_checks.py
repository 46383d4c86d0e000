"""Checks of the records of classified images."""

import pytest
import tensorflow as tf

from model_fns.classification.data_checks import ClassificationChecks
from model_fns.structures.label_map import LabelMap
from tests.model_fns.classification.test_inputs import record


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
    assert ClassificationChecks(3, 1).check_example(serialized) == expected


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
    assert ClassificationChecks(3, offset).check_example(record(label)) == expected


def test_an_unknown_class_name_is_a_problem():
    label_map = LabelMap.from_names(['red'])
    checks = ClassificationChecks(1, 1, label_map)
    assert checks.check_example(record(text='red')) is None
    assert checks.check_example(record(text='rad')) == "unknown class 'rad'"


@pytest.mark.parametrize(('parts', 'expected'), [({'label': 3}, 3), ({'text': 'green'}, 2)])
def test_the_class_of_a_record(parts, expected):
    label_map = LabelMap.from_names(['red', 'green', 'blue'])
    assert list(ClassificationChecks(3, 1, label_map).list_classes(record(**parts))) == [expected]


def test_a_class_name_of_other_bytes_than_text_is_unknown():
    content = record(text='name').replace(b'name', b'n\xff\xfee')
    label_map = LabelMap.from_names(['red', 'green', 'blue'])
    checks = ClassificationChecks(3, 1, label_map)
    assert checks.check_example(content) == "unknown class 'n\ufffd\ufffde'"


def issues_of(*records, num_classes=3, offset=1):
    checks = ClassificationChecks(num_classes, offset)
    annotated = [checks.annotate(each)._replace(digest=str(n)) for n, each in enumerate(records)]
    return [str(issue) for issue in checks.find_issues(annotated)]


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
    assert ClassificationChecks(3, 0).annotate(b'no example') is None


def test_repeated_source_ids_of_classified_images():
    records = [record(1, source_id='a'), record(2, source_id='a'), record(2), record(1)]
    assert issues_of(*records) == [
        '1 of 4 images have the source id of an image before them (first: a)'
    ]
