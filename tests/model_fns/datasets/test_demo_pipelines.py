import pathlib

import pytest
from google.protobuf import text_format

from model_fns.datasets import demo, shapes
from protos import pipeline_pb2


@pytest.mark.parametrize('task, kind', [('detection', 'ssd'), ('classification', 'classification')])
def test_pipelines_parse_and_fit_the_shapes(task, kind):
    text = pathlib.Path(demo.__file__).with_name(f'demo_{task}.config').read_text()
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    assert config.model.WhichOneof('model') == kind
    assert getattr(config.model, kind).num_classes == len(shapes.NAMES)
    # The data are named by who knows where they are.
    assert not config.train_input_reader.label_map_path
    assert not config.eval_input_reader
    assert config.train_config.num_steps > 0
