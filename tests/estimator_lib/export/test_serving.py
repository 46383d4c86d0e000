"""What a server sends, as the features of a task."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_lib.export import serving
from estimator_lib.task import IMAGE
from protos import export_pb2
from tests.estimator_lib import tiny_task

tf1 = tf.compat.v1


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, 'PNG')
    return file.getvalue()


def example(image):
    made = tf.train.Example()
    made.features.feature[serving.ENCODED_IMAGE].bytes_list.value.append(png(image))
    return made.SerializeToString()


def picture(height, width, seed=0):
    random = np.random.RandomState(seed)
    return random.randint(0, 255, [height, width, 3]).astype(np.uint8)


class AnySize(tiny_task.TinyTask):
    """Leaves images at the size that they have."""

    def serving_features(self, images):
        return {IMAGE: tf.cast(images, tf.float32)}


def receive(task, kind, sent):
    """Return the name of the placeholder, and the images that a task gets."""
    with tf.Graph().as_default(), tf1.Session() as session:
        receiver = serving.serving_input_receiver_fn(task, kind)()
        (placeholder,) = receiver.receiver_tensors.values()
        assert list(receiver.receiver_tensors) == ['inputs']
        return placeholder.op.name, session.run(receiver.features[IMAGE], {placeholder: sent})


def test_arrays_are_taken_as_a_batch():
    images = np.stack([picture(5, 4), picture(5, 4, seed=1)])
    name, found = receive(AnySize(), export_pb2.IMAGE_TENSOR, images)
    assert name == 'image_tensor'
    np.testing.assert_array_equal(found, images)


@pytest.mark.parametrize(
    ('kind', 'encode', 'name'),
    [
        (export_pb2.ENCODED_IMAGE_STRING_TENSOR, png, 'encoded_image_string_tensor'),
        (export_pb2.SERIALIZED_TF_EXAMPLE, example, 'tf_example'),
    ],
)
def test_files_may_differ_in_size_where_the_task_resizes(kind, encode, name):
    images = [picture(5, 4), picture(7, 9)]
    found_name, found = receive(tiny_task.TinyTask(), kind, [encode(image) for image in images])
    assert found_name == name
    for image, one in zip(images, found):
        _, alone = receive(tiny_task.TinyTask(), export_pb2.IMAGE_TENSOR, image[np.newaxis])
        np.testing.assert_allclose(one, alone[0], atol=1e-6)


class WithNumbers(tiny_task.TinyTask):
    """Takes a number beside each image: of its record, or of an input that may be left out."""

    def serving_side_inputs(self, batch_size, examples):
        if examples is not None:
            return {'number': tf.strings.length(examples)}, {}
        number = tf1.placeholder_with_default(tf.zeros([batch_size], tf.int32), [None], 'number')
        return {'number': number}, {'number': number}


def test_what_a_task_takes_beside_images():
    images = np.stack([picture(5, 4), picture(5, 4, seed=1)])
    with tf.Graph().as_default(), tf1.Session() as session:
        receiver = serving.serving_input_receiver_fn(WithNumbers(), export_pb2.IMAGE_TENSOR)()
        placeholders = receiver.receiver_tensors
        assert list(placeholders) == ['inputs', 'number']
        assert {IMAGE, 'number'} <= set(receiver.features)
        sent = {placeholders['inputs']: images}
        number = receiver.features['number']
        assert session.run(number, sent).tolist() == [0, 0]
        assert session.run(number, {**sent, placeholders['number']: [3, 4]}).tolist() == [3, 4]


def test_records_hold_what_a_task_takes_beside_images():
    sent = [example(picture(5, 4))]
    with tf.Graph().as_default(), tf1.Session() as session:
        kind = export_pb2.SERIALIZED_TF_EXAMPLE
        receiver = serving.serving_input_receiver_fn(WithNumbers(), kind)()
        (placeholder,) = receiver.receiver_tensors.values()
        number = session.run(receiver.features['number'], {placeholder: sent})
    assert number.tolist() == [len(sent[0])]


def test_files_of_one_size_are_a_batch_where_the_task_does_not_resize():
    images = [picture(5, 4), picture(5, 4, seed=1)]
    kind = export_pb2.ENCODED_IMAGE_STRING_TENSOR
    _, found = receive(AnySize(), kind, [png(image) for image in images])
    np.testing.assert_array_equal(found, images)


def test_files_of_several_sizes_are_refused_where_the_task_does_not_resize():
    sent = [png(picture(5, 4)), png(picture(5, 4)), png(picture(4, 5))]
    with pytest.raises(tf.errors.InvalidArgumentError, match='image 2 of the request differs'):
        receive(AnySize(), export_pb2.ENCODED_IMAGE_STRING_TENSOR, sent)
