import numpy as np
import tensorflow as tf

from model_fns.detection.data import crowded_images

tf1 = tf.compat.v1


def test_warnings_come_with_the_first_and_with_ten_times_as_many_images(caplog):
    crowded = crowded_images.CrowdedImages(max_boxes=100)
    warnings = []
    for index in range(105):
        assert crowded.add(np.int32(2), b'image %d' % index) == 2
        crowded.add(np.int32(2), b'image 0')  # the same image again is not another one
        warnings.append(len(caplog.records))
    assert [warnings.index(count) for count in (1, 2, 3)] == [0, 9, 99]
    assert warnings[-1] == 3
    assert caplog.records[0].message.startswith('2 boxes of 1 image left out in training')
    assert caplog.records[0].message.endswith(
        'max_number_of_boxes, 100 (max_number_of_boxes: 102 has room for all of them): image 0'
    )
    assert caplog.records[1].message.startswith('20 boxes of 10 images ')
    assert caplog.records[1].message.endswith('image 3, image 4, ...')


def test_images_with_room_are_not_counted(caplog):
    crowded = crowded_images.CrowdedImages(max_boxes=7)
    with tf.Graph().as_default(), tf1.Session() as session:
        left_out, source_id = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.string, [])
        counted = crowded.counted(left_out, source_id)
        assert counted.shape.rank == 0
        assert session.run(counted, {left_out: 0, source_id: 'empty'}) == 0
        assert not caplog.records
        assert session.run(counted, {left_out: 3, source_id: 'crowd'}) == 3
    assert '3 boxes of 1 image ' in caplog.text
