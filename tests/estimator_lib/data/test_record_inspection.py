import pytest

from estimator_lib.data import inputs
from estimator_lib.task import DataChecks
from protos import input_reader_pb2
from tests.estimator_lib.data import record_cases as cases


class Checks(DataChecks):
    """Objects to the number 5, which decodes."""

    def check_example(self, serialized):
        return 'id is 5' if serialized == cases.example(5) else None


class CheckingTask(cases.IdTask):
    checks = Checks()


def _write(folder):
    numbers = [cases.example(number) for number in range(20)]
    numbers[3] = cases.example(cases.BAD_LABEL)
    numbers[15] = b'\x07nonsense\xff'
    return [
        cases.write(folder / 'a', numbers[:10]),
        cases.write(folder / 'b', numbers[10:]),
    ]


def test_all_problems_are_found(tmp_path):
    first, second = _write(tmp_path)
    frame = len(cases.example(1)) + 16
    cases.change_byte(second, 2 * frame + 14)
    steps = []
    problems = inputs.inspect_records(
        CheckingTask(),
        cases.reader_of(str(tmp_path / '*')),
        check_all=True,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert [str(problem) for problem in problems] == [
        f'{first}, record 3: id is 999 expected less than 999',
        f'{first}, record 5: id is 5',
        f"{second}, record 2: the CRC of the record's bytes is wrong",
        f'{second}, record 5: not a tf.train.Example',
    ]
    assert steps[-1] == (20, 20)


def test_a_sample_is_the_first_of_each_file_and_all_frames(tmp_path):
    first, second = _write(tmp_path)
    with open(second, 'r+b') as file:
        file.truncate(tmp_path.joinpath('b').stat().st_size - 1)
    problems = inputs.inspect_records(
        cases.IdTask(), cases.reader_of(str(tmp_path / '*')), sample=4
    )
    assert [(problem.path, problem.index) for problem in problems] == [(first, 3), (second, 9)]
    assert problems[1].problem.startswith('truncated')


def test_a_chain_of_frames_that_ends_early_is_told_once(tmp_path):
    path = cases.write_ids(tmp_path / 'a', range(5))
    with open(path, 'r+b') as file:
        file.truncate(tmp_path.joinpath('a').stat().st_size - 1)
    for check_all in (False, True):
        problems = inputs.inspect_records(
            cases.IdTask(), cases.reader_of(path), check_all=check_all
        )
        assert [problem.index for problem in problems] == [4]


def test_looking_ends_after_so_many_problems(tmp_path):
    path = cases.write_ids(tmp_path / 'a', [cases.BAD_LABEL] * 200)
    steps = []
    problems = inputs.inspect_records(
        cases.IdTask(),
        cases.reader_of(path),
        check_all=True,
        max_problems=10,
        progress=lambda done, total: steps.append(done),
    )
    assert len(problems) == 10
    assert steps == list(range(1, 11))


def test_sound_records_have_no_problem(tmp_path):
    pattern = cases.write_shards(tmp_path, [5, 5])
    assert inputs.inspect_records(cases.IdTask(), cases.reader_of(pattern), check_all=True) == []


class TellingChecks(DataChecks):
    """Reports the arguments of a check."""

    def check_first_examples(self, records, are_all):
        return [f'{len(records)} {are_all}', *{record.decode() for record in records}]


class SequenceTask(cases.IdTask):
    """Task whose sequences are their frames, joined by |."""

    checks = TellingChecks()

    def split_sequence(self, serialized):
        return serialized.split(b'|')


def _check_first(path, **fields):
    return inputs.check_first_examples(SequenceTask(), cases.reader_of(path, **fields))


@pytest.mark.parametrize(
    'count, expected', [(99, '99 True'), (100, '100 False'), (120, '100 False')]
)
def test_the_first_examples_are_at_most_a_hundred(tmp_path, count, expected):
    path = cases.write(tmp_path / 'a', [b'x|y'] * count)
    assert _check_first(path) == [expected, 'x|y']


@pytest.mark.parametrize('count, expected', [(60, '120 True'), (100, '200 False')])
def test_the_first_examples_of_sequences_are_their_frames(tmp_path, count, expected):
    path = cases.write(tmp_path / 'a', [b'x|x'] * count)
    sequence = input_reader_pb2.TF_SEQUENCE_EXAMPLE
    assert _check_first(path, input_type=sequence) == [expected, 'x']


def test_first_examples_behind_a_corrupt_frame_come_from_the_next_file(tmp_path):
    """A training that skips corrupt records learns from these."""
    first = cases.write(tmp_path / 'a', [b'one'] * 2)
    cases.change_byte(first, 3 + 16 + 2)  # a byte of the second length
    cases.write(tmp_path / 'b', [b'one'] * 200)
    assert _check_first(str(tmp_path / '*')) == ['100 False', 'one']
