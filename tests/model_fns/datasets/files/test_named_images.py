"""Image files by the names that annotations give them."""

import pytest

from model_fns.datasets.files import named_images


@pytest.fixture
def folder(tmp_path):
    for name in ('a.jpg', 'x/b.jpg', 'y/b.jpg', 'x/c.jpg', 'x/c.txt'):
        path = tmp_path / 'photos' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / 'photos'


def test_names_are_paths_or_unique_base_names(folder):
    names = ['a.jpg', 'x/b.jpg', 'data\\y\\b.jpg', 'http://host/upload/c.jpg']
    located = named_images.locate(str(folder), names)
    expected = ['a.jpg', 'x/b.jpg', 'y/b.jpg', 'x/c.jpg']
    assert [located.paths[name] for name in names] == [str(folder / path) for path in expected]
    (note,) = located.notes
    assert note.startswith('2 images are found by the base name, the first: ')


@pytest.mark.parametrize(
    ('names', 'path'),
    [
        (['b.jpg'], 'b.jpg'),  # of two images
        (['z/b.jpg'], 'z/b.jpg'),
        (['a.jpg', 'z/a.jpg'], 'z/a.jpg'),  # another name has it
        (['v/a.jpg', 'w/a.jpg'], 'w/a.jpg'),
        (['z/d.jpg'], 'z/d.jpg'),
        (['../b.jpg'], None),
        (['a.jpg', '/root/a.jpg'], None),
        (['gs://bucket/d.jpg'], None),
        (['C:\\b.jpg'], None),
    ],
)
def test_images_are_never_guessed(folder, names, path):
    found = named_images.locate(str(folder), names).paths[names[-1]]
    assert found == (None if path is None else str(folder / path))


def test_names_without_an_ending(folder):
    located = named_images.locate(str(folder), ['a', 'c', 'b'])
    assert located.paths['a'] == str(folder / 'a.jpg')
    assert located.paths['c'] == str(folder / 'x/c.jpg')
    assert located.paths['b'] == str(folder / 'b')
