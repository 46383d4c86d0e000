"""The comparison as a command."""

import shlex
import sys

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.cli import front_door
from model_fns.cli.run_options import RunOptions
from protos import pipeline_pb2
from vision_extras.compare.reference import migration

NEVER = RunOptions(mode='compare', reference='python', pipeline_config_path='a.config')


def test_a_stand_in_agrees(compared):
    """All stages of two steps are those of the stand-in."""
    folder, lines = compared
    assert lines[-2:] == [
        'both sides agree: no difference is above 0.001',
        f'migration: {folder / "migration.html"}',
    ]
    stages = [line.strip().partition(':')[0] for line in lines[:-2]]
    assert stages == [
        'initial values',
        'preprocessed_inputs of step 1',
        'anchors of step 1',
        'box_encodings of step 1',
        'class_predictions_with_background of step 1',
        'losses of step 1',
        'gradients of step 1',
        'losses of later steps',
        'variables after the steps',
        'detections',
        'metrics',
    ]
    assert 'Both sides' not in (folder / 'migration.html').read_text()


@pytest.mark.parametrize(
    'command, expected',
    [
        ('/no/such/python', 'does not start: No such file or directory; expected the command'),
        ('python "', 'No closing quotation'),
        (' ', "is ' '; expected the command of a Python"),
        (shlex.quote(sys.executable), 'has no package object_detection; expected a Python that'),
        (
            f'{shlex.quote(sys.executable)} -c "print(1); print(2); print(3); print(4); exit(9)"',
            'failed with exit status 9: 2 / 3 / 4',
        ),
        ('false', 'failed with exit status 1: it printed nothing'),
    ],
)
def test_a_command_that_cannot_be_used_is_refused(command, expected):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    with pytest.raises(errors.UserError) as caught:
        migration.compare(None, config, 'a.config', command, 'nowhere')
    assert expected in str(caught.value) and '\n' not in str(caught.value)


def test_a_command_that_runs_no_script_is_refused(tmp_path):
    """Results of an earlier comparison are not taken for its own."""
    results = tmp_path / 'reference.npz'
    results.write_bytes(b'old')
    with pytest.raises(errors.UserError, match='--reference=true has written no .*reference.npz'):
        migration._run_bridge(['true'], str(tmp_path))
    assert not results.exists()


@pytest.mark.parametrize(
    'text, expected',
    [
        ('model { center_net { } }', 'model.center_net: --reference compares detectors with'),
        ('model { classification { } }', 'expected model.ssd or model.faster_rcnn.'),
        (
            'model { ssd { feature_extractor { type: "ssd_mobilenet_v2_keras" } } }',
            "'ssd_mobilenet_v2_keras' has variables of TensorFlow 2",
        ),
        ('model { ssd { box_type: ROTATED } }', 'has no rotated boxes'),
        ('model { ssd { } } graph_rewriter { }', 'compares float networks'),
        ('model { ssd { } }', 'eval_input_reader: none is set'),
    ],
)
def test_configs_that_cannot_be_compared_are_refused(text, expected):
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    with pytest.raises(errors.ConfigError) as caught:
        migration.prepare(config)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    'given, expected',
    [
        ({'pipeline_config_path': None}, 'needs --pipeline_config_path.'),
        ({'model_dir': 'a'}, '--model_dir is not read with --reference'),
        ({'set': ('a=1',)}, '--set is not read with --reference'),
        ({'pipeline_config_path': 'builtin:a'}, 'expected a file.'),
    ],
)
def test_flags_that_do_not_go_together_are_refused(given, expected):
    with pytest.raises(errors.UserError) as caught:
        front_door.run(RunOptions(**{**vars(NEVER), **given}))
    assert expected in str(caught.value)
