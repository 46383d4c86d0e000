import pytest
from google.protobuf import text_format

from model_fns.datasets import demo_pipelines, shapes
from protos import pipeline_pb2


@pytest.mark.parametrize(
    'text, kind',
    [(demo_pipelines.DETECTION, 'ssd'), (demo_pipelines.CLASSIFICATION, 'classification')],
)
def test_pipelines_parse_and_fit_the_shapes(text, kind):
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    assert config.model.WhichOneof('model') == kind
    assert getattr(config.model, kind).num_classes == len(shapes.NAMES)
    # The data are named by who knows where they are.
    assert not config.train_input_reader.label_map_path
    assert not config.eval_input_reader
    assert config.train_config.num_steps > 0
