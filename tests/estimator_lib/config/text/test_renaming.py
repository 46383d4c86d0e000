import logging

import pytest

from estimator_lib import errors
from estimator_lib.config import loading, schema
from estimator_lib.config.text import parsing, renaming
from protos import box_coding_pb2, other_names, pipeline_pb2, ssd_pb2

BRANCH = """
model {
  rssd {  # rssd stays in comments
    num_classes: 4
    box_coder { faster_rcnn_rbox_coder { angle_scale: 5 } }
    anchor_generator {
      rssd_anchor_generator { angles: [0, 1.57] num_aspect_ration_of_middle_scale: 1 }
    }
    post_processing {
      batch_non_max_suppression { box_type: RBBOX handle_as_single_class: true }
    }
  }
}
train_config {
  data_augmentation_options { random_vertical_flip_rbox {} }
  data_augmentation_options: { random_rotate_rbox { min_value: -1 max_value: 1 by_90: true } }
}
train_input_reader { image_dtype: "uint8" label_map_path: "rssd" }
"""


def test_a_config_of_the_branch(caplog):
    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        config = loading.parse_pipeline_config(BRANCH, 'ships.config')
    ssd = config.model.ssd
    assert ssd.box_type == box_coding_pb2.ROTATED and ssd.num_classes == 4
    assert ssd.box_coder.rotated_box_coder.angle_scale == 5
    anchors = ssd.anchor_generator.ssd_anchor_generator
    assert len(anchors.angles) == 2 and anchors.interpolated_scale_aspect_ratio == 1
    assert ssd.post_processing.batch_non_max_suppression.use_class_agnostic_nms
    flip, turn = config.train_config.data_augmentation_options
    assert flip.HasField('random_vertical_flip')
    assert turn.random_rotation.by_quarter_turns and turn.random_rotation.max_angle == 1
    assert config.train_input_reader.label_map_path == 'rssd'
    assert 'ships.config:3:3: rssd is read as ssd with box_type: ROTATED.' in caplog.text
    assert 'box_type is left out: box_type of the model says it.' in caplog.text
    assert len(caplog.records) == 12


@pytest.mark.parametrize('first_alone, stages', [('true', 1), ('false', 2)])
def test_a_two_stage_config_of_the_branch(first_alone, stages, caplog):
    text = """
model {
  rfaster_rcnn {
    first_stage_only: %s
    first_stage_anchor_generator {
      grid_rbbox_anchor_generator { scales: [0.5] aspect_ratios: [3, 5] angles: [-1.57, 0] }
    }
    second_stage_box_predictor { mask_rcnn_box_predictor { box_code_size: 5 } }
  }
}
"""
    with caplog.at_level(logging.WARNING, 'estimator_lib'):
        config = loading.parse_pipeline_config(text % first_alone, 'ships.config')
    model = config.model.faster_rcnn
    assert model.box_type == box_coding_pb2.ROTATED and model.number_of_stages == stages
    anchors = model.first_stage_anchor_generator.grid_anchor_generator
    assert (anchors.height, anchors.width_stride) == (256, 16)
    assert len(anchors.angles) == 2 and len(anchors.aspect_ratios) == 2
    assert 'rfaster_rcnn is read as faster_rcnn with box_type: ROTATED.' in caplog.text
    assert f':4:5: first_stage_only is read as number_of_stages: {stages}.' in caplog.text


@pytest.mark.parametrize(
    'text, expected',
    [
        ('model { rfaster_rcnn { first_stage_only: 1 } }', 'x:1:24: first_stage_only: expected'),
        ('train_input_reader { image_dtype: "uint16" }', 'image_dtype: expected "uint8"'),
        (
            'eval_input_reader { preprocess_input_options { cutoff_max_gts {} } }',
            'max_number_of_boxes',
        ),
        (
            'model { rssd { anchor_generator { rssd_anchor_generator {'
            ' num_aspect_ration_of_middle_scale: 3 } } } }',
            'expected 0 or 1 anchor',
        ),
    ],
)
def test_what_is_not_available_is_said(text, expected):
    with pytest.raises(errors.ConfigError) as caught:
        renaming.apply(text, 'x')
    assert expected in str(caught.value)


def test_a_value_of_an_earlier_version_is_read_and_those_of_this_one_stay():
    text = 'train_input_reader { cache: %s }\neval_input_reader { cache: %s }'
    new, notes = renaming.apply(text % ('true', 'MEMORY'), 'x')
    assert new == text % ('RECORDS', 'MEMORY')
    assert notes == ['x:1:22: cache is read as cache: RECORDS.']
    assert renaming.apply(text % ('false', 'FILE'), 'x')[0] == text % ('NONE', 'FILE')


def test_other_texts_stay_as_they_are():
    text = 'model { ssd { box_type: ROTATED } } # rssd {}\ntrain_config { from: "rssd { }" }'
    assert renaming.apply(text, 'x') == (text, [])


def test_an_error_behind_a_new_name_is_where_it_stands():
    text = BRANCH.replace('num_classes: 4', 'num_clases: 4')
    with pytest.raises(errors.ConfigError, match='ships.config:4:5: .*num_classes'):
        loading.parse_pipeline_config(text, 'ships.config')


def test_names_are_none_of_this_schema():
    fields = set(ssd_pb2.Ssd.DESCRIPTOR.fields_by_name)
    assert not {name for path in other_names.RENAMED for name in path.split('/')[1:]} & (
        fields - {'box_type'}
    )


def holders(name):
    """Return the messages that a field of a name holds."""
    return [
        field.message_type
        for message in schema.reachable_messages(pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR)
        for field in message.fields
        if field.name == name and field.message_type is not None
    ]


def test_a_text_with_a_name_of_another_version_does_not_parse():
    # So that texts are searched for such names only when they do not parse.
    known = [
        (key, message.fields_by_name[key.partition('/')[2]], rule)
        for key, rule in other_names.RENAMED.items()
        for message in holders(key.partition('/')[0])
        if key.partition('/')[2] in message.fields_by_name
    ]
    assert {key for key, *_ in known} == {'train_input_reader/cache', 'eval_input_reader/cache'}
    for _, field, rule in known:
        assert rule.becomes and not set(rule.values) & set(field.enum_type.values_by_name)


def test_a_text_that_parses_is_not_walked(monkeypatch):
    def fails(*_):
        raise AssertionError('the text was tokenized')

    for module in (parsing, renaming):
        monkeypatch.setattr(module, 'tokenize', fails)
    assert loading.parse_pipeline_config('train_config { batch_size: 3 }', 'a').HasField(
        'train_config'
    )
