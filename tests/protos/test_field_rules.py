"""Rules of single fields: read from the options, about what there is, and true of the defaults."""

import collections
import math

import pytest
from google.protobuf import descriptor as descriptor_lib

from protos import field_rules, input_reader_pb2, model_pb2, pipeline_pb2, rules_pb2, ssd_pb2
from protos.field_rules import Range

Field = descriptor_lib.FieldDescriptor
NUMBERS = (Field.CPPTYPE_INT32, Field.CPPTYPE_UINT32, Field.CPPTYPE_UINT64, Field.CPPTYPE_FLOAT)
# Any finite number will do.
UNBOUNDED = """
AdjustGamma.gain ArgMaxMatcher.matched_threshold ArgMaxMatcher.unmatched_threshold
BoxEncodingsClipRange.max BoxEncodingsClipRange.min CenterNetFeatureExtractor.channel_means
ConvolutionalBoxPredictor.class_prediction_bias_init KeepAspectRatioResizer.per_channel_pad_value
KeypointEstimation.heatmap_bias_init NormalizeImage.original_maxval NormalizeImage.original_minval
NormalizeImage.target_maxval NormalizeImage.target_minval ObjectCenterParams.heatmap_bias_init
RandomAbsolutePadImage.pad_color RandomCropPadImage.pad_color RandomNormalInitializer.mean
RandomPadImage.pad_color SSDRandomCropPadOperation.pad_color_b
SSDRandomCropPadOperation.pad_color_g SSDRandomCropPadOperation.pad_color_r SigmoidParameters.a
SigmoidParameters.b SubtractChannelMean.means TruncatedNormalInitializer.mean
WeightSharedConvolutionalBoxPredictor.class_prediction_bias_init XYPair.x XYPair.y
"""


def reachable_messages():
    """Return the messages that a config can set, except those that are errors for all tasks."""
    found, queue = {}, [pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR]
    while queue:
        message = queue.pop()
        if message.full_name in found:
            continue
        found[message.full_name] = message
        for field in message.fields:
            rule = field_rules.get_rule(field)
            refused = rule.unsupported and not rule.only_for and not rule.values
            if field.message_type is not None and not refused:
                queue.append(field.message_type)
    return list(found.values())


FIELDS = [field for message in reachable_messages() for field in message.fields]


def test_this_is_about_many_fields():
    assert len(FIELDS) > 900
    ruled = [field for field in FIELDS if field_rules.get_rule(field).ListFields()]
    assert len(ruled) > 600


def test_a_rule_is_read():
    fields = ssd_pb2.Ssd.DESCRIPTOR.fields_by_name
    assert field_rules.get_range(fields['num_classes']) == Range(1, 1_000_000)
    assert field_rules.get_rule(fields['num_classes']).required
    assert field_rules.get_rule(fields['mask_head_config']).unsupported == (
        'masks need a two-stage model'
    )
    assert field_rules.get_range(fields['freeze_batchnorm']) is None
    required = field_rules.find_fields(ssd_pb2.Ssd.DESCRIPTOR, 'required')
    assert len(required) == 9 and required[0].name == 'num_classes'
    model = model_pb2.DetectionModel.DESCRIPTOR.oneofs_by_name['model']
    assert not field_rules.is_needed(model)
    coders = ssd_pb2.Ssd.DESCRIPTOR.fields_by_name['box_coder'].message_type.oneofs
    assert all(map(field_rules.is_needed, coders))


def test_a_field_adds_its_own_parts_to_a_shared_rule():
    field = input_reader_pb2.InputReader.DESCRIPTOR.fields_by_name['num_keypoints']
    rule = field_rules.get_rule(field)
    assert rule.only_for == 'detection'
    assert rule.ignored == 'it is about boxes, masks or keypoints, and the model has none'
    assert field_rules.get_range(field) == Range(0, 1000)
    assert field in field_rules.find_fields(field.containing_type, 'only_for')


def test_every_shared_rule_is_shared():
    values = rules_pb2.SharedRule.DESCRIPTOR.values_by_number
    users = collections.Counter(field_rules.get_rule(field).shared for field in FIELDS)
    assert [value.name for number, value in values.items() if users[number] < 2] == []


@pytest.mark.parametrize(
    ('rule', 'inside', 'outside', 'text'),
    [
        ({'min': 1}, [1, 2, math.inf], [0, -1, math.nan], 'at least 1'),
        ({'more_than': 0}, [1e-9], [0, -1], 'more than 0'),
        ({'min': 0, 'less_than': 1}, [0, 0.999], [1, -0.1], 'at least 0 and less than 1'),
        ({'more_than': 0, 'max': 1}, [1, 0.1], [0, 1.1], 'more than 0 and at most 1'),
        ({'max': 0}, [0, -5], [0.1], 'at most 0'),
        ({'max': 1e6}, [0, 10**6], [10**6 + 1], 'at most 1000000'),
    ],
)
def test_ranges(rule, inside, outside, text):
    allowed = field_rules.to_range(rules_pb2.Rule(**rule))
    assert all(allowed.holds(value) for value in inside)
    assert not any(allowed.holds(value) for value in outside)
    assert str(allowed) == text


def test_a_fraction_that_a_float_does_not_have_is_in_its_own_range():
    allowed = field_rules.to_range(rules_pb2.Rule(min=0.01))
    assert allowed.holds(rules_pb2.Rule(min=0.01).min)


def test_no_interval():
    assert field_rules.to_range(rules_pb2.Rule(required=True)) is None


def contradictions(field):
    """Yield what is wrong with the rule of a field."""
    rule, allowed = field_rules.get_rule(field), field_rules.get_range(field)
    if allowed is not None and field.cpp_type not in NUMBERS:
        yield 'a range of what is no number'
    if allowed is not None and field.has_default_value and not allowed.holds(field.default_value):
        yield 'the default is out of range'
    if any(reason != reason.strip(' .') for reason in (rule.ignored, rule.unsupported)):
        yield 'the reason is no phrase'
    if rule.required and field.has_default_value:
        yield 'required, with a default'
    if rule.HasField('min') and rule.HasField('more_than'):
        yield 'two lower bounds'
    if rule.HasField('max') and rule.HasField('less_than'):
        yield 'two upper bounds'
    if rule.not_above:
        other = field.containing_type.fields_by_name[rule.not_above]
        if field.default_value > other.default_value:
            yield 'the defaults are out of order'
    if rule.values and not rule.unsupported:
        yield 'some values, without the reason'
    if field.enum_type is not None and set(rule.values) - set(field.enum_type.values_by_name):
        yield 'a value that there is not'


def test_rules_fit_their_fields():
    found = {field.full_name: list(contradictions(field)) for field in FIELDS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_every_float_has_a_range_or_needs_none():
    unbounded = {
        f'{field.containing_type.name}.{field.name}'
        for field in FIELDS
        if field.cpp_type == Field.CPPTYPE_FLOAT
        and field_rules.get_range(field) is None
        and not (field_rules.get_rule(field).unsupported or field_rules.get_rule(field).ignored)
    }
    # The values of maps, which are checked with their keys.
    unbounded = {name for name in unbounded if not name.endswith('Entry.value')}
    assert unbounded == set(UNBOUNDED.split())
