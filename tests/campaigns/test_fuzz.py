"""Malformed inputs are accepted or refused; and the campaign reports those that are not."""

import importlib.util
import json
import random

import pytest
from google.protobuf import struct_pb2

from estimator_lib import errors
from protos import pipeline_pb2
from tests.campaigns.fuzz import campaign, mutations, targets, valid_inputs

# Each of their cases takes a second or more: a process, a graph of a network.
SLOW = ('tflite', 'export')
# Without Beam, which tests of the newest TensorFlow do not install, each runner is refused.
NEEDS_BEAM = () if importlib.util.find_spec('apache_beam') else ('runner',)


@pytest.fixture(scope='module')
def quick_targets(tmp_path_factory):
    all_targets = targets.create(tmp_path_factory.mktemp('targets'))
    assert len(all_targets) >= 27
    return {name: target for name, target in all_targets.items() if name not in SLOW}


def test_malformed_inputs_are_accepted_or_refused_with_a_sentence(quick_targets):
    for name, target in quick_targets.items():
        # Only of a cache and of the files of a run is what is malformed left out.
        needed = int(name not in ('cache', 'state', 'run_files', 'past_run'))
        number, refused = 0, 0
        while number < 1 or (refused < needed and number < 30):
            report = campaign.run_cases([number], 7, {name: target})
            assert report.faults == []
            refused += report.count(campaign.REFUSED)
            number += 1
        assert refused >= needed, name


# What leaves an input as it is, by the name of the function that changes it.
UNCHANGED = {
    'mutate_bytes': lambda generator, content: content,
    'mutate_text': lambda generator, text: text.encode(),
    'mutate_json': lambda generator, value: json.dumps(value).encode(),
    'mutate_message': lambda generator, message: message,
}


def test_each_target_accepts_its_valid_input(quick_targets, monkeypatch):
    """Where the valid input itself is refused, no malformed one is ever tried."""
    for group in targets._GROUPS:
        for name in UNCHANGED.keys() & vars(group).keys():
            monkeypatch.setattr(group, name, UNCHANGED[name])
    refused = []
    for name in quick_targets.keys() - set(NEEDS_BEAM):
        target = quick_targets[name]
        # Some draw what is malformed by other means too.
        reports = (campaign.run_cases([number], 7, {name: target}) for number in range(20))
        if not any(report.count(campaign.ACCEPTED) for report in reports):
            refused.append(name)
    assert not refused


def accept(generator):
    generator.random()


def fail(generator):
    raise KeyError(generator.random())


def refuse(generator):
    raise errors.DataError('no')


CASES = {'good': accept, 'bad': fail, 'unwanted': refuse}


def test_a_fault_is_counted_and_can_be_repeated(tmp_path):
    told = []
    journal = campaign.Journal(tmp_path / 'journal')
    report = campaign.run_cases(range(1, 7), 3, CASES, told.append, journal)
    assert report.lines() == [
        '                  accepted   refused     other',
        'bad                      0         0         2',
        'good                     2         0         0',
        'unwanted                 0         2         0',
        'tried 6, accepted 2, refused 2, other 2',
    ]
    assert told == report.faults
    value = random.Random('3/4/bad').random()
    assert told[1].startswith(
        'case 4: python -m tests.campaigns.fuzz --seed=3 --first=4 --cases=1 '
        '--targets=good,bad,unwanted\nTraceback'
    )
    assert f'KeyError: {value}' in told[1]
    read = campaign.Report()
    assert journal.read(read) is None
    assert read.counts == report.counts


def test_a_case_that_takes_too_long_or_too_much_memory_is_a_fault(monkeypatch):
    monkeypatch.setattr(campaign, 'MOST_SECONDS', 0.01)
    report = campaign.run_cases(range(1), 0, {'slow': lambda generator: sum(range(10**7))})
    assert report.faults[0].endswith('0 s of computing; expected at most 0 s')
    monkeypatch.setattr(campaign, 'MOST_MEGABYTES', 1)
    monkeypatch.setattr(campaign, 'MOST_SECONDS', 60)
    report = campaign.run_cases(range(1), 0, {'large': accept})
    assert 'MB of memory; expected at most 1 MB' in report.faults[0]
    assert report.count(campaign.OTHER) == 1


def test_the_case_that_a_process_dies_of_is_a_fault_and_the_next_one_runs(monkeypatch):
    """The process of the cases is played by a function: it dies in case 2, of 0 to 3."""
    started = []

    def run(command, path):
        flags = dict(one[2:].split('=') for one in command if one.startswith('--'))
        started.append(flags)
        journal, first = campaign.Journal(path), int(flags['first'])
        for number in range(first, first + int(flags['cases'])):
            journal.begin(number, 'list')
            if number == 2:
                return -11
            journal.end(campaign.REFUSED, 1.5, 100 * number)
        return 0

    monkeypatch.setattr(campaign, '_run_until_silent', run)
    told = []
    report = campaign.supervise(0, 4, 7, 'list', told.append)
    assert [(one['first'], one['cases'], one['seed']) for one in started] == [
        ('0', '4', '7'),
        ('3', '1', '7'),
    ]
    assert report.lines()[-1] == 'tried 4, accepted 0, refused 3, other 1'
    assert (report.slowest, report.largest) == (1.5, 300)
    assert told == report.faults
    assert told[0].startswith('case 2 (list) has ended the process with status -11: ')


def test_a_process_that_hangs_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, 'HANGING_SECONDS', 0.0)
    path = tmp_path / 'journal'
    path.write_text('')
    assert campaign._run_until_silent(['sleep', '600'], path) == -9


@pytest.mark.parametrize(('faults', 'status'), [([], 0), (['case 1'], 1)])
def test_a_campaign_ends_with_1_where_there_is_a_fault(monkeypatch, capsys, faults, status):
    def supervise(first, count, seed, names):
        report = campaign.Report()
        report.faults += faults
        report.counts[names, campaign.ACCEPTED] = count
        return report

    monkeypatch.setattr(campaign, 'supervise', supervise)
    with pytest.raises(SystemExit) as ended:
        campaign.main(['--cases=2', '--targets=coco'])
    assert ended.value.code == status
    assert 'tried 2, accepted 2' in capsys.readouterr().out


@pytest.mark.parametrize(
    'mutate',
    [
        lambda generator: mutations.mutate_bytes(generator, b'some bytes'),
        lambda generator: mutations.mutate_text(generator, valid_inputs.VOC),
        lambda generator: mutations.mutate_json(generator, valid_inputs.COCO),
        lambda generator: mutations.mutate_message(
            generator, pipeline_pb2.TrainEvalPipelineConfig()
        ).SerializeToString(deterministic=True),
    ],
)
def test_mutations_depend_on_the_seed_alone(mutate):
    first = [mutate(random.Random(seed)) for seed in range(40)]
    assert first == [mutate(random.Random(seed)) for seed in range(40)]
    assert len(set(first)) > 10


def test_fields_with_keys_are_mutated_too():
    message = struct_pb2.Struct()
    message['a'] = 1
    cleared = [mutations.mutate_message(random.Random(seed), message) for seed in range(20)]
    assert any(not one.fields for one in cleared)
