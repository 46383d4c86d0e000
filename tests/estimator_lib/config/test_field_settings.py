"""Single fields set by dotted paths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from estimator_lib.config import field_settings, schema
from protos import optimizer_pb2, pipeline_pb2, train_pb2


@pytest.fixture
def config():
    made = pipeline_pb2.TrainEvalPipelineConfig()
    made.model.classification.num_classes = 3
    made.train_config.freeze_variables.append('x')
    made.eval_input_reader.add(name='first')
    return made


def apply(config, *settings_):
    for setting in settings_:
        field_settings.apply_setting(config, setting)
    return config


def message_of(config, setting):
    with pytest.raises(errors.ConfigError) as caught:
        field_settings.apply_setting(config, setting)
    return str(caught.value)


@pytest.mark.parametrize(
    ('setting', 'field', 'value'),
    [
        ('batch_size=8', 'batch_size', 8),
        ('batch_size="8"', 'batch_size', 8),
        (' batch_size = 0x10 ', 'batch_size', 16),
        ('sync_replicas=true', 'sync_replicas', True),
        ('sync_replicas=0', 'sync_replicas', False),
        ('gradient_clipping_by_norm=1e1', 'gradient_clipping_by_norm', 10.0),
        ('non_finite_loss_policy=WARN', 'non_finite_loss_policy', train_pb2.WARN),
        ('non_finite_loss_policy=1', 'non_finite_loss_policy', train_pb2.WARN),
        ('fine_tune_checkpoint=/a/b', 'fine_tune_checkpoint', '/a/b'),
        ('fine_tune_checkpoint="/a b/c"', 'fine_tune_checkpoint', '/a b/c'),
        ("fine_tune_checkpoint='/a'", 'fine_tune_checkpoint', '/a'),
        ('fine_tune_checkpoint=C:\\new', 'fine_tune_checkpoint', 'C:\\new'),
        ('fine_tune_checkpoint=a=b', 'fine_tune_checkpoint', 'a=b'),
        ('fine_tune_checkpoint=', 'fine_tune_checkpoint', ''),
    ],
)
def test_a_scalar_is_read_by_its_type(config, setting, field, value):
    apply(config, f'train_config.{setting.lstrip()}')
    assert config.train_config.HasField(field)
    assert getattr(config.train_config, field) == value


def test_an_index_goes_into_a_list_and_the_length_appends(config):
    apply(
        config,
        'eval_input_reader.0.label_map_path=a',
        'eval_input_reader.1.label_map_path=b',
        'train_config.freeze_variables.0=y',
        'train_config.freeze_variables.1=z',
    )
    assert [reader.label_map_path for reader in config.eval_input_reader] == ['a', 'b']
    assert config.eval_input_reader[0].name == 'first'
    assert list(config.train_config.freeze_variables) == ['y', 'z']


def test_a_list_without_an_index_is_replaced(config):
    apply(config, 'train_config.freeze_variables=["a", "b"]')
    assert list(config.train_config.freeze_variables) == ['a', 'b']
    apply(config, 'train_config.freeze_variables=c')
    assert list(config.train_config.freeze_variables) == ['c']
    apply(config, 'train_config.freeze_variables=[]')
    assert list(config.train_config.freeze_variables) == []


def test_a_message_is_replaced_by_text(config):
    apply(config, 'train_config.optimizer={ sgd_optimizer {} use_moving_average: false }')
    optimizer = config.train_config.optimizer
    assert optimizer == optimizer_pb2.Optimizer(
        sgd_optimizer=optimizer_pb2.SgdOptimizer(), use_moving_average=False
    )
    apply(config, 'eval_input_reader.0={ shuffle: false }', 'eval_input_reader.1={ name: "b" }')
    assert not config.eval_input_reader[0].name
    assert config.eval_input_reader[1].name == 'b'


def test_lists_of_messages_are_replaced_by_text(config):
    apply(config, 'eval_input_reader=[{ name: "a" }, { name: "b" }]')
    assert [reader.name for reader in config.eval_input_reader] == ['a', 'b']
    apply(config, 'eval_input_reader={ name: "c" }')
    assert [reader.name for reader in config.eval_input_reader] == ['c']


def test_a_member_of_a_oneof_takes_the_place_of_another(config):
    rate = 'train_config.optimizer.{}.learning_rate.constant_learning_rate.learning_rate=0.5'
    apply(config, rate.format('sgd_optimizer'), rate.format('adam_optimizer'))
    assert config.train_config.optimizer.WhichOneof('optimizer') == 'adam_optimizer'


def test_a_message_on_the_way_is_made(config):
    apply(config, 'train_config.early_stopping.patience_evaluations=3')
    assert config.train_config.early_stopping.patience_evaluations == 3
    apply(config, 'export_config={}')
    assert config.HasField('export_config')


def test_maps_take_keys(config):
    apply(config, 'eval_config.super_categories.animal="cat,dog"')
    assert dict(config.eval_config.super_categories) == {'animal': 'cat,dog'}
    calibration = 'model.ssd.post_processing.calibration_config.class_id_sigmoid_calibrations.'
    by_class = f'{calibration}class_id_sigmoid_parameters_map'
    apply(config, f'{by_class}.7.a=-2', f'{by_class}.8={{ b: 1 }}')
    made = config.model.ssd.post_processing.calibration_config.class_id_sigmoid_calibrations
    assert made.class_id_sigmoid_parameters_map[7].a == -2
    assert made.class_id_sigmoid_parameters_map[8].b == 1


@pytest.mark.parametrize(
    ('setting', 'expected', 'caret_under'),
    [
        ('train_config.batch_sise=8', "no field 'batch_sise'; did you mean 'batch_size'?", 'batch'),
        ('num_steps=8', 'Here it is train_config.num_steps.', 'num'),
        ('train_config.batch_size=x', "a whole number from 0 to 4294967295, got 'x'", 'x'),
        ('train_config.sync_replicas=yes', "true or false, got 'yes'", 'yes'),
        ('train_config.non_finite_loss_policy=WRN', 'did you mean WARN?', 'WRN'),
        ('train_config.batch_size.y=1', "'batch_size' is not a message", 'y'),
        ('eval_input_reader.3.name=x', '(eval_input_reader.0 or eval_input_reader.1', '3'),
        ('eval_input_reader.name=x', 'is a list and holds one value; expected an index', 'name'),
        ('eval_input_reader.-1.name=x', "got '-1'", '-1'),
        ('train_config.freeze_variables.0.y=x', 'holds no messages', 'y'),
        ('eval_config.super_categories=x', 'is a map; set eval_config.super_categories.KEY=', 'x'),
        ('eval_config.super_categories.a.b=x', 'holds no messages', 'b'),
        ('train_config.batch_size=', "got ''", ''),
        ('=3', "has no field ''", '=3'),
    ],
)
def test_what_is_wrong_is_said_and_pointed_at(config, setting, expected, caret_under):
    lines = message_of(config, setting).splitlines()
    assert lines[0].startswith('setting ') and expected in lines[0]
    assert lines[1] == setting
    assert setting[lines[2].index('^') :].startswith(caret_under)


def test_an_error_in_the_text_of_a_message_is_placed(config):
    message = message_of(config, 'train_config.optimizer={ adam_optimizer { epsilo: 1 } }')
    assert message.startswith('setting train_config.optimizer:1:19: in adam_optimizer: ')
    assert "did you mean 'epsilon'?" in message


def test_a_setting_without_a_value_is_refused(config):
    message = message_of(config, 'train_config.batch_size')
    assert 'has no "="' in message


SCALARS = [
    field
    for field in train_pb2.TrainConfig.DESCRIPTOR.fields
    if field.cpp_type != field.CPPTYPE_MESSAGE and not schema.is_repeated(field)
]
VALUES = {
    'uint32': st.integers(0, 2**32 - 1),
    'int32': st.integers(-(2**31), 2**31 - 1),
    'float': st.floats(width=32, allow_nan=False),
    'bool': st.booleans(),
    'string': st.text(max_size=6).filter(
        lambda text: text.strip() == text and text[:1] not in '"\''
    ),
}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_value_of_any_field_can_be_set(data):
    field = data.draw(st.sampled_from(SCALARS))
    kinds = {1: 'int32', 3: 'uint32', 6: 'float', 7: 'bool', 9: 'string'}
    if field.enum_type is not None:
        name = data.draw(st.sampled_from(sorted(field.enum_type.values_by_name)))
        text, value = name, field.enum_type.values_by_name[name].number
    else:
        value = data.draw(VALUES[kinds[field.cpp_type]])
        text = str(value).lower() if isinstance(value, bool) else str(value)
    config = pipeline_pb2.TrainEvalPipelineConfig()
    field_settings.apply_setting(config, f'train_config.{field.name}={text}')
    assert getattr(config.train_config, field.name) == value


@pytest.mark.parametrize('index', ['9' * 5000, '1000000000000', '²'])
def test_an_index_out_of_all_bounds_is_one_error(index):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    with pytest.raises(
        errors.ConfigError, match="'eval_input_reader' is a list and is empty"
    ) as caught:
        field_settings.apply_setting(config, f'eval_input_reader.{index}.name=x')
    assert len(str(caught.value).splitlines()[0]) < 250 + len(index)


@pytest.mark.parametrize('setting', ['eval_input_reader.0.name=caf\udce9', 'caf\udce9=1'])
def test_bytes_of_latin_1_are_one_error(setting):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    with pytest.raises(errors.ConfigError, match=r"'.*caf\\udce9' is not UTF-8 at its end"):
        field_settings.apply_setting(config, setting)
