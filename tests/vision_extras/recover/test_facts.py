"""Facts about fields of a config."""

from protos import box_predictors_pb2, pipeline_pb2
from vision_extras.recover.facts import Proposal


def test_fact_covers_its_field_and_what_is_in_it():
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), 'x')
    assert proposal.learn('model.ssd.box_coder', 3, 'seen') == 3
    assert proposal.knows('model.ssd.box_coder')
    assert proposal.knows('model.ssd.box_coder.y_scale')
    assert not proposal.knows('model.ssd.box_coder_other')


def test_fields_are_set_by_their_paths():
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), 'x')
    where = 'model.ssd.post_processing'
    proposal.set(f'{where}.score_converter', 'SOFTMAX', 'seen')
    proposal.set(f'{where}.logit_scale', 0.1234567, 'seen')
    ratios = 'model.ssd.anchor_generator.ssd_anchor_generator.aspect_ratios'
    proposal.set(ratios, [2, 3], 'seen')
    proposal.set(ratios, [4], 'seen')
    post_processing = proposal.at(where)
    assert post_processing.score_converter == post_processing.SOFTMAX
    assert round(post_processing.logit_scale, 8) == 0.123457
    assert list(proposal.at(ratios)) == [4]
    assert [fact.value for fact in proposal.facts] == ['SOFTMAX', '0.123457', '[2, 3]', '[4]']


def test_fields_of_a_part_are_facts():
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), 'x')
    part = box_predictors_pb2.BoxPredictor()
    part.convolutional_box_predictor.kernel_size = 3
    proposal.at('model.ssd.box_predictor').convolutional_box_predictor.min_depth = 7
    proposal.merge('model.ssd.box_predictor', part, 'seen')
    head = proposal.at('model.ssd.box_predictor.convolutional_box_predictor')
    assert (head.kernel_size, head.min_depth) == (3, 7)
    assert [fact.path for fact in proposal.facts] == [
        'model.ssd.box_predictor.convolutional_box_predictor.kernel_size'
    ]
