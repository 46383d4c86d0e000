"""The table of `benchmarks.accuracy.data_command`; its runs are a campaign."""

from benchmarks import measuring
from benchmarks.accuracy import data_command


def test_a_row_has_the_metrics_of_each_seed_and_the_mean_of_the_first():
    row = data_command.format_row('bccd', [[0.80, 0.40], [0.90, 0.44]])
    assert row == ['bccd', '0.800, 0.900', '0.400, 0.440', '0.850']


def test_each_seed_is_a_run_of_its_own(tmp_path, monkeypatch, capsys):
    commands = []

    def run_process(command, **_):
        commands.append(dict(word.partition('=')[::2] for word in command))
        path = commands[-1]['--model_dir'] + '/results.csv'
        with open(path, 'w') as file:
            columns = ','.join(f'eval_0/{metric}' for metric in data_command.METRICS)
            file.write(f'step,{columns}\n10,0.25,0.1\n20,0.5,0.2\n30,,\n')

    monkeypatch.setattr(measuring, 'run_process', run_process)
    data = tmp_path / 'cells'
    data_command.main([f'--work={tmp_path}', f'--data={data}', '--seeds=3,4', '--minutes=2'])
    assert [command['--model_dir'] for command in commands] == [
        f'{tmp_path}/3/cells-2',
        f'{tmp_path}/4/cells-2',
    ]
    assert commands[1]['--set'] == 'train_config.random_seed=4'
    assert '| cells | 0.500, 0.500 | 0.200, 0.200 | 0.500 |' in capsys.readouterr().out
