"""Archives are extracted once, and none of them writes elsewhere or fills the disk."""

import stat
import zipfile

import pytest

from estimator_lib import errors
from model_fns.datasets.recognition import archives, recognizers
from tests.model_fns.datasets.recognition import public_layouts


def test_a_zip_of_a_data_set_is_extracted_once(tmp_path):
    public_layouts.write_yolo(tmp_path / 'set')
    path = tmp_path / 'set.zip'
    with zipfile.ZipFile(path, 'w') as archive:
        for file in (tmp_path / 'set').rglob('*.*'):
            archive.write(file, file.relative_to(tmp_path))
    folder = archives.extract(str(path), str(tmp_path / 'run' / 'files'))
    assert recognizers.recognize(folder).description == 'YOLO boxes of data.yaml'
    path.unlink()
    assert archives.extract(str(path), folder) == folder
    assert [each.name for each in (tmp_path / 'run').iterdir()] == ['files']


def test_names_that_leave_the_folder_and_links_are_refused(tmp_path):
    path = tmp_path / 'set.zip'
    link = zipfile.ZipInfo('link')
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for name, text in (
        ('../x.txt', 'leaves'),
        ('/x.txt', 'leaves'),
        ('a\\..\\..\\x', 'leaves'),
        (link, 'link'),
    ):
        with zipfile.ZipFile(path, 'w') as archive:
            archive.writestr(name, 'x')
        with pytest.raises(errors.DataError, match=text):
            archives.extract(str(path), str(tmp_path / 'run' / 'files'))
    assert not list((tmp_path / 'run').iterdir())


def test_bombs_and_other_files_are_refused(tmp_path):
    path = tmp_path / 'set.zip'
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('a.txt', bytes(300 << 20))
    with pytest.raises(errors.DataError, match='of 0 MiB would become 1 files of 300 MiB'):
        archives.extract(str(path), str(tmp_path / 'files'))
    path.write_bytes(b'no zip')
    with pytest.raises(errors.DataError, match='set.zip cannot be extracted'):
        archives.extract(str(path), str(tmp_path / 'files'))
