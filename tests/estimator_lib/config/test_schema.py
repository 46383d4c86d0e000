"""Questions about the schema."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estimator_lib.config import field_settings, schema
from protos import other_names, pipeline_pb2, post_processing_pb2

Config = pipeline_pb2.TrainEvalPipelineConfig
ROOT = Config.DESCRIPTOR


def test_messages_are_reached_by_shortest_paths_through_maps_too():
    paths = {
        schema.short_name(message): path
        for message, path in schema.reachable_messages(ROOT).items()
    }
    assert paths['TrainEvalPipelineConfig'] == ''
    assert paths['Optimizer'] == 'train_config.optimizer'
    assert paths['Ssd.MaskHead'] == 'model.ssd.mask_head_config'
    assert paths['SigmoidParameters'].startswith('model.')
    assert not any(name.endswith('Entry') for name in paths)


def fields_below(root):
    messages = schema.reachable_messages(root)
    return [(schema.short_name(each), field.name) for each in messages for field in each.fields]


def test_fields_of_recursive_parts_are_listed_once():
    fields = fields_below(ROOT)
    assert len(fields) == len(set(fields))
    assert ('TrainConfig', 'batch_size') in fields
    assert ('XYPairs.XYPair', 'x') in fields


def test_maps_are_told_from_lists():
    message = post_processing_pb2.ClassIdSigmoidCalibrations.DESCRIPTOR
    field = message.fields_by_name['class_id_sigmoid_parameters_map']
    assert schema.is_map(field)
    assert not schema.is_map(ROOT.fields_by_name['eval_input_reader'])


def test_every_field_that_another_system_s_name_stands_for_exists():
    for path in set(other_names.ELSEWHERE.values()):
        message = ROOT
        *messages, last = path.split('.')
        for name in messages:
            message = message.fields_by_name[name].message_type
        assert last in message.fields_by_name, path


def test_no_name_of_another_system_hides_a_field_of_ours():
    ours = {name for _, name in fields_below(ROOT)}
    assert ours.isdisjoint(other_names.ELSEWHERE)


def test_fields_elsewhere_are_paths_that_a_setting_takes():
    for path in schema.fields_elsewhere('num_classes', ROOT):
        field_settings.apply_setting(Config(), f'{path}=3')


def test_other_systems_names_are_known_for_whole_configs_alone():
    optimizer = ROOT.fields_by_name['train_config'].message_type.fields_by_name['optimizer']
    assert schema.fields_elsewhere('max_steps', ROOT) == ['train_config.num_steps']
    assert schema.fields_elsewhere('max_steps', optimizer.message_type) == []


def test_known_fields_are_wrapped_and_complete():
    message = ROOT.fields_by_name['train_config'].message_type
    text = schema.known_fields('batch_sise', message)
    assert max(map(len, text.splitlines())) <= 100
    assert all(field.name in text for field in message.fields)


@given(st.integers(1, 40))
def test_the_number_that_was_written(twentieths):
    assert schema.decimal_number(float(np.float32(twentieths / 20))) == twentieths / 20
