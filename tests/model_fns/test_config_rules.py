"""The rules of each task together with the schema's: about what there is, and obeyed."""

import pathlib
import re

import pytest
from google.protobuf import message_factory

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import message_checks, schema, support
from estimator_lib.config.section import Section
from protos import duration_pb2, field_rules, pipeline_pb2
from tests.estimator_lib.config import condition_names

ROOT = pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR
FIELDS = {
    f'{schema.short_name(message)}.{field.name}': field
    for message in schema.reachable_messages(ROOT)
    for field in message.fields
}
KINDS = ('classification', 'segmentation', 'ssd', 'faster_rcnn', 'center_net', 'external')
EXTERNAL = 'task: "tests.estimator_lib.line_task:Line"'


def config_of(kind, text=''):
    fields = EXTERNAL if kind == 'external' else ''
    return config_lib.parse_pipeline_config(f'model {{ {kind} {{ {fields} }} }} {text}', 'text')


RULES = {kind: model_fns.rules_of_task(config_of(kind)) for kind in KINDS}


def reached(kind):
    """Return (message, field) of the supported fields that a config of one kind can set."""
    found, queue = {}, [ROOT]
    while queue:
        message = queue.pop()
        name = schema.short_name(message)
        for field in message.fields:
            # The kinds of other tasks.
            if (name, field.name) in found or (name == 'DetectionModel' and field.name != kind):
                continue
            found[name, field.name] = support = RULES[kind].support(field)[0]
            if schema.is_message(field) and support == 'supported':
                held = field.message_type
                queue.append(
                    held.fields_by_name['value'].message_type if schema.is_map(field) else held
                )
                queue = [each for each in queue if each is not None]
    return found


@pytest.mark.parametrize('kind', KINDS)
def test_each_field_that_can_be_set_has_a_kind_of_support(kind):
    found = reached(kind)
    assert len(found) > 150
    assert set(found.values()) == {'supported', 'ignored', 'unsupported'}


def test_the_models_of_fields_are_those_of_tasks():
    known = {word for rules in RULES.values() for word in rules.models} | {'external'}
    named = {
        word for field in FIELDS.values() for word in field_rules.get_rule(field).only_for.split()
    }
    assert named == known


@pytest.mark.parametrize('kind', KINDS)
def test_tables_of_tasks_are_about_what_there_is(kind):
    its = RULES[kind]
    for table in (its.supported, its.ignored, its.unsupported, its.required):
        for message, fields in table.items():
            assert {f'{message}.{name}' for name in fields} <= set(FIELDS)
    for table in (its.ignored, its.unsupported):
        for fields in table.values():
            assert all(reason and not reason.endswith('.') for reason in fields.values())


def test_conditions_of_fields_name_fields_and_values_of_the_schema():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    count = 0
    for field in FIELDS.values():
        rule = field_rules.get_rule(field)
        owner = message_factory.GetMessageClass(field.containing_type)()
        for condition in filter(None, [rule.requires]):
            condition_names.check_names(condition, owner, config)
            count += 1
        for condition in [*rule.needs, *rule.excludes]:
            condition_names.check_names(condition, owner, owner)
            count += 1
    assert count > 60


def messages():
    return {field.containing_type for field in FIELDS.values()}


def placed(message, path):
    """Return the field or oneof at a path of a message, through the entries of lists."""
    first, _, rest = path.partition('.')
    if not rest and first in message.oneofs_by_name:
        return message.oneofs_by_name[first]
    field = message.fields_by_name[first]
    return placed(field.message_type, rest) if rest else field


def test_conflicts_name_fields_and_values_of_the_schema():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    count = 0
    for message in messages():
        owner = message_factory.GetMessageClass(message)()
        for conflict in field_rules.get_conflicts(message):
            for condition in conflict.when:
                condition_names.check_names(condition, owner, config)
            for path in [*conflict.of, *filter(None, [conflict.at])]:
                placed(message, path)
            texts = [conflict.problem, conflict.ignored, conflict.warning]
            (text,) = filter(None, texts)
            assert text.endswith('.') is not bool(conflict.ignored)
            for name in re.findall(r'{([\w.]+)}', text):
                condition_names.check_names(name, owner, config)
            assert bool(conflict.at) is not bool(conflict.of)
            count += 1
    assert count > 70


