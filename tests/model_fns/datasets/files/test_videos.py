"""Frames of videos that OpenCV wrote, and videos of pictures."""

import struct
import subprocess
import sys

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets.files import videos

try:
    import cv2
except ImportError:
    cv2 = None

pytestmark = pytest.mark.skipif(cv2 is None, reason='the extra [video] is not installed')

HEIGHT, WIDTH = 48, 64
# Compression changes colors a little.
TOLERANCE = 12


def picture(index, height=HEIGHT, width=WIDTH):
    """Return a dark picture with a bar of red that grows."""
    pixels = np.full([height, width, 3], 20, np.uint8)
    pixels[:, : 4 * (index + 1), 0] = 220
    return pixels


def write_video(path, count=12, rate=10.0, height=HEIGHT, width=WIDTH):
    """Write a video without the code under test."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = 'MJPG' if path.suffix == '.avi' else 'mp4v'
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*code), rate, (width, height))
    assert writer.isOpened()
    for index in range(count):
        writer.write(picture(index, height, width)[:, :, ::-1])
    writer.release()
    return path


def rotate(path):
    """Make the matrix of an MP4 file's track say that its frames are rotated by 90 degrees."""
    content = bytearray(path.read_bytes())
    start = content.index(b'tkhd') + 44
    assert struct.unpack_from('>9i', content, start) == (
        1 << 16,
        0,
        0,
        0,
        1 << 16,
        0,
        0,
        0,
        1 << 30,
    )
    struct.pack_into('>9i', content, start, 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    path.write_bytes(content)


def read(path, **options):
    with videos.VideoReader(str(path), **options) as video:
        return list(video)


@pytest.mark.parametrize('name', ['a.mp4', 'a.avi'])
def test_frames_are_read_with_their_times(tmp_path, name):
    path = write_video(tmp_path / name)
    with videos.VideoReader(str(path)) as video:
        assert video.rate == pytest.approx(10) and video.count == 12
        found = list(video)
    assert len(found) == 12
    for index, frame in enumerate(found):
        assert frame.seconds == pytest.approx(index / 10, abs=1e-6)
        assert frame.pixels.dtype == np.uint8 and frame.pixels.flags.c_contiguous
        difference = np.abs(frame.pixels.astype(int) - picture(index))
        assert np.median(difference) < TOLERANCE
        edge = 4 * (index + 1)
        assert frame.pixels[24, edge - 3, 0] > 150
        assert edge + 4 >= WIDTH or frame.pixels[24, edge + 4, 0] < 100


def test_frames_are_rotated_as_phones_say(tmp_path):
    path = write_video(tmp_path / 'a.mp4', 3)
    rotate(path)
    stored = read(path, applies_rotation=False)[2].pixels
    assert stored.shape == (HEIGHT, WIDTH, 3)
    shown = read(path)[2].pixels
    np.testing.assert_array_equal(shown, np.rot90(stored, -1))


BAD = {
    'a.mp4': (b'hello', 'a.mp4: the video cannot be read'),
    'empty.mp4': (b'', 'empty.mp4: the file is empty; expected a video.'),
    'missing.mp4': (None, 'missing.mp4: there is no such file'),
}


@pytest.mark.parametrize('name', sorted(BAD))
def test_a_file_that_is_no_video(tmp_path, name):
    content, expected = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(errors.DataError, match=expected):
        videos.VideoReader(str(tmp_path / name))


def test_a_video_without_frames(tmp_path):
    path = write_video(tmp_path / 'a.avi', 0)
    with pytest.raises(errors.DataError, match='a.avi: .*no frame of the video can be decoded'):
        read(path)


def test_opencv_prints_no_lines_of_its_own(tmp_path):
    (tmp_path / 'a.mp4').write_bytes(b'hello')
    code = (
        'import sys; from model_fns.datasets.files import videos; videos.VideoReader(sys.argv[1])'
    )
    run = subprocess.run(
        [sys.executable, '-c', code, str(tmp_path / 'a.mp4')], capture_output=True, text=True
    )
    assert 'a.mp4: the video cannot be read' in run.stderr and run.returncode
    assert 'moov' not in run.stderr and run.stdout == ''


def test_large_frames_are_refused(tmp_path):
    path = write_video(tmp_path / 'a.mp4')
    with pytest.raises(errors.DataError, match=r'3072 pixels; expected at most 3071 \(max_image'):
        read(path, max_pixels=HEIGHT * WIDTH - 1)


def test_a_truncated_file_is_noticed(tmp_path):
    path = write_video(tmp_path / 'a.mp4')
    with videos.VideoReader(str(path)) as video:
        assert not video.is_truncated(12) and not video.is_truncated(11)
        assert video.is_truncated(6)


def test_pictures_become_a_video(tmp_path):
    path = tmp_path / 'out.mp4'
    with videos.VideoWriter(str(path), 10.0) as writer:
        for index in range(12):
            writer.write(picture(index))
            assert not path.exists()
        writer.write(picture(12, HEIGHT * 2, WIDTH * 2)[:, ::2].repeat(2, axis=1))
    assert [one.name for one in tmp_path.iterdir()] == ['out.mp4']
    found = read(path)
    assert len(found) == 13
    for index in range(12):
        assert np.median(np.abs(found[index].pixels.astype(int) - picture(index))) < TOLERANCE
    assert found[12].pixels.shape == (HEIGHT, WIDTH, 3)


def test_an_interrupted_video_leaves_the_earlier_one(tmp_path):
    path = tmp_path / 'out.mp4'
    path.write_bytes(b'earlier')
    with pytest.raises(KeyboardInterrupt), videos.VideoWriter(str(path), 10.0) as writer:
        writer.write(picture(0))
        raise KeyboardInterrupt
    assert path.read_bytes() == b'earlier' and len(list(tmp_path.iterdir())) == 1


def test_without_pictures_there_is_no_video(tmp_path):
    with videos.VideoWriter(str(tmp_path / 'out.mp4'), 10.0):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
    path = str(tmp_path / 'no' / 'out.mp4')
    refused = pytest.raises(errors.UserError, match='cannot be written')
    with refused, videos.VideoWriter(path, 10.0) as writer:
        writer.write(picture(0))


def test_opencv_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'cv2', None)
    with pytest.raises(
        errors.UserError, match=r"expected: pip install 'vision-model-fns\[video\]'"
    ):
        videos.VideoReader(str(tmp_path / 'a.mp4'))
