"""`--from=folders`, through the command."""

import pytest

from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import records_of, run, write_image
from tests.model_fns.datasets.converted import values as numbers


@pytest.fixture
def classes_folder(tmp_path):
    for name in ('dog', 'cat'):
        for index in range(3):
            write_image(tmp_path / 'photos' / name / f'{name}{index}.png', value=index)
    return tmp_path


def convert_folders(folder, *more):
    return run(
        '--from=folders',
        f'--images={folder / "photos"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=2',
        *more,
    )


def test_folders(classes_folder):
    assert convert_folders(classes_folder) == 0
    names = sorted(path.name for path in (classes_folder / 'out').iterdir())
    assert names == ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']
    assert LabelMap.read(str(classes_folder / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}
    found = records_of(classes_folder / 'out' / 'train')
    assert len(found) == 6
    feature = found['dog/dog1.png']
    assert numbers(feature, 'image/class/label') == [2]
    assert numbers(feature, 'image/class/text') == [b'dog']
    assert numbers(feature, 'image/height') == [20]
    assert numbers(feature, 'image/width') == [30]
    assert numbers(feature, 'image/format') == [b'png']


def test_a_label_map_that_exists_is_read(classes_folder, capsys):
    LabelMap.from_names(['dog', 'mouse', 'cat']).write(str(classes_folder / 'map.pbtxt'))
    assert convert_folders(classes_folder) == 0
    found = records_of(classes_folder / 'out' / 'train')
    assert numbers(found['cat/cat0.png'], 'image/class/label') == [3]


def test_a_class_that_the_label_map_lacks_is_named(classes_folder, capsys):
    LabelMap.from_names(['dog', 'cats']).write(str(classes_folder / 'map.pbtxt'))
    assert convert_folders(classes_folder) == 2
    said = capsys.readouterr().err
    assert "class 'cat' is not in the label map; did you mean 'cats'?" in said
    assert 'cat0.png' in said and 'Traceback' not in said
    assert not list((classes_folder / 'out').glob('*.tfrecord'))


def test_what_does_not_decode_is_listed_or_left_out(classes_folder, capsys):
    (classes_folder / 'photos' / 'cat' / 'broken.jpg').write_bytes(b'\xff\xd8\xff\xe0 broken')
    assert convert_folders(classes_folder) == 2
    assert 'broken.jpg' in capsys.readouterr().err
    assert convert_folders(classes_folder, '--on_error=skip') == 0
    assert len(records_of(classes_folder / 'out' / 'train')) == 6


def test_folders_without_images_and_other_formats_are_problems(classes_folder, capsys):
    (classes_folder / 'photos' / 'emu').mkdir()
    (classes_folder / 'photos' / 'dog' / 'dog9.heic').write_bytes(b'RIFF')
    (classes_folder / 'photos' / 'dog' / 'notes.txt').write_text('no picture')
    assert convert_folders(classes_folder) == 2
    said = capsys.readouterr().err
    assert (
        'emu: there are no images' in said
        and 'dog9.heic: not JPEG, PNG, GIF, BMP, WebP or TIFF' in said
    )
    assert 'notes' not in said
    assert {path.name for path in classes_folder.iterdir()} == {'photos', 'out'}
    assert not list((classes_folder / 'out').iterdir())
    assert convert_folders(classes_folder, '--on_error=skip') == 0
    assert len(records_of(classes_folder / 'out' / 'train')) == 6
    # A folder that unpacking has left, as __MACOSX, is no class.
    assert LabelMap.read(str(classes_folder / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}


def test_files_of_one_stem_are_two_images(classes_folder):
    write_image(classes_folder / 'photos' / 'cat' / 'cat0.jpg', value=9)
    (classes_folder / 'photos' / 'cat' / '._cat0.jpg').write_bytes(b'resources of macOS')
    assert convert_folders(classes_folder) == 0
    found = records_of(classes_folder / 'out' / 'train')
    assert len(found) == 7 and {'cat/cat0.png', 'cat/cat0.jpg'} < set(found)


def test_problems_of_one_kind_are_one_line_with_a_count(classes_folder, capsys):
    for index in range(30):
        (classes_folder / 'photos' / 'cat' / f'empty{index}.png').write_bytes(b'')
    assert convert_folders(classes_folder) == 2
    said = capsys.readouterr().err
    assert said.startswith('error: 1 problem:\n30 like this: the image is empty (0 bytes) (')
    # In the order in which they are converted.
    assert said.count('empty') == 4 and '; and 27 more)\n' in said


def test_nothing_to_convert_is_an_error(classes_folder, capsys):
    (classes_folder / 'list.txt').write_text('\n')
    assert convert_folders(classes_folder, f'--list={classes_folder / "list.txt"}') == 2
    assert 'no image to convert' in capsys.readouterr().err
    for path in (classes_folder / 'photos').rglob('*.png'):
        path.write_bytes(b'')
    assert convert_folders(classes_folder, '--on_error=skip') == 2
    assert 'Nothing is left to write' in capsys.readouterr().err


def test_a_list_does_not_change_the_classes(classes_folder):
    (classes_folder / 'list.txt').write_text('dog2\n')
    assert convert_folders(classes_folder, f'--list={classes_folder / "list.txt"}') == 0
    found = records_of(classes_folder / 'out' / 'train')
    assert numbers(found['dog/dog2.png'], 'image/class/label') == [2]


def test_the_real_signs(shared, tmp_path):
    folder = shared / 'data' / 'sign_digits'
    if not folder.is_dir():
        pytest.skip('the photographs of signs are not here')
    status = run(
        '--from=folders',
        f'--images={folder / "test"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "test"}',
    )
    assert status == 0
    found = records_of(tmp_path / 'test')
    assert len(found) == len(list((folder / 'test').glob('*/*'))) == 409
    names = LabelMap.read(str(tmp_path / 'map.pbtxt')).names
    assert names == {i + 1: str(i) for i in range(10)}
    for source_id, feature in found.items():
        (label,) = numbers(feature, 'image/class/label')
        assert names[label] == source_id.split('/')[0]


def test_a_list_takes_some(classes_folder):
    (classes_folder / 'list.txt').write_text('cat1\ndog2 -1\n')
    assert convert_folders(classes_folder, f'--list={classes_folder / "list.txt"}') == 0
    assert set(records_of(classes_folder / 'out' / 'train')) == {'cat/cat1.png', 'dog/dog2.png'}
