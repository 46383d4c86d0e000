"""A conversion that a signal ends: what is done is kept, and the same command continues."""

import os
import signal

import pytest

from estimator_lib.processes import preemption
from model_fns.datasets import conversion, summaries
from tests.model_fns.datasets.converted import run, serialized_records, write_image

COUNT = 8


@pytest.fixture
def images(tmp_path):
    for index in range(COUNT):
        write_image(tmp_path / 'images' / 'ab'[index % 2] / f'{index}.png', value=index)
    (tmp_path / 'images' / 'a' / 'bad.png').write_bytes(b'')
    return tmp_path / 'images'


def convert(images, prefix, *flags):
    # The guard of a program stays after a signal until its process has ended. This one ends here.
    with preemption.preemption_guard():
        return run(
            '--from=folders', f'--images={images}', f'--label_map={prefix}.pbtxt',
            f'--output_prefix={prefix}', '--num_shards=2', '--on_error=skip', *flags,
        )  # fmt: skip


def stop_after(monkeypatch, count):
    """End conversions by SIGTERM after some images; None: do not."""
    add, seen = summaries.Summary.add, []

    def stop(self, summary):
        add(self, summary)
        seen.append(summary)
        if len(seen) == count:
            raise preemption.Preempted(signal.SIGTERM)

    monkeypatch.setattr(conversion.Summary, 'add', stop)


@pytest.fixture
def converted(monkeypatch):
    """The paths of the images that are converted."""
    paths, original = [], conversion.Converter.convert

    def convert(self, item):
        paths.append(item.path)
        return original(self, item)

    monkeypatch.setattr(conversion.Converter, 'convert', convert)
    return paths


@pytest.mark.parametrize('flags', [(), ('--split=train:0.5,val:0.5',)])
def test_the_same_command_continues(images, tmp_path, monkeypatch, converted, capsys, flags):
    (tmp_path / 'out').mkdir()
    prefix, other = tmp_path / 'out' / 'data', tmp_path / 'other' / 'data'
    assert convert(images, other, *flags) == 0
    for stop in (3, 5):
        with monkeypatch.context() as patch:
            stop_after(patch, stop)
            assert convert(images, prefix, *flags) == 143
        assert f'{stop} are done ({prefix.parent}/.data.partial)' in capsys.readouterr().err
        assert [name for name in os.listdir(prefix.parent) if not name.startswith('.')] == []
    converted.clear()
    assert convert(images, prefix, *flags) == 0
    assert len(converted) == COUNT + 1 - 5
    names = ('data-train', 'data-val') if flags else ('data',)
    for name in names:
        expected = serialized_records(other.with_name(name))
        assert serialized_records(prefix.with_name(name)) == expected and expected
    assert [name for name in os.listdir(prefix.parent) if name.startswith('.')] == []


def test_another_command_or_a_changed_image_starts_again(images, tmp_path, monkeypatch, converted):
    prefix = tmp_path / 'data'

    def stopped(count, *flags):
        converted.clear()
        with monkeypatch.context() as patch:
            stop_after(patch, count)
            assert convert(images, prefix, *flags) == 143
        return len(converted)

    assert stopped(3) == COUNT + 1  # all are read ahead
    assert stopped(5) == COUNT + 1 - 3
    assert stopped(5, '--seed=1') == COUNT + 1
    write_image(images / 'a' / '0.png', value=99)
    assert stopped(5, '--seed=1') == COUNT + 1


def test_a_kill_leaves_nothing_to_continue(images, tmp_path, monkeypatch, converted):
    prefix = tmp_path / 'data'
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        convert(images, prefix)
    for path in tmp_path.glob('.data-*.partial'):
        path.unlink()  # a kill gives them no name
    converted.clear()
    assert convert(images, prefix) == 0
    assert len(converted) == COUNT + 1


def test_data_with_problems_leaves_nothing(images, tmp_path):
    assert convert(images, tmp_path / 'data', '--on_error=fail') == 2
    assert [name for name in os.listdir(tmp_path) if name.startswith('.')] == []
