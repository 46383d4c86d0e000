"""Names of other versions: of fields that are here, and that this schema does not use itself."""

from protos import pipeline_pb2
from protos.other_names import ELSEWHERE


def test_paths_lead_to_fields():
    for name, path in ELSEWHERE.items():
        message = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
        for part in path.split('.'):
            field = message.fields_by_name[part]
            message = field.message_type
        assert name != field.name
