"""Flags of the front door: help, values, and the modes that read them."""

import logging
import pathlib
import subprocess
import sys

import pytest

import run_train_eval
from estimator_lib import errors
from estimator_lib.commands import predict
from estimator_lib.drawing import visualization
from estimator_lib.export import formats, saved_model, serving
from estimator_lib.export.devices import onnx_files, whole_images
from model_fns.cli import flag_definitions, flag_parsing
from model_fns.detection.deployment import forms

ROOT = pathlib.Path(__file__).resolve().parents[3]


def front_door(*flags):
    """Return the exit status of the front door, run in this process."""
    try:
        run_train_eval.main(['run_train_eval.py', *flags])
    except SystemExit as ending:
        return ending.code
    return 0


def test_the_formats_of_the_front_door_are_those_that_there_are():
    choices = flag_definitions.choices
    assert list(choices('format')) == list(formats.WRITERS)
    writers = [formats.writer_of_file(f'model{ending}') for ending in formats.endings()]
    assert set(choices('quantize')) == {kind for one in writers for kind in one.quantizes}
    assert set(choices('suppression')) == set(forms.KINDS)
    assert set(choices('batch')) == {onnx_files.DYNAMIC}
    assert choices('serving_weights') == (saved_model.VARIABLES, saved_model.CONSTANTS)
    assert choices('input') == (whole_images.IMAGE,)
    assert set(choices('pictures')) == {predict.NO_PICTURES, *visualization.FORMATS}
    assert set(choices('input_type')) == set(serving.SERVING_INPUTS)
    modes = flag_definitions.flag_modes()
    assert all('export' in modes[name] for name in formats.option_names())


def test_help_is_complete_and_quick(capsys):
    assert front_door('--help') == 0
    said = capsys.readouterr().out
    for name in flag_definitions.define_flags():
        assert f'--{name}' in said or f'--[no]{name}' in said


@pytest.mark.parametrize('flag', ['--help', '--helpfull'])
def test_help_reads_no_tensorflow(flag):
    code = (
        f'import sys, run_train_eval; run_train_eval.main(["run_train_eval.py", "{flag}"]); '
        'assert not {"tensorflow", "numpy", "google.protobuf"} & set(sys.modules)'
    )
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert '--pipeline_config_path' in run.stdout


def parse(*arguments):
    return flag_parsing.parse_flags(['run_train_eval.py', *arguments])


MODES = (
    'train_and_evaluate',
    'train',
    'evaluate',
    'export',
    'predict',
    'check',
    'benchmark',
    'compare',
    'replay',
    'create_config',
)
# A value of each flag, and its column of x for the modes in their order; '' for all modes.
VALUES_AND_MODES = """
additional_channels=a                         ____x_____
alsologtostderr=true
analyze=true                              __x_______
batch=dynamic                             ___x______
batch_size=4                              ______x___
check_all=true                            _____x____
checkpoint_dir=a                          x_x_______
checkpoint_path=a                         __xxx_x___
coco_files=true                           __x_______
confidence_masks=true                     ___x______
config_override=a
crops=true                                ____x_____
data=a                                    x________x
epochs=3                                  x________x
eval_timeout=600                          x_________
eval_training_data=true                   x_x_______
exif=ignore                               ____x_____
exports=onnx                              ______x___
export_dir=a                              ___x______
fast_nms=true                             ___x______
find_spike=true                           ________x_
format=saved_model                        ___x______
help=true
helpfull=true
helpshort=true
image_size=64x48                          ______x___
images=a                                  ____x_____
input=image                               ___x______
input_type=tf_example                     ___x______
keep_float=a                              ___x______
label_map=a                               __x_x_____
logtostderr=true
max_detections=3                          ___x______
max_eval_retries=-1                       x_________
max_loss=0                                ___x______
minutes=0.5                               x________x
mode=check
model_dir=a
model_file=a.onnx                         __x_x_____
num_train_steps=7
only_class=a                              ____x_____
on_error=fail                             ____x_____
output_dir=a                              __x_x_xxx_
output_format=csv                         ____x_____
overlap=0                                 __x_x_____
pictures=none                             ____x_____
pipeline_config_path=a
propose_anchors=true                      _____x____
quantize=none                             ___x______
raw=true                                  ____x_____
reference=a                               _______x__
repository=triton                         ___x______
representative_examples=7                 ___x______
run_once=true                             x_x_______
runner=a                                  ____x_____
runner_options=a                          ____x_____
sample_1_of_n_eval_examples=2             x_x__xx___
sample_1_of_n_eval_on_train_examples=5    x_x_______
saved_model_dir=a                         ____x_____
score_threshold=0                         ____x_____
seeds=3                                   x_________
serving_weights=constants                 ___x______
set=a=1
show_augmented=9                          _____x____
signature_name=a                          ___xx_____
size=64                                   x________x
step=3                                    ________x_
suppression=none                          ___x______
task=rotated                              x________x
threads=1                                 ______x___
tile=64                                   __x_x_____
top_k=1                                   ____x_____
until=9                                   ________x_
verbosity=1
warmup_requests=2                         ___x______
weights=a                                 x________x
which=best                                __xxx_x___
whole_image=true                          __x_x_____
without=a                                 ________x_
write_config=a                            _____x____
"""
VALUES_AND_MODES = [line.split() for line in VALUES_AND_MODES.strip().splitlines()]