# Parts of models, and their paths.
LOSS = 'ssd { loss { %s } }', 'ssd.loss'
NMS = (
    'ssd { post_processing { batch_non_max_suppression { change_coordinate_frame: false %s } } }',
    'ssd.post_processing.batch_non_max_suppression',
)
RFCN = 'faster_rcnn { second_stage_box_predictor { rfcn_box_predictor {} } %s }', 'faster_rcnn'
ROTATED = 'faster_rcnn { box_type: ROTATED %s }', 'faster_rcnn'
SEGMENTATION = 'segmentation { %s }', 'segmentation'


@pytest.mark.parametrize(
    ('part', 'text', 'path', 'other'),
    [
        (
            LOSS,
            'expected_loss_weights: EXPECTED_SAMPLING hard_example_miner {}',
            'expected_loss_weights',
            'hard_example_miner',
        ),
        *(
            (
                LOSS,
                f'hard_example_miner {{}} classification_loss {{ {focal} {{}} }}',
                'hard_example_miner',
                focal,
            )
            for focal in ('weighted_sigmoid_focal', 'quality_focal')
        ),
        (
            NMS,
            'soft_nms_sigma: 0.5 use_static_shapes: true',
            'soft_nms_sigma',
            'use_static_shapes',
        ),
        (
            NMS,
            'soft_nms_sigma: 0.5 use_combined_nms: true',
            'soft_nms_sigma',
            'use_combined_nms',
        ),
        (
            NMS,
            'use_combined_nms: true use_class_agnostic_nms: true',
            'use_combined_nms',
            'use_class_agnostic_nms',
        ),
        (
            NMS,
            'max_classes_per_detection: 2',
            'max_classes_per_detection',
            'use_class_agnostic_nms',
        ),
        (
            RFCN,
            'output_final_box_features: true',
            'output_final_box_features',
            'rfcn_box_predictor',
        ),
        (RFCN, 'roi_align {}', 'roi_align', 'rfcn_box_predictor'),
        (RFCN, 'box_type: ROTATED', 'box_type', 'rfcn_box_predictor'),
        (ROTATED, 'number_of_stages: 3', 'box_type', 'number_of_stages'),
        (ROTATED, 'roi_align {}', 'box_type', 'roi_align'),
        (SEGMENTATION, 'aspp {} dense_prediction_cell {}', 'aspp', 'dense_prediction_cell'),
        (
            SEGMENTATION,
            'decoder { unet_filters: 8 sum_merge: true }',
            'decoder.unet_filters',
            'sum_merge',
        ),
        (SEGMENTATION, 'offset {} instance_grouping {}', 'instance_grouping', 'instance_center'),
        (SEGMENTATION, 'instance_center {} instance_grouping {}', 'instance_grouping', 'offset'),
    ],
)
def test_fields_that_exclude_or_need_another(part, text, path, other):
    model, where = part
    config = config_lib.parse_pipeline_config(f'model {{ {model % text} }}', 'text')
    found = message_checks.find_problems(model_fns.rules_of_task(config), Section(config))
    (said,) = [problem.text for problem in found if problem.path == f'model.{where}.{path}']
    assert re.match(f'it (excludes|needs) .*{other}', said)


# Their fields are read all at once, by the names that the schema gives them.
READ_AS_A_WHOLE = (
    'ExponentialDecayLearningRate',
    'ExponentialDecayWithWarmupLearningRate',
    'CosineDecayLearningRate',
    'PolynomialDecayLearningRate',
    'AdadeltaOptimizer',
    'AdagradOptimizer',
    'AdamOptimizer',
    'AdamWOptimizer',
    'FtrlOptimizer',
    'MomentumOptimizer',
    'RMSPropOptimizer',
    # The member that is set is asked for, and is the name of what makes it.
    'ImageResizer',
    'PreprocessingStep',
)
# What the rules themselves decide about these fields is all that there is.
DECIDED_BY_RULES = {
    'ClusterConfig.mode',
    'Hyperparams.op',
    'Loss.equalization_loss',
    'InputReader.load_context_features',
    'Context.num_attention_heads',
    'Context.num_attention_layers',
    'Context.use_long_term_attention',
    'Quantization.weight_bits',
    'Quantization.activation_bits',
}


