"""Images and annotations of equal stems."""

import pytest

from estimator_lib import errors
from model_fns.datasets.annotations import paired
from tests.model_fns.datasets.converted import write_image


class Texts(paired.PairedSource):
    def class_names(self, items):
        return []

    def features(self, item, header, classes, report):
        return {}


@pytest.fixture
def folders(tmp_path):
    for name in ('a', 'b', 'c'):
        write_image(tmp_path / 'images' / f'{name}.png')
    (tmp_path / 'texts').mkdir()
    for name in ('a.txt', 'd.TXT', '.b.txt', 'b.xml'):
        (tmp_path / 'texts' / name).write_text('')
    return str(tmp_path / 'images'), str(tmp_path / 'texts')


def test_what_has_no_partner_is_told(folders):
    source = Texts(*folders)
    (item,) = source.items()
    assert item.source_id == 'a.png' and item.annotation.endswith('texts/a.txt')
    (note,) = source.notes()
    assert '2 images have no annotation in' in note and note.endswith('b.png, c.png.')
    (problem,) = source.problems()
    assert problem.endswith('has the stem of 1 text file: d.TXT.')


def test_images_without_objects(folders):
    source = Texts(*folders)
    source.needs_annotation = False
    assert [item.annotation != '' for item in source.items()] == [True, False, False]
    assert not source.notes()


def test_folders_that_are_none(folders, tmp_path):
    with pytest.raises(errors.DataError, match='--annotations: there is no folder nowhere'):
        Texts(folders[0], 'nowhere').items()
    (tmp_path / 'empty').mkdir()
    with pytest.raises(errors.DataError, match=r'the stem of any of the images in .* \(3 images\)'):
        Texts(folders[0], str(tmp_path / 'empty')).items()
