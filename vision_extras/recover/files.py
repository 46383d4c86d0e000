"""Files of a recovery: the config with its comments, the checkpoint, the report."""

from __future__ import annotations

import os
import re
from typing import List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import Message

from estimator_lib.checkpoints import checkpoint_files
from model_fns.structures import label_map_files
from protos import label_map_pb2, pipeline_pb2
from vision_extras.recover import bases
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.facts import Proposal
from vision_extras.recover.verification import TOLERANCE, Difference

tf1 = tf.compat.v1

CONFIG = 'pipeline.config'
LABEL_MAP = label_map_files.FILE
REPORT = 'recovery.md'
_DEFAULT = 'not told'
_FINE_TUNING = 'for a fine-tuning'


def write_checkpoint(values: Mapping[str, np.ndarray], folder: str) -> str:
    """Write variables as a name-based checkpoint of step 0; return its prefix."""
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.train.create_global_step()
        feeds, variables = {}, [step]
        for name, value in sorted(values.items()):
            start = tf1.placeholder(value.dtype, value.shape)
            variable = tf1.get_variable(name, initializer=start, use_resource=True)
            feeds[start] = value
            variables.append(variable)
        session.run(tf1.global_variables_initializer(), feeds)
        with checkpoint_files.explained_write(folder):
            return tf1.train.Saver(variables).save(
                session, os.path.join(folder, 'model.ckpt'), 0, write_meta_graph=False
            )


def name_classes(proposal: Proposal, labels: Sequence[str]) -> None:
    """Name the label map in the readers, and add one to a proposal that has none.

    Args:
        proposal: changed in place.
        labels: names of the classes, maybe with one of a background before them; others, or none,
            are replaced by placeholders.
    """
    config = proposal.config
    for reader in (config.train_input_reader, *config.eval_input_reader):
        reader.label_map_path = LABEL_MAP
    if LABEL_MAP in proposal.files:
        return
    kind = config.model.WhichOneof('model')
    model = getattr(config.model, kind)
    first = getattr(model, 'labels_offset', 0 if kind == 'segmentation' else 1)
    names = [f'class_{first + index}' for index in range(model.num_classes)]
    if len(labels) - len(names) in (0, 1):
        names = list(labels[len(labels) - len(names) :])
        evidence = f'{len(labels)} lines of a text file in it'
        proposal.learn('train_input_reader.label_map_path', LABEL_MAP, evidence)
    label_map = label_map_pb2.StringIntLabelMap()
    for index, name in enumerate(names):
        is_double = name in names[:index]
        label_map.item.add(id=first + index, name=f'{name}_{first + index}' if is_double else name)
    proposal.files[LABEL_MAP] = text_format.MessageToString(label_map)


def write_others(proposal: Proposal, folder: str) -> None:
    """Write the further files of a proposal."""
    with checkpoint_files.explained_write(folder):
        for name, text in proposal.files.items():
            checkpoint_files.write_atomically(os.path.join(folder, name), text)


def placed(proposal: Proposal, folder: str) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Return the config of a proposal whose further files are in a folder."""
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.CopyFrom(proposal.config)
    messages: List[Message] = [config]
    while messages:
        message = messages.pop()
        for field, value in message.ListFields():
            if field.message_type is None:
                if isinstance(value, str) and value in (*proposal.files, bases.CHECKPOINT):
                    setattr(message, field.name, os.path.join(folder, value))
            elif isinstance(value, Message):
                messages.append(value)
            elif not field.message_type.GetOptions().map_entry:
                messages += value
    return config


def write_config(
    proposal: Proposal, artifact: Artifact, folder: str, output_dir: Optional[str] = None
) -> str:
    """Write the config; comments mark what the artifact does not tell. Return its path.

    Args:
        proposal: the model.
        artifact: what it was recovered from.
        folder: where to.
        output_dir: where the files will be; None: there.
    """
    path = os.path.join(folder, CONFIG)
    text = text_format.MessageToString(placed(proposal, output_dir or folder))
    lines = [
        f'# {proposal.network}, recovered from {os.path.basename(artifact.path)}. Values with',
        f'# "{_DEFAULT}" are those of a model of its kind in the package; {REPORT} has the',
        '# evidence for the others. The training is a fine-tuning of its weights: set the paths of',
        f'# the data, and the names of the classes in {LABEL_MAP}.',
        '',
        *annotate(text.splitlines(), proposal),
        '',
    ]
    with checkpoint_files.explained_write(folder):
        checkpoint_files.write_atomically(path, '\n'.join(lines))
    return path


def annotate(lines: Sequence[str], proposal: Proposal) -> List[str]:
    """Add a comment to each line of a config that no fact covers."""
    path: List[str] = []
    result = []
    for line in lines:
        opened = re.match(r'\s*(\w+) \{$', line)
        value = re.match(r'\s*(\w+): ', line)
        if opened:
            path.append(opened.group(1))
        elif line.strip() == '}':
            path.pop()
        elif value and not proposal.knows('.'.join([*path, value.group(1)])):
            published = bases.PUBLISHED.get(value.group(1))
            is_training = published or path[:1] == ['train_config']
            reason = _FINE_TUNING if is_training else _DEFAULT
            line += '  # ' + '; '.join(filter(None, [reason, published]))
        result.append(line)
    return result


def write_report(
    proposal: Proposal, artifact: Artifact, differences: Sequence[Difference], folder: str
) -> str:
    """Write the report of a recovery; return its path."""
    lines = [
        f'# Recovery of {os.path.basename(artifact.path)}',
        '',
        f'A {artifact.kind} with {len(artifact.arrays)} arrays. Recognized: {proposal.network}.',
        '',
        '| field | value | evidence |',
        '|---|---|---|',
        *(
            f'| `{fact.path}` | {_cell(fact.value)} | {_cell(fact.evidence)} |'
            for fact in proposal.facts
        ),
        '',
        '## Comparison',
        '',
    ]
    if differences:
        lines += [
            f'The artifact and the recovered model ran on the same images; {TOLERANCE:g} is '
            'accepted.',
            '',
            *(f'* {one.output}: {one.largest:.3g} ({one.meaning})' for one in differences),
        ]
    else:
        lines.append('Nothing was compared: a checkpoint has no graph that could be run.')
    lines += [
        '',
        '## Unknown',
        '',
        '* Losses, initial values and regularization are those of a model of its kind in the '
        'package; the config marks them. Optimizer, schedule and batch norm are for a fine-tuning.',
        *(f'* {sentence}' for sentence in proposal.unknown),
        '',
    ]
    path = os.path.join(folder, REPORT)
    with checkpoint_files.explained_write(folder):
        checkpoint_files.write_atomically(path, '\n'.join(lines))
    return path


def _cell(text: str) -> str:
    return text.replace('|', '/').replace('\n', ' ')
