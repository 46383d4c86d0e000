"""Flags of other trainers: each is answered, by what there is here."""

import re

import pytest
from google.protobuf import text_format

import run_train_eval
from estimator_lib import errors
from estimator_lib.config import schema
from model_fns.cli import flag_definitions, flag_parsing, legacy_flags
from protos import pipeline_pb2

PIPELINE = pipeline_pb2.TrainEvalPipelineConfig

# What the published programs define, those of this program's names left out.
LEGACY = {
    'train.py of the Object Detection API': (
        'master task num_clones clone_on_cpu worker_replicas ps_tasks train_dir train_config_path '
        'input_config_path model_config_path'
    ),
    'eval.py of the Object Detection API': (
        'eval_dir eval_config_path input_config_path model_config_path'
    ),
    'model_main.py': 'hparams_overrides num_eval_steps',
    'model_main_tf2.py': (
        'eval_on_train_data eval_timeout use_tpu tpu_name num_workers checkpoint_every_n '
        'record_summaries'
    ),
    'model_tpu_main.py': (
        'use_tpu gcp_project tpu_zone tpu_name num_shards iterations_per_loop train_batch_size '
        'hparams_overrides'
    ),
    'export_inference_graph.py of the Object Detection API': (
        'input_shape trained_checkpoint_prefix output_directory write_inference_graph '
        'additional_output_tensor_names use_side_inputs side_input_shapes side_input_types '
        'side_input_names'
    ),
    'export_tflite_ssd_graph.py': (
        'output_directory trained_checkpoint_prefix max_detections max_classes_per_detection '
        'detections_per_class add_postprocessing_op use_regular_nms'
    ),
    'train_image_classifier.py': (
        'master train_dir warmup_epochs num_clones clone_on_cpu worker_replicas num_ps_tasks '
        'num_readers num_preprocessing_threads log_every_n_steps save_summaries_secs '
        'save_interval_secs task weight_decay optimizer adadelta_rho '
        'adagrad_initial_accumulator_value adam_beta1 adam_beta2 opt_epsilon '
        'ftrl_learning_rate_power ftrl_initial_accumulator_value ftrl_l1 ftrl_l2 momentum '
        'rmsprop_momentum rmsprop_decay quantize_delay learning_rate_decay_type learning_rate '
        'end_learning_rate label_smoothing learning_rate_decay_factor num_epochs_per_decay '
        'sync_replicas replicas_to_aggregate moving_average_decay dataset_name dataset_split_name '
        'dataset_dir labels_offset model_name preprocessing_name batch_size train_image_size '
        'max_number_of_steps use_grayscale checkpoint_exclude_scopes trainable_scopes '
        'ignore_missing_vars'
    ),
    'eval_image_classifier.py': (
        'batch_size max_num_batches master eval_dir num_preprocessing_threads dataset_name '
        'dataset_split_name dataset_dir labels_offset model_name preprocessing_name '
        'moving_average_decay eval_image_size quantize use_grayscale'
    ),
    'export_inference_graph.py of TF-Slim': (
        'model_name is_training image_size batch_size dataset_name labels_offset output_file '
        'dataset_dir quantize is_video_model num_frames write_text_graphdef use_grayscale'
    ),
    'train.py of DeepLab': (
        'master task num_clones clone_on_cpu num_replicas startup_delay_steps num_ps_tasks '
        'train_logdir log_steps save_interval_secs save_summaries_secs save_summaries_images '
        'profile_logdir optimizer learning_policy base_learning_rate learning_rate_decay_factor '
        'learning_rate_decay_step learning_power training_number_of_steps momentum adam_epsilon '
        'adam_learning_rate decay_steps end_learning_rate train_batch_size weight_decay '
        'train_crop_size last_layer_gradient_multiplier upsample_logits hard_example_mining_step '
        'top_k_percent_pixels tf_initial_checkpoint initialize_last_layer '
        'last_layers_contain_logits_only slow_start_step slow_start_learning_rate '
        'fine_tune_batch_norm min_scale_factor max_scale_factor scale_factor_step_size '
        'atrous_rates output_stride quantize_delay_step dataset train_split dataset_dir '
        'drop_path_keep_prob'
    ),
    'common.py of DeepLab': (
        'min_resize_value max_resize_value resize_factor keep_aspect_ratio logits_kernel_size '
        'model_variant image_pyramid add_image_level_feature image_pooling_crop_size '
        'image_pooling_stride aspp_with_batch_norm aspp_with_separable_conv multi_grid '
        'depth_multiplier divisible_by decoder_output_stride decoder_use_separable_conv '
        'merge_method prediction_with_upsampled_logits dense_prediction_cell_json '
        'nas_stem_output_num_conv_filters nas_use_classification_head nas_remove_os32_stride '
        'use_bounded_activation aspp_with_concat_projection aspp_with_squeeze_and_excitation '
        'aspp_convs_filters decoder_use_sum_merge decoder_filters decoder_output_is_logits '
        'image_se_uses_qsigmoid label_weights batch_norm_decay'
    ),
    'eval.py and vis.py of DeepLab': (
        'eval_logdir eval_batch_size eval_crop_size eval_interval_secs eval_scales '
        'add_flipped_images eval_split max_number_of_evaluations vis_logdir vis_batch_size '
        'vis_crop_size vis_split colormap_type also_save_raw_predictions max_number_of_iterations'
    ),
    'train.py of forks of DeepLab': (
        'edge_class_num edge_width motion_blur_size motion_blur_direction_limit '
        'rotation_min_limit rotation_max_limit brightness_min_limit brightness_max_limit'
    ),
    'export_tflite_graph_tf2.py': (
        'trained_checkpoint_dir output_directory max_detections ssd_use_regular_nms '
        'centernet_include_keypoints keypoint_label_map_path'
    ),
    'convert_to_tflite.py of DeepLab': (
        'quantized_graph_def_path input_tensor_name output_tflite_path'
    ),
    'tflite_convert': (
        'graph_def_file output_file input_arrays input_shapes output_arrays inference_type '
        'inference_input_type mean_values std_dev_values default_ranges_min default_ranges_max '
        'allow_custom_ops'
    ),
    'export_model.py of DeepLab': (
        'export_path num_classes crop_size inference_scales save_inference_graph'
    ),
}


