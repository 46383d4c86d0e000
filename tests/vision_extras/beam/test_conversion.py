"""The converter as a pipeline: the files of the local one, byte by byte."""

import pytest
from PIL import Image

from tests.model_fns.datasets.converted import run

pytest.importorskip('apache_beam', reason='apache-beam is not installed (the extra [beam])')

TWO_WORKERS = '--direct_num_workers=2 --direct_running_mode=multi_threading'


@pytest.fixture
def photos(tmp_path):
    """Twenty photographs of two classes; three that are none, one after the other in a class."""
    for name, count in (('cat', 12), ('dog', 8)):
        folder = tmp_path / 'photos' / name
        folder.mkdir(parents=True)
        for index in range(count):
            Image.new('RGB', (20 + index, 16), (10 * index, 0, 0)).save(folder / f'{index:02d}.png')
    for name in ('cat/03.png', 'cat/04.png', 'dog/07.png'):
        (tmp_path / 'photos' / name).write_bytes(b'\x89PNG\r\n\x1a\n broken')
    return tmp_path


def convert(folder, out, *flags):
    (folder / out).mkdir()
    return run(
        '--from=folders',
        f'--images={folder / "photos"}',
        f'--label_map={folder / out / "map.pbtxt"}',
        f'--output_prefix={folder / out}/',
        '--split=train:0.7,val:0.3',
        '--seed=4',
        '--num_shards=3',
        *flags,
    )


def contents(folder):
    """All files of a folder, the hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_are_those_of_the_local_converter(photos, capsys):
    beam = ('--runner=DirectRunner', f'--runner_options={TWO_WORKERS}')
    assert convert(photos, 'local', '--on_error=skip') == 0
    local_said = capsys.readouterr().out
    assert convert(photos, 'beam', '--on_error=skip', *beam) == 0
    expected = contents(photos / 'local')
    assert len(expected) == 7  # three shards of each part, and the label map
    assert contents(photos / 'beam') == expected
    assert capsys.readouterr().out.replace('/beam/', '/local/') == local_said
    # Once more over the same files, as a scheduler does that starts a job again.
    (photos / 'beam').rename(photos / 'again')
    (photos / 'again').rename(photos / 'beam')
    status = run(
        '--from=folders',
        f'--images={photos / "photos"}',
        f'--label_map={photos / "beam" / "map.pbtxt"}',
        f'--output_prefix={photos / "beam"}/',
        '--split=train:0.7,val:0.3',
        '--seed=4',
        '--num_shards=3',
        '--on_error=skip',
        *beam,
    )
    assert status == 0
    assert contents(photos / 'beam') == expected


def test_problems_are_listed_in_order_and_nothing_is_written(photos, capsys):
    assert convert(photos, 'local') == 2
    expected = capsys.readouterr().err
    assert (
        expected.count('broken') == 0
        and '3 like this: ' in expected
        and expected.count('.png') == 3
    )
    assert convert(photos, 'beam', '--runner=DirectRunner') == 2
    said = [line for line in capsys.readouterr().err.splitlines() if 'png' in line]
    assert said == [line for line in expected.splitlines() if 'png' in line]
    assert contents(photos / 'beam') == {}


def test_a_runner_that_there_is_not(photos, capsys):
    assert convert(photos, 'beam', '--runner=NoSuchRunner') == 2
    said = capsys.readouterr().err
    assert 'error: --runner=NoSuchRunner: ' in said and 'Traceback' not in said
    assert contents(photos / 'beam') == {}
