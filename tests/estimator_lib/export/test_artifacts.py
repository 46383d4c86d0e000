import json
import pathlib

from estimator_lib.export import artifacts
from protos import pipeline_pb2
from tests.estimator_lib import tiny_task


class Named(tiny_task.TinyTask):
    def class_names(self):
        return ['left', 'right hand']

    def asset_files(self):
        return {'label_map.pbtxt': 'item {}'}


def test_what_lies_beside_a_file(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.train_config.batch_size = 7
    artifacts.write(str(tmp_path), Named(), config, {'format': 'x', 'bytes': 3})
    texts = {path.name: path.read_text() for path in pathlib.Path(tmp_path).iterdir()}
    assert json.loads(texts.pop('export.json')) == {'format': 'x', 'bytes': 3}
    assert texts == {
        'labels.txt': 'left\nright hand\n',
        'label_map.pbtxt': 'item {}',
        'pipeline.config': 'train_config {\n  batch_size: 7\n}\n',
    }


def test_a_task_without_names_of_classes_has_no_labels(tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    artifacts.write(str(tmp_path), tiny_task.TinyTask(), config, {})
    assert not (tmp_path / 'labels.txt').exists()