# Of these two mean the same, and `quantize` names its values.
OF_THIS_PROGRAM_TOO = {'max_detections', 'quantize', 'eval_timeout', 'batch_size', 'image_size'}
# Other modes than theirs refuse them with what there is for them.
OF_ONE_MODE = {'batch_size', 'image_size'}
# A task of a cluster has a number, and one of this program a name.
NUMBERS = {'task'}


def test_flags_that_this_program_has_too_are_its_own():
    own = set(flag_definitions.define_flags())
    listed = {name for names in LEGACY.values() for name in names.split()}
    assert listed & own == {*OF_THIS_PROGRAM_TOO, *NUMBERS}


@pytest.mark.parametrize('program', sorted(LEGACY))
def test_every_flag_of_the_program_is_answered(program, capsys):
    flags = [f'--{name}=7' for name in sorted({*LEGACY[program].split()} - OF_THIS_PROGRAM_TOO)]
    with pytest.raises(SystemExit) as ending:
        run_train_eval.main(['run_train_eval.py', *flags])
    first, *answers = capsys.readouterr().err.splitlines()
    assert ending.value.code == 2
    assert first == 'error: flags of another program; expected instead:'
    assert [line.partition(': ')[0] for line in answers] == [f'  {flag}' for flag in flags]
    assert all(line.partition(': ')[2] for line in answers)


@pytest.mark.parametrize('is_read', [False, True])
def test_no_answer_hides_a_flag_of_this_program(is_read):
    own = dict.fromkeys(flag_definitions.define_flags(), is_read)
    for name in own:
        assert legacy_flags.answer([f'--{name}=detection', '--bogus=1'], own) is None, name


@pytest.mark.parametrize(
    'arguments, told',
    [
        ('--mode=benchmark --batch_size=4 --bogus=1', "Unknown command line flag 'bogus'"),
        ('--bogus=1 --image_size=64 --mode benchmark', "Unknown command line flag 'bogus'"),
        ('--mode=benchmark --batch_size=0', '--batch_size=0: 0 is not a positive'),
        ('--batch_size=-1 --mode=benchmark', '--batch_size=-1: -1 is not a positive'),
        ('--batch_size=4 --bogus=1', "Unknown command line flag 'bogus'"),
    ],
)
def test_an_error_beside_flags_of_this_program_is_named(arguments, told):
    with pytest.raises(errors.UserError) as error:
        flag_parsing.parse_flags(['run_train_eval.py', *arguments.split()])
    assert told in str(error.value)
    assert 'another program' not in str(error.value)


