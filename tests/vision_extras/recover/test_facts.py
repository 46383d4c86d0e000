"""Facts about fields of a config."""

from protos import pipeline_pb2
from vision_extras.recover.facts import Proposal


def test_fact_covers_its_field_and_what_is_in_it():
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), 'x')
    assert proposal.learn('model.ssd.box_coder', 3, 'seen') == 3
    assert proposal.knows('model.ssd.box_coder')
    assert proposal.knows('model.ssd.box_coder.y_scale')
    assert not proposal.knows('model.ssd.box_coder_other')
