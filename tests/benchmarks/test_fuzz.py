"""Corrupt inputs are accepted or refused, and the campaign reports those that are neither."""

import random

import pytest

from benchmarks import fuzz, fuzz_data, fuzz_mutations, fuzz_targets
from estimator_lib import errors
from protos import pipeline_pb2


def test_corrupt_inputs_are_accepted_or_refused_with_a_sentence(tmp_path):
    (tmp_path / 'all').mkdir()
    # Files for devices are tried in processes of their own, which takes seconds for each.
    names = [name for name in fuzz_targets.Targets(tmp_path / 'all').all if name != 'tflite']
    assert len(names) == 20
    (tmp_path / 'run').mkdir()
    report = fuzz.run_cases(0, 240, seed=20, folder=tmp_path / 'run', names=names)
    assert report.faults == []
    assert report.count(fuzz.ACCEPTED) + report.count(fuzz.REFUSED) == 240
    # Each target refuses at least one corrupt input.
    assert [name for name in names if not report.counts[name, fuzz.REFUSED]] == []


class _Faulty:
    def __init__(self, folder):
        self.all = {'good': self._pass, 'bad': self._fail, 'unwanted': self._refuse}

    def _pass(self, generator):
        generator.random()

    def _fail(self, generator):
        raise KeyError(generator.random())

    def _refuse(self, generator):
        raise errors.DataError('no')


def test_a_fault_is_counted_and_can_be_repeated(monkeypatch, tmp_path):
    monkeypatch.setattr(fuzz_targets, 'Targets', _Faulty)
    said = []
    place = tmp_path / 'place'
    report = fuzz.run_cases(1, 6, seed=3, folder=tmp_path, place=place, say=said.append)
    assert report.lines() == [
        '              accepted   refused     other',
        'bad                  0         0         2',
        'good                 2         0         0',
        'unwanted             0         2         0',
        'tried 6, accepted 2, refused 2, other 2',
    ]
    assert place.read_text() == '6 good'
    assert said == report.faults
    value = random.Random('3/4/bad').random()
    assert said[1].startswith(
        'case 4: python -m benchmarks.fuzz --seed=3 --first=4 --cases=1 '
        '--targets=good,bad,unwanted\nTraceback'
    )
    assert f'KeyError: {value}' in said[1]


def test_a_campaign_ends_with_1_where_there_is_a_fault(monkeypatch, capsys):
    monkeypatch.setattr(fuzz_targets, 'Targets', _Faulty)
    monkeypatch.setattr(fuzz.logging, 'disable', lambda level: None)
    for names, status, told in (('good,unwanted', 0, 'other 0'), ('bad', 1, 'other 2')):
        with pytest.raises(SystemExit) as ended:
            fuzz.main(['--in_process', '--cases=2', f'--targets={names}'])
        assert ended.value.code == status
        assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    'corrupt',
    [
        lambda generator: fuzz_mutations.corrupt_bytes(generator, b'some bytes'),
        lambda generator: fuzz_mutations.corrupt_text(generator, fuzz_data.VOC),
        lambda generator: fuzz_mutations.corrupt_json(generator, fuzz_data.COCO),
        lambda generator: fuzz_mutations.corrupt_message(
            generator, pipeline_pb2.TrainEvalPipelineConfig()
        ).SerializeToString(deterministic=True),
    ],
)
def test_corruption_depends_on_the_seed_alone(corrupt):
    first = [corrupt(random.Random(seed)) for seed in range(40)]
    assert first == [corrupt(random.Random(seed)) for seed in range(40)]
    assert len(set(first)) > 10
