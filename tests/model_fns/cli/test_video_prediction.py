"""Several videos, second runs, and videos that cannot be read."""

import json
import os
import subprocess
import sys

import pytest

from estimator_lib import errors
from estimator_lib.commands import predict
from estimator_lib.task import Description
from model_fns.cli import video_prediction
from tests.estimator_lib import tiny_task
from tests.estimator_lib.commands.test_predict import Recording
from tests.model_fns.datasets.files import test_videos
from tests.model_fns.datasets.files.test_videos import write_video

pytestmark = test_videos.pytestmark


class Describing(tiny_task.Presented, tiny_task.TinyTask):
    """Describes a frame by its mean, and draws it as it is."""

    def describe(self, features, outputs, shown=None):
        rows = [{'class': 'bright'}] if outputs['mean'] > 250 else []
        return Description(dict(outputs), rows, features['image'])

    def nothing_found(self, shown, worth_showing):
        return 'nothing was bright'


def run(paths, out, task=Describing(), **options):  # noqa: B008
    return video_prediction.predict_videos(
        Recording(), task, [str(path) for path in paths], str(out), predict.Options(**options)
    )


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_several_videos_have_their_own_files(tmp_path, caplog):
    paths = [write_video(tmp_path / name, count) for name, count in
             (('a/clip.mp4', 3), ('b/clip.mp4', 5), ('other.avi', 4))]  # fmt: skip
    assert run(paths, tmp_path / 'out') == []
    names = ['a-clip.mp4', 'b-clip.mp4', 'other']
    expected = sorted(f'{name}{ending}' for name in names for ending in ('.mp4', '.jsonl'))
    assert sorted(os.listdir(tmp_path / 'out')) == expected
    for name, path in zip(names, paths):
        frames = test_videos.read(path)
        lines = lines_of(tmp_path / 'out' / f'{name}.jsonl')
        assert [line['frame'] for line in lines] == list(range(len(frames)))
        means = [frame.pixels.mean() for frame in frames]
        assert [line['mean'] for line in lines] == pytest.approx(means)
        assert len(test_videos.read(tmp_path / 'out' / f'{name}.mp4')) == len(frames)
    assert 'nothing was bright' in caplog.text


def test_a_second_run_replaces_the_files(tmp_path):
    for count in (7, 3):
        path = write_video(tmp_path / 'clip.mp4', count)
        run([path], tmp_path / 'out')
        assert len(lines_of(tmp_path / 'out' / 'clip.jsonl')) == count
        assert len(test_videos.read(tmp_path / 'out' / 'clip.mp4')) == count
    assert sorted(os.listdir(tmp_path / 'out')) == ['clip.jsonl', 'clip.mp4']


def test_a_bad_video_is_skipped_and_leaves_earlier_files(tmp_path):
    good = write_video(tmp_path / 'good.mp4', 3)
    bad = tmp_path / 'bad.mp4'
    bad.write_bytes(good.read_bytes())
    run([good, bad], tmp_path / 'out')
    bad.write_bytes(b'no video')
    (sentence,) = run([bad, good], tmp_path / 'out')
    assert sentence.startswith(f'{bad}: the video cannot be read')
    assert len(lines_of(tmp_path / 'out' / 'bad.jsonl')) == 3
    with pytest.raises(errors.DataError, match='bad.mp4: the video cannot be read'):
        run([bad, good], tmp_path / 'out', skips=False)
    with pytest.raises(errors.DataError, match='none of the videos can be read: .*bad.mp4'):
        run([bad], tmp_path / 'out')


def test_a_failed_frame_leaves_no_files(tmp_path):
    class Failing(Describing):
        def describe(self, features, outputs, shown=None):
            raise errors.DataError('no description')

    with pytest.raises(errors.DataError, match='no description'):
        run([write_video(tmp_path / 'clip.mp4')], tmp_path / 'out', Failing(), skips=False)
    assert os.listdir(tmp_path / 'out') == []


def test_without_a_task_there_are_lines_only(tmp_path):
    run([write_video(tmp_path / 'clip.mp4', 2)], tmp_path / 'out', None)
    assert os.listdir(tmp_path / 'out') == ['clip.jsonl']
    assert lines_of(tmp_path / 'out' / 'clip.jsonl')[1].keys() == {'frame', 'time', 'mean'}


MEMORY = """
import resource, sys
from model_fns.cli import video_prediction
from tests.model_fns.cli import test_video_prediction as test

used = []
for path in sys.argv[1:-1]:
    test.run([path], sys.argv[-1])
    used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(used[1] - used[0])
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='ru_maxrss has another unit')
def test_memory_does_not_grow_with_the_length(tmp_path):
    """Of 300 more frames, 0.23 MB each, less than half stay in memory."""
    size = {'height': 240, 'width': 320}
    paths = [write_video(tmp_path / f'{count}.mp4', count, **size) for count in (40, 340)]
    done = subprocess.run(
        [sys.executable, '-c', MEMORY, *map(str, paths), str(tmp_path / 'out')],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, 'PYTHONPATH': os.getcwd()},
    )
    assert int(done.stdout.split()[-1]) < 30_000  # KB
