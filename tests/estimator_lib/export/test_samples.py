import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import samples
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task


class Recorded(tiny_task.TinyTask):
    """Records whose texts are images of 4 x 5 pixels."""

    def decode(self, serialized):
        return {'image': tf.reshape(tf.io.decode_raw(serialized, tf.uint8), [4, 5, 3])}


def written(path, values, compression=''):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for value in values:
            writer.write(bytes([value] * 60))
        writer.write(b'not an image')
    return str(path)


def config_of(training=None, evaluation=None):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    if training:
        config.train_input_reader.tf_record_input_reader.input_path.append(training)
    if evaluation:
        config.eval_input_reader.add().tf_record_input_reader.input_path.append(evaluation)
    return config


def values(sample):
    return sorted(int(image[0, 0, 0]) for image in sample.images)


def test_compressed_files_are_read_as_runs_read_them(tmp_path):
    config = config_of(evaluation=written(tmp_path / 'eval.gz', [8, 9], 'GZIP'))
    sample = samples.evaluation_images(Recorded(), config, 2)
    assert sample.kind == 'images of the evaluation' and values(sample) == [8, 9]


def test_images_of_each_kind_come_first_where_they_are_asked_for(tmp_path):
    config = config_of(written(tmp_path / 'train', range(5)), written(tmp_path / 'eval', [8, 9]))
    found = samples.evaluation_images(Recorded(), config, 4)
    assert (str(found), values(found)) == ('2 images of the evaluation', [8, 9])
    found = samples.representative(Recorded(), config, 20)
    assert (str(found), values(found)) == ('5 images of the training', [0, 1, 2, 3, 4])
    assert found.images[0].dtype == np.uint8 and found.images[0].shape == (4, 5, 3)


def test_the_other_kind_where_there_are_none(tmp_path):
    only_training = config_of(training=written(tmp_path / 'train', [3]), evaluation='nowhere*')
    assert (
        str(samples.evaluation_images(Recorded(), only_training, 4)) == '1 images of the training'
    )
    only_evaluation = config_of(evaluation=written(tmp_path / 'eval', [3]))
    found = samples.representative(Recorded(), only_evaluation, 4)
    assert found.kind == 'images of the evaluation'
    noise = samples.evaluation_images(Recorded(), config_of(), 3)
    assert str(noise) == '3 images of noise' and noise.images[0].shape == (320, 320, 3)


def test_images_are_drawn_from_all_files_and_the_same_each_time(tmp_path):
    for index in range(4):
        written(tmp_path / f'train-{index}', range(50 * index, 50 * index + 50))
    config = config_of(training=f'{tmp_path}/train-*')
    first, again = (samples.representative(Recorded(), config, 24) for _ in range(2))
    assert values(first) == values(again)
    assert {value // 50 for value in values(first)} == {0, 1, 2, 3}
    # Not the first records of each file alone.
    assert max(value % 50 for value in values(first)) >= 12


def test_a_representative_set_that_is_empty(tmp_path):
    config = config_of(written(tmp_path / 'train', []))
    with pytest.raises(errors.UserError, match='ranges of activations on images, and there are no'):
        samples.representative(Recorded(), config, 4)
    with pytest.raises(errors.UserError, match='--representative_examples=0: .* expected 1 or'):
        samples.representative(Recorded(), config, 0)


def test_pixels_are_what_the_task_makes_of_an_image():
    task = tiny_task.TinyTask()
    image = np.random.RandomState(0).randint(0, 256, [9, 12, 3]).astype(np.uint8)
    (found,) = samples.pixels(task, task.deployable(None), [image])
    expected = tf.image.resize(tf.cast(image, tf.float32), [6, 6])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected[tf.newaxis], atol=1e-4)


def test_images_of_noise_differ_in_what_a_network_sees():
    """Means of blocks of 32 x 32 pixels: of fine noise they are nearly the same everywhere."""
    sample = samples.evaluation_images(tiny_task.TinyTask(), config_of(), 7)
    assert str(sample) == '7 images of noise'
    assert {image.shape for image in sample.images} == {(320, 320, 3)}
    blocks = [image.reshape(10, 32, 10, 32, 3).mean((1, 3)).std() for image in sample.images]
    assert blocks[0] < 5 < blocks[1] < blocks[2] < 40 < min(blocks[3:5])
    assert not np.array_equal(sample.images[0], sample.images[5])
