"""Images that training and evaluation share: equal files, and pictures that are nearly equal."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimator_lib.commands import shared_images
from protos import pipeline_pb2
from tests.estimator_lib.data import record_cases as cases


def picture(seed, shift=0):
    """Return smooth random gray levels, uint8 [64, 64, 3]."""
    coarse = np.random.RandomState(seed).randint(0, 255, [5, 5]).astype(np.uint8)
    smooth = Image.fromarray(coarse).resize((80, 80), Image.Resampling.BICUBIC)
    pixels = np.asarray(smooth)[shift : shift + 64, shift : shift + 64]
    return np.repeat(pixels[..., np.newaxis], 3, axis=-1)


def encoded(pixels, kind='PNG', **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def record(name, content):
    example = tf.train.Example()
    example.features.feature['image/encoded'].bytes_list.value.append(content)
    example.features.feature['image/source_id'].bytes_list.value.append(name.encode())
    return example.SerializeToString()


def fingerprints(*contents):
    return [shared_images.fingerprint(record(str(k), each)) for k, each in enumerate(contents)]


def test_the_hash_by_hand():
    ramp = np.tile(np.arange(0, 90, 10, dtype=np.uint8), [8, 1])
    assert shared_images.difference_hash(Image.fromarray(ramp)) == 2**64 - 1
    assert shared_images.difference_hash(Image.fromarray(ramp[:, ::-1].copy())) == 0
    ramp[0, 1] = 0  # the first cell is not darker than the second any more
    assert shared_images.difference_hash(Image.fromarray(ramp)) == 2**63 - 1


def test_equal_files_copies_and_neighbors_are_found():
    training = fingerprints(*(encoded(picture(seed)) for seed in range(6)))
    evaluation = fingerprints(
        encoded(picture(90)),
        encoded(picture(3)),  # the same file
        encoded(picture(4), 'JPEG', quality=70),  # saved again
        encoded(picture(5, shift=1)),  # the next frame
        encoded(picture(5)[:, ::-1]),  # mirrored: another picture
    )
    assert shared_images.find_shared(training, evaluation) == [(1, 3), (2, 4), (3, 5)]
    readers = {'train_input_reader': training, 'new': evaluation[:1], 'val': evaluation}
    (said,) = shared_images.compare(readers)
    assert said.startswith('val: 3 of 5 evaluation images are nearly equal')
    assert '1 equals 3' in said


def test_records_without_a_name_are_numbered():
    training = fingerprints(*(encoded(picture(seed)) for seed in range(3)))
    training = [each._replace(name='') for each in training]
    (said,) = shared_images.compare({'train_input_reader': training, 'val': training[2:]})
    assert 'e.g. image 1 equals image 3:' in said


def test_flat_pictures_are_told_by_their_thumbnails():
    flat = [np.full([20, 20, 3], value, np.uint8) for value in (0, 100, 104)]
    training, evaluation = fingerprints(encoded(flat[0])), fingerprints(*map(encoded, flat[1:]))
    assert training[0].hash == evaluation[0].hash == 0
    assert not shared_images.find_shared(training, evaluation)
    assert shared_images.find_shared(evaluation[:1], evaluation[1:]) == [(0, 0)]


@pytest.mark.parametrize('content', [b'', b'no image'])
def test_what_is_no_picture_is_compared_as_a_file(content):
    found = shared_images.fingerprint(record('a', content))
    assert (found is None) if not content else found.thumbnail is None
    assert shared_images.fingerprint(b'no record') is None


def test_the_first_images_of_a_config_are_compared(tmp_path, monkeypatch):
    contents = [record(str(seed), encoded(picture(seed))) for seed in range(4)]
    training = cases.write(tmp_path / 'train.tfrecord', contents[:3])
    evaluation = cases.write(tmp_path / 'val.tfrecord', contents[2:])
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_input_reader.CopyFrom(cases.reader_of(training))
    config.eval_input_reader.add().CopyFrom(cases.reader_of(evaluation))
    (warning,) = shared_images.find_warnings(config)
    assert warning.startswith('eval_input_reader[0]: 1 of 2 evaluation images')
    # One record of training is not read.
    most = sum(map(len, contents[:3])) - 1
    monkeypatch.setattr(shared_images, '_MOST_BYTES', most)
    assert not shared_images.find_warnings(config)
    monkeypatch.setattr(shared_images, '_MOST_BYTES', most + 1)
    assert shared_images.find_warnings(config) == [warning]
    monkeypatch.setattr(shared_images, '_FIRST', 2)
    assert not shared_images.find_warnings(config)
    config.eval_input_reader[0].tf_record_input_reader.input_path[0] = str(tmp_path / 'none')
    assert not shared_images.find_warnings(config)
