import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets import codecs
from model_fns.segmentation.data import evaluation_sizes
from model_fns.segmentation.data.preprocessing import Preprocessing
from model_fns.segmentation.data.resize_range import ResizeRange
from protos import input_reader_pb2
from tests.model_fns.segmentation.segmentation_records import record, write_records


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    """Two files: of 20 x 40 and 30 x 25 pixels, and of 12 x 61 (a JPEG)."""
    folder = tmp_path_factory.mktemp('crops')

    def of_size(height, width, name, encode=None):
        image = np.zeros([height, width, 3], np.uint8)
        return record(image if encode is None else encode(image), None, None, filename=name)

    with codecs.ImageCodec() as codec:
        jpeg = of_size(12, 61, 'c.jpg', codec.encode_jpeg)
    broken = record(image=b'no image', classes=None, instances=None)
    made = input_reader_pb2.InputReader()
    made.tf_record_input_reader.input_path.extend(
        [
            write_records(
                folder / '0.tfrecord', [of_size(20, 40, 'a.png'), broken, of_size(30, 25, 'b.png')]
            ),
            write_records(folder / '1.tfrecord', [jpeg]),
        ]
    )
    return made


@pytest.mark.parametrize('asked', [(30, 61), (30, 0), (0, 61), (65, 65)])
def test_images_that_fit_pass(reader, asked):
    evaluation_sizes.check_sizes([reader], Preprocessing((17, 17)), 16, asked)


def test_the_resize_range_counts(reader):
    # 20 x 40 becomes 10 x 20, 30 x 25 becomes 12 x 10, 12 x 61 becomes 5 x 30.
    smaller = Preprocessing((9, 9), resize=ResizeRange(10, 30))
    evaluation_sizes.check_sizes([reader], smaller, 8, (12, 30))
    with pytest.raises(errors.DataError, match='crop_height: 17 crop_width: 33'):
        evaluation_sizes.check_sizes([reader], smaller, 8, (11, 30))


def test_a_size_that_is_too_small_is_refused_with_the_file(reader):
    with pytest.raises(errors.DataError) as error:
        evaluation_sizes.check_sizes([reader], Preprocessing((65, 65)), 16, (25, 65))
    message = str(error.value)
    assert '0.tfrecord, record 2 (b.png): the image has 30 x 25 pixels' in message
    assert 'asks for (25 x 65)' in message
    assert 'crop_height: 33 crop_width: 65' in message
    with pytest.raises(errors.DataError, match=r'1.tfrecord, record 0 \(c.jpg\).* \(any x 60\)'):
        evaluation_sizes.check_sizes([reader], Preprocessing((65, 65)), 16, (0, 60))


def test_no_files():
    missing = input_reader_pb2.InputReader()
    missing.tf_record_input_reader.input_path.append('/nowhere/*.tfrecord')
    with pytest.raises(errors.DataError, match='/nowhere'):
        evaluation_sizes.check_sizes([missing], Preprocessing((65, 65)), 16, (9, 9))


def test_legal_sizes():
    assert [evaluation_sizes.smallest_legal(side, 16) for side in (1, 2, 17, 18, 500, 513)] == [
        1, 17, 17, 33, 513, 513,
    ]  # fmt: skip
    assert (
        evaluation_sizes.smallest_legal(1024, 16),
        evaluation_sizes.smallest_legal(2048, 16),
    ) == (1025, 2049)
