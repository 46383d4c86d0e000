"""Data sets in another format, with a reader that the test registers."""

import pytest

from estimator_lib import errors
from estimator_lib.data import file_examples, inputs, records
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases


class Numbers(file_examples.FileExamples):
    """Examples of the numbers from 0; one is not usable."""

    path = 'numbers'

    def __init__(self, count, bad=-1):
        self._count = count
        self._bad = bad

    def __len__(self):
        return self._count

    def read(self, index):
        if index == self._bad:
            raise file_examples.UnusableFileError(self.place(index), 'it is bad')
        return cases.example(index)

    def place(self, index):
        return f'{index}.txt'

    def contents(self):
        return [(self.place(index), 2) for index in range(self._count)]


@pytest.fixture
def reader(monkeypatch):
    registered = {'voc_input_reader': lambda reader, index: Numbers(7 + index, bad=3)}
    monkeypatch.setattr(file_examples.OPENERS, '_parts', registered)
    reader = input_reader_pb2.InputReader(name='mine')
    reader.voc_input_reader.image_path.extend(['one', 'two'])
    return reader


def test_they_are_files_of_records(reader):
    first, second = inputs.input_files(reader)
    assert (first.path, first.size, second.size) == ('numbers', 14, 16)
    assert inputs.count_records([first, second]) == 15
    assert first.locate(2) == ('2.txt', records.WHOLE_FILE)
    assert records.first_records([first, second], 8) == [
        cases.example(number) for number in (0, 1, 2, 4, 5, 6, 0, 1)
    ]


def test_what_is_not_usable_is_named(reader):
    problems = inputs.inspect_records(cases.IdTask(), reader)
    assert list(map(str, problems)) == ['3.txt: it is bad', '3.txt: it is bad']
    assert [problem.place for problem in problems] == ['3.txt', '3.txt']


def test_skipped_examples_are_counted(reader):
    reader.corrupt_record_policy = input_reader_pb2.SKIP
    read = cases.run(reader, mode=cases.EVAL)
    assert sorted(read.all_ids) == sorted([0, 1, 2, 4, 5, 6, 0, 1, 2, 4, 5, 6, 7])
    assert read.skipped[-1] == 2


def test_an_unknown_reader_is_refused(reader, monkeypatch):
    monkeypatch.setattr(file_examples.OPENERS, '_parts', {})
    with pytest.raises(errors.ConfigError, match="unknown reader of files 'voc_input_reader'"):
        inputs.input_files(reader)


def test_a_path_is_needed(reader):
    del reader.voc_input_reader.image_path[:]
    said = "input reader 'mine': voc_input_reader.image_path: no path is given; expected"
    with pytest.raises(errors.DataError, match=said):
        inputs.input_files(reader)
