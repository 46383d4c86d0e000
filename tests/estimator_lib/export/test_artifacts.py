import hashlib
import json
import pathlib

import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import evaluated
from estimator_lib.export import artifacts
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task

NAN = float('nan')


class Named(tiny_task.Presented, tiny_task.TinyTask):
    class_names = ('left', 'right hand')

    checkpoints = tiny_task.with_files({'label_map.pbtxt': 'item {}'})


def refuse(constant):
    raise ValueError(f'{constant} is not JSON')


def test_files_beside_a_model(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_config.batch_size = 7
    evaluated.write(str(tmp_path), 3, {'val': {'accuracy': 0.25, 'recall': NAN}})
    folder = tmp_path / 'export'
    about = {'format': 'x', 'agreement': {'logits': NAN}, 'shape': (1, 2)}
    artifacts.write(str(folder), Named(), config, str(tmp_path / 'model.ckpt-3'), about)
    texts = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
    content = json.loads(texts.pop('export.json'), parse_constant=refuse)
    origin = content.pop('origin')
    assert (origin['global_step'], origin['checkpoint']) == (3, 'model.ckpt-3')
    assert content == {'format': 'x', 'agreement': {'logits': None}, 'shape': [1, 2]}
    metrics = json.loads(texts.pop('metrics.json'), parse_constant=refuse)
    assert metrics == {'global_step': 3, 'val': {'accuracy': 0.25}}
    assert texts == {
        'labels.txt': 'left\nright hand\n',
        'label_map.pbtxt': 'item {}',
        'pipeline.config': 'train_config {\n  batch_size: 7\n}\n',
    }


def test_a_task_without_class_names_and_a_checkpoint_without_evaluation(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    artifacts.write(str(tmp_path), tiny_task.TinyTask(), config, str(tmp_path / 'model.ckpt-3'), {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ['export.json', 'pipeline.config']
    assert artifacts.read_metrics(str(tmp_path / 'model.tflite')) == {}


def test_the_origin_is_equal_for_equal_models(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    (tmp_path / 'model.ckpt-3.index').write_text('values')
    prefix = str(tmp_path / 'model.ckpt-3')
    first = artifacts.origin(config, prefix)
    assert artifacts.origin(config, prefix) == first
    (tmp_path / 'model.ckpt-3.index').write_text('others')
    second = artifacts.origin(config, prefix)
    config.train_config.batch_size = 7
    third = artifacts.origin(config, prefix)
    assert len({one['fingerprint'] for one in (first, second, third)}) == 3


@pytest.mark.parametrize(
    ('files', 'expected'),
    [
        ({'export.json': '{"origin": {"global_step": 5}}'}, 5),
        ({'origin.json': '{"global_step": 4}'}, 4),  # of an earlier version
        ({'export.json': '{"origin": 3}'}, None),
        ({'export.json': 'not JSON'}, None),
        ({}, None),
    ],
)
def test_the_step_of_an_export(tmp_path, files, expected):
    (tmp_path / 'assets.extra').mkdir()
    for name, text in files.items():
        (tmp_path / 'assets.extra' / name).write_text(text)
    assert artifacts.read_step(str(tmp_path)) == expected


def test_size_and_digest(tmp_path):
    path = tmp_path / 'model.tflite'
    path.write_bytes(b'content')
    digest = hashlib.sha256(b'content').hexdigest()
    assert artifacts.describe_file(str(path)) == {'bytes': 7, 'sha256': digest}


def test_a_line_break_in_a_name_shifts_no_label():
    assert artifacts.label_lines(['a\nb', '\x1b[2J', 'c']) == 'a\\nb\n\\x1b[2J\nc\n'


def test_classes_of_another_config_are_refused(tmp_path, caplog):
    export = tmp_path / 'model.tflite'
    (tmp_path / 'labels.txt').write_text('cat\ndog\n')
    artifacts.check_classes(str(export), ['a'])  # of another program: it has no export.json
    (tmp_path / 'export.json').write_text('{"format": "tflite"}')
    artifacts.check_classes(str(export), ['cat', 'dog'])
    artifacts.check_classes(str(export), [])
    assert not caplog.messages
    with pytest.raises(errors.UserError) as caught:
        artifacts.check_classes(str(export), ['a', 'b', 'c'])
    assert str(caught.value) == (
        f'{export} has 2 classes (cat, dog), and the config has 3 (a, b, c); expected the '
        'pipeline.config that was exported with it.'
    )
    artifacts.check_classes(str(export), ['cat', 'wolf'])
    assert caplog.messages == [
        f"{export}: 1 of 2 classes have other names in the config: 'dog' is 'wolf' there"
    ]


def test_a_file_without_a_recorded_checksum_is_not_read(tmp_path):
    artifacts.check_file(str(tmp_path / 'absent'), {'format': 'saved_model'})
