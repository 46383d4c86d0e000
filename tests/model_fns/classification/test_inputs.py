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


def test_a_record_with_two_labels_does_not_decode():
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(record(1, 2))


def test_an_image_of_too_many_pixels_is_not_decoded():
    assert decode(record(1), max_pixels=20)[IMAGE].shape == (4, 5, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match='the image has 20 pixels'):
        decode(record(1), max_pixels=19)
