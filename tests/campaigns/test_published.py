"""Outcomes of published configs, by hand."""

import pathlib

import pytest
from google.protobuf import text_format

from benchmarks import measuring, pipelines
from protos import pipeline_pb2
from tests.campaigns import published


@pytest.mark.parametrize(
    ('model', 'kind'),
    [
        ('ssd { num_classes: 2 }', ''),
        ('ssd { feature_extractor { bifpn { min_level: 3 } } }', ''),
        ('faster_rcnn { num_classes: 2 }', ''),
        ('center_net { num_classes: 2 }', ''),
        ('experimental_model {}', 'model.experimental_model'),
    ],
)
def test_kinds_that_are_not_available(model, kind):
    config = text_format.Parse(f'model {{ {model} }}', pipeline_pb2.TrainEvalPipelineConfig())
    assert published.unavailable_kind(config) == kind


def test_a_refusal_that_nobody_expects_is_a_failure(tmp_path):
    path = tmp_path / 'empty.config'
    path.write_text('model { ssd { num_classes: 2 } }')
    outcome = published.run_here(str(path))
    assert outcome.status == published.FAILED
    assert outcome.name == 'empty' and outcome.message


def test_the_step_alone_has_the_side_that_it_is_given(monkeypatch):
    name = 'ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8'
    path = pathlib.Path(pipelines.PUBLISHED, 'tf2', f'{name}.config')
    if not path.exists():
        pytest.skip('the published configs are not there')
    sides = {}

    def run(task, config, folder):
        resizer = config.model.ssd.image_resizer.fixed_shape_resizer
        sides[parts.pop(0)] = (resizer.height, resizer.width)
        return published.Part()

    parts = list(published._PARTS)
    monkeypatch.setattr(published, '_part_apart', published.run_part)
    monkeypatch.setattr(published, '_PARTS', dict.fromkeys(parts, run))
    assert published.run_here(str(path), step_side=256).status == published.DONE
    assert sides == {'step': (256, 256), 'evaluation': (320, 320), 'export': (320, 320)}


def test_what_fails_in_a_process_of_its_own_is_a_failure(monkeypatch):
    def fail(module, arguments, timeout=None):
        raise measuring.ProcessError('status 1', ['a traceback', 'ValueError: no'])

    monkeypatch.setattr(measuring, 'run_apart', fail)
    outcome = published.run_apart('configs/one.config', memory_gib=2)
    assert (outcome.name, outcome.status) == ('one', published.FAILED)
    assert outcome.message == 'status 1: ValueError: no'
    assert published._part_apart('step', 'a_folder').message == 'step: status 1: ValueError: no'