def program_text():
    """Return the source of everything that may read a config, except the rules."""
    root = pathlib.Path(model_fns.__file__).resolve().parent.parent
    paths = [*(root / 'estimator_lib').rglob('*.py'), *(root / 'model_fns').rglob('*.py')]
    tables = re.compile(r'config_rules')
    return '\n'.join(path.read_text() for path in paths if not tables.search(path.name))


def test_each_supported_field_is_read_somewhere():
    read = set(re.findall(r"[.'\"](\w+)", program_text()))
    unread = {
        f'{message}.{field}'
        for kind in KINDS
        for (message, field), support in reached(kind).items()
        if support == 'supported' and message not in READ_AS_A_WHOLE and field not in read
    }
    # The fields of their rules `in_steps` are read in their place.
    unread -= {
        f'{schema.short_name(message)}.{field.name}'
        for message in schema.reachable_messages(ROOT)
        for field in message.fields
        if field.message_type is duration_pb2.Duration.DESCRIPTOR
    }
    assert unread <= DECIDED_BY_RULES


BOXES = [
    'train_config { data_augmentation_options { ssd_random_crop {} } }',
    'eval_config { metrics_set: "coco_detection_metrics" }',
    'eval_config { super_categories { key: "a" value: "b" } }',
]


@pytest.mark.parametrize('kind', ['classification', 'segmentation'])
def test_what_is_about_boxes_is_refused_or_has_no_effect_without_them(kind):
    its = RULES[kind]
    for text in BOXES:
        (problem,) = list(support.unsupported(its, Section(config_of(kind, text))))
        assert problem.text.startswith('not supported: ')
        assert list(support.unsupported(RULES['ssd'], Section(config_of('ssd', text)))) == []
    text = 'eval_config { skip_scores: true } train_input_reader { num_keypoints: 3 }'
    assert len(list(support.ignored(its, config_of(kind, text)))) == 2
    assert list(support.ignored(RULES['ssd'], config_of('ssd', text))) == []


@pytest.mark.parametrize('kind', ['classification', 'segmentation'])
def test_sequences_are_of_detection_alone(kind):
    config = config_of(kind, 'eval_input_reader { input_type: TF_SEQUENCE_EXAMPLE }')
    with pytest.raises(errors.ConfigError, match='eval_input_reader.0.input_type: not supported'):
        model_fns.validate(config, None)


QUANTIZED = 'graph_rewriter { quantization { %s } }'


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        (
            QUANTIZED % '' + 'train_config { use_bfloat16: true }',
            'graph_rewriter.quantization: it excludes train_config.use_bfloat16',
        ),
        (
            QUANTIZED % '' + 'train_config { cluster { mode: CLONES num_clones: 2 } }',
            'graph_rewriter.quantization: the copies of the network',
        ),
    ],
)
def test_what_quantization_does_not_go_with(text, said):
    model = 'num_classes: 2 backbone { name: "mobilenet_v1" }'
    config = config_lib.parse_pipeline_config(
        f'model {{ classification {{ {model} }} }} {text}', ''
    )
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, None)
    assert said in str(caught.value)


def test_several_scales_are_not_quantized():
    text = 'num_classes: 2 backbone { name: "mobilenet_v2" } image_pyramid: [0.5, 1]'
    config = config_lib.parse_pipeline_config(
        f'model {{ segmentation {{ {text} }} }}' + QUANTIZED % '', ''
    )
    with pytest.raises(
        errors.ConfigError,
        match=r'the scales of model.segmentation.image_pyramid \(2 values\) would',
    ):
        model_fns.validate(config, None)


@pytest.mark.parametrize(
    ('text', 'warnings'),
    [
        ('delay: 1', []),
        ('delay: 2', ['does not quantize before step 2']),
        ('delay: 11', ['11 is more than train_config.num_steps, 10']),
        ('delay: 0 symmetric: true', ['the published system read it']),
    ],
)
def test_warnings_of_quantization(text, warnings):
    model = 'num_classes: 2 backbone { name: "mobilenet_v1" }'
    config = config_lib.parse_pipeline_config(
        f'model {{ classification {{ {model} }} }} train_config {{ num_steps: 10 }}'
        + QUANTIZED % text,
        '',
    )
    found = [one for one in model_fns.validate(config, None) if 'graph_rewriter' in one]
    assert len(found) == len(warnings)
    assert all(warning in one for warning, one in zip(warnings, found))