@pytest.mark.parametrize(
    'mode, answered',
    [
        ('--mode=train', ['batch_size', 'train_dir']),
        ('--mode=benchmark', ['train_dir']),
        ('--mode=trian', ['batch_size', 'train_dir']),
        ('--logtostderr', ['batch_size', 'train_dir']),
    ],
)
@pytest.mark.parametrize('batch_size', [0, 4])
def test_a_flag_that_the_mode_reads_is_of_no_other_program(mode, answered, batch_size):
    arguments = ['run_train_eval.py', f'--batch_size={batch_size}', '--train_dir=x', mode]
    with pytest.raises(errors.UserError) as error:
        flag_parsing.parse_flags(arguments)
    assert re.findall(r'^  --(\w+)', str(error.value), re.M) == answered


def test_a_flag_of_one_mode_is_answered_in_others(capsys):
    for name in OF_ONE_MODE:
        with pytest.raises(SystemExit):
            run_train_eval.main(['run_train_eval.py', f'--{name}=7'])
        said = capsys.readouterr().err
        assert f'--{name} is not read by --mode=train_and_evaluate' in said
        assert '--set model.classification.image' in said or 'train_config.batch_size' in said


def test_no_flag_is_answered_twice():
    table = legacy_flags.replacements()
    tables = (table.flags, table.fields, table.sentences)
    assert sum(map(len, tables)) == len(table.names())


def answers():
    return {
        name: legacy_flags.answer([f'--{name}=7'])
        for name in sorted(legacy_flags.replacements().names())
    }


def test_flags_that_are_named_are_there():
    known = set(flag_definitions.define_flags())
    known |= {'num_workers', 'num_ps', 'all'}  # of launch-local and saved_model_cli
    for name, answer in answers().items():
        text = answer.partition(f'  --{name}=7: ')[2]
        assert text
        for flag in re.findall(r'--(\w+)', text):
            assert flag in known, f'{name}: {flag}'


def find_field(path):
    """The field at a path; None where there is none."""
    message, field = PIPELINE.DESCRIPTOR, None
    for part in path.split('.'):
        if part.isdigit():
            continue
        field = message.fields_by_name.get(part)
        if field is None:
            return None
        message = field.message_type
    return field


def test_fields_that_are_named_are_there():
    found = 0
    for name, answer in answers().items():
        for path, value in re.findall(r'--set ([\w.]+)=(\S)', answer):
            field = find_field(path)
            assert field is not None, f'{name}: {path}'
            is_repeated = schema.is_repeated(field)
            assert is_repeated == (value == '['), f'{name}: {path}'
            found += 1
    assert found > 100


def test_config_text_that_is_shown_parses():
    found = 0
    for answer in answers().values():
        for text in re.findall(r'`([^`]+)`', answer):
            text_format.Parse(text, PIPELINE())
            found += 1
    assert found == 7


def test_values_are_carried_over():
    assert legacy_flags.answer(
        ['--train_dir', 'runs/a', '--notask', '--eval_batch_size=2', '--sync_replicas', '--x']
    ).splitlines()[1:] == [
        '  --train_dir: --model_dir=runs/a',
        '  --notask: TF_CONFIG says which task of which cluster this is; to try a cluster on one '
        'machine: launch-local --num_workers=2 --num_ps=1 -- --model_dir=...',
        '  --eval_batch_size=2: --set eval_config.batch_size=2 (or the same in the config)',
        '  --sync_replicas: --set train_config.sync_replicas=... (or the same in the config)',
    ]


@pytest.mark.parametrize(
    'flag, expected',
    [
        ('edge_class_num=21', '--set model.segmentation.edge.num_classes=21'),
        ('learning_policy=poly', 'deeplab_learning_rate.policy=POLY '),
        ('learning_policy=step', 'deeplab_learning_rate.policy=STEP '),
        ('merge_method=avg', '--set model.segmentation.merge_method=MERGE_AVERAGE '),
        ('end_learning_rate=0.1', 'deeplab_learning_rate.end_learning_rate=...'),
        ('learning_rate_decay_factor=0.1', 'deeplab_learning_rate.learning_rate_decay_factor=...'),
        ('use_regular_nms=false', '--mode=export --format=tflite'),
        ('ssd_use_regular_nms=true', '--fast_nms'),
        ('inference_type=QUANTIZED_UINT8', '--quantize=int8'),
        ('graph_def_file=a.pb', '--mode=export --format=tflite'),
    ],
)
def test_answers_follow_what_there_is_here(flag, expected):
    assert expected in legacy_flags.answer([f'--{flag}'])


def test_other_arguments_get_no_answer():
    assert legacy_flags.answer(['--zoo', 'train_dir', '--', '--train_dir=x']) is None
