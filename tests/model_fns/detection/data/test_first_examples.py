import pytest

from estimator_lib import errors
from model_fns.detection.data import first_examples
from model_fns.detection.data.inputs import Reader
from model_fns.structures.label_map import LabelMap
from tests.model_fns.detection.records import record

BOX = [0.1, 0.2, 0.5, 0.6]
BY_ID = Reader(num_classes=2)
BY_NAME = Reader(num_classes=2, label_map=LabelMap.from_names(['cat', 'dog']))


def named(*texts):
    return record(boxes=[BOX] * len(texts), labels=[], texts=texts)


def numbered(*labels):
    return record(boxes=[BOX] * len(labels), labels=list(labels))


@pytest.mark.parametrize(
    ('reader', 'records'),
    [
        (BY_ID, []),
        (BY_ID, [numbered(1, 2), numbered()]),
        (BY_ID, [record(boxes=[BOX], labels=[1], texts=['fox'])]),
        (BY_NAME, [named('dog', 'cat')]),
        (BY_NAME, [numbered(2)]),
    ],
)
def test_nothing_is_said_of_boxes_of_known_classes(reader, records):
    assert first_examples.check(records, True, reader) == []


def test_boxes_that_are_left_out_are_counted():
    records = [named('dog', 'fox'), named('fox', 'owl'), b'not an example']
    assert first_examples.check(records, False, BY_NAME) == [
        'train_input_reader: the first 3 examples have 4 boxes, and 3 of them are left out, '
        "because the model has no such classes: 'fox' (2), 'owl' (1)"
    ]


@pytest.mark.parametrize(
    ('reader', 'records', 'message'),
    [
        (
            BY_NAME,
            [named('Dog', 'Dog')],
            r"no such classes: 'Dog' \(2\); expected those of the label map: 'cat', 'dog'\.$",
        ),
        (
            BY_ID,
            [numbered(0, 3)],
            r'no such classes: 0 \(1\), 3 \(1\); expected ids from 1 to 2\.$',
        ),
        (BY_ID, [numbered(), numbered()], 'the 2 examples have no boxes: there is nothing to lear'),
    ],
)
def test_examples_that_teach_nothing_are_refused(reader, records, message):
    with pytest.raises(errors.DataError, match=message):
        first_examples.check(records, True, reader)


def test_examples_without_boxes_may_be_followed_by_others():
    (warning,) = first_examples.check([numbered()], False, BY_ID)
    assert warning == 'train_input_reader: the first 1 examples have no boxes'
