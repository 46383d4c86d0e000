"""Labels that a half of the images loses, and the configs that learn from it."""

from google.protobuf import text_format

from benchmarks.accuracy import missing_labels, recipe_gains
from protos import pipeline_pb2


def test_each_run_reads_its_part_and_only_lists_lose_classes(tmp_path, monkeypatch, capsys):
    sets = tmp_path / 'bccd' / 'ImageSets' / 'Main'
    sets.mkdir(parents=True)
    (sets / 'trainval.txt').write_text('a b c')
    (sets / 'test.txt').write_text('d')
    (tmp_path / 'bccd' / 'Annotations').mkdir()
    for stem in 'abcd':
        names = ''.join(f'<object><name>{name}</name></object>' for name in ('RBC', 'Platelets'))
        text = f'<annotation>{names}</annotation>'
        (tmp_path / 'bccd' / 'Annotations' / f'{stem}.xml').write_text(text)
    configs = []

    def train(data_set, fragment, seed, steps, work):
        configs.append(text_format.Merge(fragment, pipeline_pb2.TrainEvalPipelineConfig()))
        return recipe_gains.Score((0.5,) * len(data_set.metrics), 1.0, f'{work}/run-{seed}-{steps}')

    monkeypatch.setattr(recipe_gains, 'find_images', lambda: str(tmp_path))
    monkeypatch.setattr(recipe_gains, 'convert', lambda *arguments: None)
    monkeypatch.setattr(recipe_gains, 'train', train)
    work = tmp_path / 'work'
    assert missing_labels.main([f'--work={work}', '--steps=10']) == 0
    readers = [config.train_input_reader for config in configs]
    assert [list(reader.labeled_classes) for reader in readers] == [
        [],
        ['', 'RBC'],
        [],
        ['', 'RBC,WBC'],
        ['', 'RBC,WBC'],
    ]
    restored = [config.train_config.fine_tune_checkpoint for config in configs]
    assert restored == ['', '', '', '', f'{work}/two/run-1-10']
    assert (work / 'labels' / 'red.txt').read_text() == 'a\nc'
    assert 'Platelets' not in (work / 'labels' / 'red' / 'a.xml').read_text()
    assert 'Platelets' in (work / 'labels' / 'trainval' / 'b.xml').read_text()
    assert 'Platelets' not in (work / 'two' / 'labels' / 'test' / 'd.xml').read_text()
    assert '| from the checkpoint | 0.500 | +0.000 |' in capsys.readouterr().out