def test_every_flag_has_its_modes():
    listed = [given.partition('=')[0] for given, *_ in VALUES_AND_MODES]
    flags = flag_definitions.define_flags()
    assert sorted(listed) == sorted({flags[name].name for name in flags})
    assert set(flag_definitions.flag_modes()) == set(listed)


@pytest.mark.parametrize('mode', MODES)
def test_a_flag_of_another_mode_is_refused(mode, capsys):
    for given, *marks in VALUES_AND_MODES:
        name = given.partition('=')[0]
        arguments = [f'--mode={mode}', f'--{given}']
        if name == 'mode' or not marks or marks[0][MODES.index(mode)] == 'x':
            assert parse(*arguments)[name].present, name
            continue
        assert front_door(*arguments) == 2, name
        said = capsys.readouterr().err
        read_by = [other for other, mark in zip(MODES, marks[0]) if mark == 'x']
        expected = f'error: --{name} is not read by --mode={mode}; expected --mode='
        assert said.startswith(expected + ' or '.join(read_by)), said
        assert said.count('\n') == 1


def test_flags_that_scripts_turn_off_are_of_every_mode():
    off = ['--run_once=false', '--checkpoint_dir=', '--max_eval_retries=0', '--raw=false']
    assert parse('--mode=train', *off).mode == 'train'


def test_the_help_names_the_modes_of_a_flag(capsys):
    assert front_door('--help') == 0
    said = ' '.join(capsys.readouterr().out.split())
    assert '--model_file: [evaluate, predict] A .tflite or .onnx file' in said
    assert '--model_dir: Checkpoints, events' in said


def test_flags_of_the_log_are_taken():
    values = parse('--logtostderr', '--alsologtostderr', '--verbosity=-1')
    assert (values.logtostderr, values.alsologtostderr, values.verbosity) == (True, True, -1)


@pytest.mark.parametrize(
    'verbosity, level', [(-3, 50), (-2, 40), (-1, 30), (0, 20), (1, 10), (3, 10)]
)
def test_verbosity_is_that_of_absl(verbosity, level, monkeypatch, tmp_path):
    from model_fns.cli import front_door as modes

    levels = []
    monkeypatch.setattr(
        modes, 'run', lambda values: levels.append(logging.getLogger('estimator_lib').level)
    )
    assert front_door(f'-v={verbosity}', f'--model_dir={tmp_path}') == 0
    assert levels == [level]


def test_flags_are_read_from_a_file(tmp_path):
    (tmp_path / 'job.flags').write_text('--mode=train\n--logtostderr\n')
    assert parse(f'--flagfile={tmp_path / "job.flags"}').mode == 'train'


def test_evaluations_may_be_tried_again_for_ever():
    assert parse('--max_eval_retries=-1').max_eval_retries == -1


@pytest.mark.parametrize('value', ['x', '1.5', ''])
def test_a_number_that_is_none_is_named_in_plain_words(value):
    with pytest.raises(errors.UserError) as caught:
        parse('--mode=replay', f'--step={value}')
    assert str(caught.value) == (
        f'flag --step={value}: expected a whole number (--help lists the flags)'
    )
