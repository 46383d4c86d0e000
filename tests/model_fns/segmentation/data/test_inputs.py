import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import codecs
from model_fns.segmentation import fields
from model_fns.segmentation.data import inputs
from tests.model_fns.datasets.id_files import png
from tests.model_fns.segmentation.segmentation_records import CLASSES, INSTANCES, record

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def decode():
    """Decode with 3 classes and ignore label 255, with or without instances."""
    with tf.Graph().as_default():
        serialized = tf1.placeholder(tf.string, [])
        decoded = {flag: inputs.decode(serialized, 3, 255, flag) for flag in (False, True)}
        session = tf1.Session()
    return lambda content, flag=False: session.run(decoded[flag], {serialized: content})


def test_a_record_with_instances(decode):
    example = decode(record(source_id='7', filename='a.png'), True)
    assert sorted(example) == sorted(
        [fields.IMAGE, fields.SEMANTIC, fields.INSTANCES, fields.TRUE_IMAGE_SHAPE, fields.SOURCE_ID]
    )
    np.testing.assert_array_equal(example[fields.IMAGE].ravel(), np.arange(36))
    np.testing.assert_array_equal(example[fields.SEMANTIC], CLASSES)
    np.testing.assert_array_equal(example[fields.INSTANCES], INSTANCES)
    np.testing.assert_array_equal(example[fields.TRUE_IMAGE_SHAPE], [3, 4, 3])
    assert example[fields.SOURCE_ID] == b'7'
    assert example[fields.IMAGE].dtype == np.uint8
    assert example[fields.SEMANTIC].dtype == np.int32


def test_instances_are_read_only_when_asked_for(decode):
    content = record(instances=None, filename='a.png')
    example = decode(content)
    assert fields.INSTANCES not in example
    assert example[fields.SOURCE_ID] == b'a.png'
    assert inputs.find_problem(content) is None
    with pytest.raises(tf.errors.InvalidArgumentError, match='image/segmentation/instance/encoded'):
        decode(content, True)
    assert inputs.find_problem(content, True) == 'no image/segmentation/instance/encoded'


def message_of(error):
    return errors.plain_message(error.value)


def test_values_that_are_no_class_are_named_with_the_source(decode):
    classes = CLASSES.copy()
    classes[1] = [9, 3, 200, 9]
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(record(classes=classes, source_id='photo 5'))
    assert message_of(error) == (
        'photo 5: image/segmentation/class/encoded has the values 3, 9, 200; expected classes from '
        '0 to 2, or 255 for what is ignored'
    )


def test_255_is_ignored_with_every_ignore_label():
    classes = CLASSES.copy()
    classes[1] = [11, 255, 0, 1]
    content = record(classes=classes, source_id='photo 5')
    with tf.Graph().as_default(), tf1.Session() as session:
        decoded = session.run(inputs.decode(tf.constant(content), 3, 11)[fields.SEMANTIC])
    np.testing.assert_array_equal(decoded[1], [11, 11, 0, 1])
    assert inputs.list_classes(content, 3, 11) == sorted(set(classes.ravel()) - {11, 255})


def test_sizes_that_differ(decode):
    content = record(image=np.zeros([4, 4, 3], np.uint8), filename='a.png')
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(content)
    assert message_of(error) == (
        'a.png: image/segmentation/class/encoded has 3 x 4 pixels; the image has 4 x 4'
    )
    assert inputs.find_problem(content) == (
        'image/segmentation/class/encoded: 3 x 4 pixels; the image has 4 x 4'
    )
    content = record(instances=INSTANCES[:2])
    assert inputs.find_problem(content) is None
    assert 'instance/encoded: 2 x 4 pixels' in inputs.find_problem(content, True)


def test_a_palette_is_refused(decode):
    content = record(classes=png(CLASSES, 8, palette=True))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(content)
    assert 'image/segmentation/class/encoded is not a gray PNG of ids' in message_of(error)
    assert 'a PNG of a palette; expected a gray one' in inputs.find_problem(content)


def test_ids_of_few_bits(decode):
    example = decode(record(classes=png(np.minimum(CLASSES, 2), 2)))
    np.testing.assert_array_equal(example[fields.SEMANTIC], np.minimum(CLASSES, 2))


@pytest.mark.parametrize(
    'content, problem',
    [
        (b'\x08no example', 'not a tf.train.Example'),
        (tf.train.Example().SerializeToString(), 'no image/encoded'),
        (record(image=b'GIF'), 'image/encoded: the image is not a JPEG'),
        (record(classes=None), 'no image/segmentation/class/encoded'),
        (record(classes=b'\xff\xd8'), 'image/segmentation/class/encoded: not a PNG file'),
        (
            record(classes=codecs.encode_png(np.zeros([3, 4, 3], np.uint8))),
            'image/segmentation/class/encoded: a PNG of colors',
        ),
    ],
)
def test_what_is_wrong_with_a_record(decode, content, problem):
    assert inputs.find_problem(content).startswith(problem)
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(content)


def test_an_ignore_label_that_is_a_class():
    classes = np.array([[0, 1, 2, 150], [0, 0, 0, 0], [1, 1, 1, 1]])
    with tf.Graph().as_default(), tf1.Session() as session:
        example = session.run(inputs.decode(tf.constant(record(classes=classes)), 151, 0))
    np.testing.assert_array_equal(example[fields.SEMANTIC], classes)


@pytest.mark.parametrize(
    ('most', 'content', 'problem'),
    [
        (11, record(source_id='7'), 'has 12 pixels; expected at most 11 '),
        (
            12,
            record(np.zeros([3, 4, 3], np.uint8), np.zeros([4, 4], int)),
            f'{inputs.CLASSES_KEY} has 16 pixels',
        ),
    ],
)
def test_what_has_too_many_pixels_is_not_decoded(most, content, problem):
    with tf.Graph().as_default(), tf1.Session() as session:
        decoded = inputs.decode(tf.constant(content), 3, 255, max_pixels=most)
        with pytest.raises(tf.errors.InvalidArgumentError, match=problem):
            session.run(decoded)


def test_pixels_of_each_value():
    assert inputs.annotate(record()).pixels == {0: 6, 1: 2, 2: 3, 255: 1}


@pytest.mark.parametrize(
    ('content', 'options', 'classes'),
    [
        (record(), {}, [0, 1, 2]),
        (record(), {'ignore_label': 1, 'num_classes': 256}, [0, 2, 255]),
        (record(classes=np.full([3, 4], 255)), {}, []),
        # What `decode` refuses.
        (record(), {'num_classes': 2}, []),
        (record(), {'max_pixels': 11}, []),
        (record(classes=png(CLASSES, 8)[:-30]), {}, []),
    ],
)
def test_classes_of_a_record(content, options, classes):
    options = {'num_classes': 3, 'ignore_label': 255, 'max_pixels': 12, **options}
    assert inputs.list_classes(content, **options) == classes
