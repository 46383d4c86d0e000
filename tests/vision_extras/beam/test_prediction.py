"""`--mode=predict --runner=..`: what the local command writes."""

import json
import shutil

import pytest

pytest.importorskip('apache_beam', reason='apache-beam is not installed (the extra [beam])')

from tests import tiny_data
from tests.system.test_predict_images import export_of, predict, save_images

BEAM = (
    '--runner=DirectRunner',
    '--runner_options=--direct_num_workers=2 --direct_running_mode=multi_threading',
)


@pytest.fixture(scope='module')
def model(tmp_path_factory):
    return export_of(tmp_path_factory.mktemp('classifier'), tiny_data)


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    """Files, two of them broken, and two files of records."""
    folder = save_images(tmp_path_factory.mktemp('images') / 'all', 12)
    for name in ('003', '010'):
        (folder / f'{name}.png').write_bytes(b'<html>')
    for name, count in (('a', 3), ('b', 2)):
        tiny_data.write_records(folder / f'{name}.tfrecord', count)
    return folder


@pytest.mark.parametrize(
    ('kind', 'output_format', 'pictures'), [('png', 'json', 10), ('tfrecord', 'csv', 5)]
)
def test_what_comes_out_is_what_the_local_command_writes(
    model, images, tmp_path, capsys, kind, output_format, pictures
):
    pattern, flag = f'{images}/*.{kind}', f'--output_format={output_format}'
    assert predict(model, pattern, tmp_path / 'local', flag) == 0
    local_said = capsys.readouterr().out
    assert predict(model, pattern, tmp_path / 'beam', flag, *BEAM) == 0
    assert capsys.readouterr().out.replace('/beam', '/local') == local_said
    local, beam = (
        {path.name: path for path in (tmp_path / name).iterdir()} for name in ('local', 'beam')
    )
    assert set(beam) == set(local) and len(beam) == pictures + 2
    for name in local:
        if name.endswith('.png') or output_format == 'csv':
            assert beam[name].read_bytes() == local[name].read_bytes(), name
    if output_format == 'json':
        found = [json.loads(one['predictions.json'].read_text()) for one in (local, beam)]
        assert list(found[0]) == list(found[1])
        for expected, other in zip(*(one.values() for one in found)):
            assert [row['class'] for row in other['classes']] == [
                row['class'] for row in expected['classes']
            ]
            scores = [[row['score'] for row in one['classes']] for one in (expected, other)]
            assert scores[1] == pytest.approx(scores[0], abs=2e-6)


def test_a_bad_image_ends_it_when_asked(model, images, tmp_path, capsys):
    out = tmp_path / 'out'
    assert predict(model, f'{images}/*.png', out, '--on_error=fail', *BEAM) == 2
    said = capsys.readouterr().err
    assert f'error: {images}/003.png: the image' in said and 'Traceback' not in said
    assert not (out / 'predictions.json').exists() and not list(out.glob('.*'))


def test_no_image_at_all_is_an_error(model, images, tmp_path, capsys):
    shutil.copy(images / '003.png', tmp_path / 'a.png')
    assert predict(model, tmp_path / 'a.png', tmp_path / 'out', *BEAM) == 2
    assert 'none of the images can be read' in capsys.readouterr().err
