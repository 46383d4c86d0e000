"""Files of a recovery."""

import pathlib

import numpy as np
import pytest

from model_fns.structures.label_map import LabelMap
from protos import pipeline_pb2
from tests.vision_extras.recover import recovered
from vision_extras.recover import files
from vision_extras.recover.artifacts import reading
from vision_extras.recover.facts import Proposal
from vision_extras.recover.verification import Difference

ARTIFACT = reading.Artifact('folder/a.pb', reading.FROZEN_GRAPH, {})


def proposal():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.model.classification.num_classes = 3
    config.train_config.batch_size = 32
    config.train_config.fine_tune_checkpoint = 'model.ckpt-0'
    config.eval_config.num_examples = 7
    result = Proposal(config, 'tiny net')
    result.learn('model.classification.num_classes', 3, 'kernel | top')
    return result


def test_checkpoint_has_the_values(tmp_path):
    prefix = files.write_checkpoint({'net/weights': np.full([2], 5.0, np.float32)}, str(tmp_path))
    values = recovered.read_checkpoint(prefix)
    assert prefix.endswith('model.ckpt-0')
    assert values['net/weights'].tolist() == [5, 5] and values['global_step'] == 0


def test_comments_are_only_on_lines_without_a_fact(tmp_path):
    path = files.write_config(proposal(), ARTIFACT, str(tmp_path))
    text = pathlib.Path(path).read_text(encoding='utf-8')
    assert '    num_classes: 3\n' in text
    assert '  batch_size: 32  # for a fine-tuning; published: 1 to 64\n' in text
    assert '/model.ckpt-0"  # for a fine-tuning\n' in text
    assert '  num_examples: 7  # not told\n' in text
    expected = proposal().config
    expected.train_config.fine_tune_checkpoint = str(tmp_path / 'model.ckpt-0')
    assert recovered.parse(text) == expected


@pytest.mark.parametrize(
    'labels, names',
    [
        (['cat', 'dog', 'cat'], ['cat', 'dog', 'cat_3']),
        (['???', 'cat', 'dog', 'cow'], ['cat', 'dog', 'cow']),
        (['cat'], ['class_1', 'class_2', 'class_3']),
    ],
)
def test_label_map_has_the_names_of_the_file_or_placeholders(tmp_path, labels, names):
    found = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), 'tiny net')
    found.config.model.ssd.num_classes = 3
    files.name_classes(found, labels)
    files.write_others(found, str(tmp_path))
    items = LabelMap.read(str(tmp_path / found.config.train_input_reader.label_map_path)).items
    assert [(item.id, item.name) for item in items] == list(enumerate(names, 1))


@pytest.mark.parametrize(
    'model, first',
    [
        ('classification { num_classes: 1 }', 0),
        ('classification { num_classes: 1 labels_offset: 1 }', 1),
        ('segmentation { num_classes: 1 }', 0),
        ('center_net { num_classes: 1 }', 1),
    ],
)
def test_first_class_is_that_of_the_task(model, first):
    found = Proposal(recovered.parse(f'model {{ {model} }}'), 'tiny net')
    files.name_classes(found, [])
    assert f'id: {first}\n' in found.files[files.LABEL_MAP]


def test_label_map_of_a_proposal_stays():
    found = proposal()
    found.files[files.LABEL_MAP] = 'item { id: 7 }'
    files.name_classes(found, ['cat', 'dog', 'cow'])
    assert found.files[files.LABEL_MAP] == 'item { id: 7 }'
    assert found.config.train_input_reader.label_map_path == files.LABEL_MAP
    assert not found.knows('train_input_reader.label_map_path')


def test_report_names_evidence_difference_and_gaps(tmp_path):
    found = proposal()
    found.unknown.append('Nobody knows.')
    path = files.write_report(found, ARTIFACT, [Difference('logits', 2e-6, 'x')], str(tmp_path))
    text = pathlib.Path(path).read_text(encoding='utf-8')
    assert '| `model.classification.num_classes` | 3 | kernel / top |' in text
    assert '* logits: 2e-06 (x)' in text
    assert '* Nobody knows.' in text


def test_further_files_are_beside_the_config(tmp_path):
    found = proposal()
    found.config.train_input_reader.label_map_path = 'labels.pbtxt'
    found.files['labels.pbtxt'] = 'item { id: 1 }'
    files.write_others(found, str(tmp_path))
    assert (tmp_path / 'labels.pbtxt').read_text() == 'item { id: 1 }'
    path = files.write_config(found, ARTIFACT, str(tmp_path), '/elsewhere')
    config = recovered.parse(pathlib.Path(path).read_text(encoding='utf-8'))
    assert config.train_input_reader.label_map_path == '/elsewhere/labels.pbtxt'
    assert found.config.train_input_reader.label_map_path == 'labels.pbtxt'
