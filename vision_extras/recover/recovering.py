"""Recovery of a config and a checkpoint from an artifact."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from typing import Dict, Iterator, List, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, model_dirs
from estimator_lib.export.devices import static_graph
from model_fns import build_task
from model_fns.backbones import registry
from vision_extras.recover import bases, classification, files, segmentation, verification
from vision_extras.recover.artifacts import reading, running
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import (
    center_nets,
    object_checkpoints,
    single_shot,
    two_stage,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# Modules that describe the model of an artifact, if it is one of theirs.
_RECOGNIZERS = (
    object_checkpoints,
    center_nets,
    single_shot,
    two_stage,
    segmentation,
    classification,
)
_QUANTIZED = (
    'FakeQuantWithMinMaxVars',
    'FakeQuantWithMinMaxArgs',
    'Dequantize',
    'QuantizedConv2D',
)
# Names that Keras gives to layers: `model/conv2d_3/Conv2D`.
_KERAS = re.compile(r'^([\w-]+/)*((separable_|depthwise_)?conv2d|dense|block\d+_conv\d+)(_\d+)?/')
_STATE = 'checkpoint'  # the file that names the checkpoint of a folder
# Scopes that names of published networks begin with.
_SCOPES = (
    'FeatureExtractor',
    'KerasFeatureExtractor',
    'FirstStageFeatureExtractor',
    'KerasFirstStageFeatureExtractor',
    'BoxPredictor_0',
    'WeightSharedConvolutionalBoxPredictor',
)


class Recovered(NamedTuple):
    """Files of a recovery.

    Attributes:
        config: path of the config.
        checkpoint: prefix of the checkpoint.
        report: path of the report.
        network: name of the network.
    """

    config: str
    checkpoint: str
    report: str
    network: str


def recover(source: str, output_dir: str) -> Recovered:
    """Write the config and the checkpoint of an artifact's model.

    Args:
        source: path of a frozen graph, a SavedModel's folder, a TFLite file, or a checkpoint's
            prefix or folder.
        output_dir: created if it does not exist; it must not hold what is written.

    Raises:
        errors.UserError: the artifact cannot be read; its model is not known; or the recovered
            model computes something else. Nothing is written then. Or `output_dir` cannot be
            written.
    """
    written = (files.CONFIG, files.LABEL_MAP, files.REPORT)
    held = [name for name in written if tf.io.gfile.exists(os.path.join(output_dir, name))]
    if checkpoint_files.latest_checkpoint(output_dir) is not None:
        held.insert(0, 'a checkpoint')
    if held:
        raise errors.UserError(
            f'--output_dir: {output_dir} holds {held[0]} already; expected another folder.'
        )
    artifact = reading.read(source, _scopes())
    with _explained(artifact):
        kernels = Kernels(artifact)
        proposal = _propose(artifact, kernels)
    files.name_classes(proposal, artifact.labels)
    model_dirs.ensure_writable(output_dir)
    with tempfile.TemporaryDirectory() as folder:
        with _explained(artifact):
            differences = _build(artifact, kernels, proposal, folder)
        files.write_config(proposal, artifact, folder, os.path.abspath(output_dir))
        files.write_report(proposal, artifact, differences, folder)
        _copy_files(folder, output_dir)
    prefix = checkpoint_files.resolve_checkpoint(output_dir)
    paths = (os.path.join(output_dir, name) for name in (files.CONFIG, files.REPORT))
    config, report = paths
    return Recovered(config, prefix, report, proposal.network)


def _copy_files(folder: str, output_dir: str) -> None:
    """Copy all files, the one that names the checkpoint last."""
    for name in sorted(os.listdir(folder), key=lambda name: (name == _STATE, name)):
        target = os.path.join(output_dir, name)
        try:
            tf.io.gfile.copy(os.path.join(folder, name), target)
        except tf.errors.OpError as error:
            raise errors.UserError(
                f'--output_dir: {target} cannot be written: {errors.plain_message(error)}.'
            ) from error


@contextlib.contextmanager
def _explained(artifact: Artifact) -> Iterator[None]:
    """Turn an error of running a graph into a sentence."""
    try:
        yield
    except tf.errors.OpError as error:
        raise errors.UserError(
            f'--from: {artifact.path} is not recovered: its graph fails on an image: '
            f'{errors.first_line(error)[:200]}.'
        ) from error


def _scopes() -> Sequence[str]:
    names = registry.network_names('detection')
    scopes = {registry.get_network(name, task='detection').scope for name in names}
    return (*_SCOPES, *sorted(scopes - {''}))


def _propose(artifact: Artifact, kernels: Kernels) -> Proposal:
    """Ask each task for a description of an artifact."""
    if artifact.graph is not None and artifact.graph.find_ops(*_QUANTIZED):
        raise errors.UserError(
            f'--from: {artifact.path} is quantized, or trained for it; expected a graph with '
            'weights and activations of floating point only.'
        )
    if artifact.objects is None and not kernels.shapes():
        raise errors.UserError(
            f'--from: {artifact.path} is no vision model: it has no layers with weights; expected '
            'a classifier, a detector or a segmentation network.'
        )
    if _has_merged_normalization(artifact):
        raise errors.UserError(
            f'--from: {artifact.path} is not recovered: its converter has merged the normalization '
            'of pixels into the first layer; expected the frozen graph or the SavedModel of the '
            'network.'
        )
    for recognizer in _RECOGNIZERS:
        try:
            proposal = recognizer.propose(artifact, kernels)
        except Refusal as refusal:
            raise errors.UserError(_refused(artifact, refusal)) from refusal
        if proposal is not None:
            log.info('%s: %s', artifact.path, proposal.network)
            if artifact.averages:
                taken = f'moving averages of {artifact.averages} variables'
                proposal.learn(bases.CHECKPOINT, taken, 'names of the checkpoint')
            return proposal
    raise errors.UserError(_unknown(artifact, kernels))


def _has_merged_normalization(artifact: Artifact) -> bool:
    """Check whether a TFLite file of the export takes pixels without normalizing them.

    The converter does so where the first layer has no padding, as in Inception V3.
    """
    if artifact.kind != reading.TFLITE_FILE or static_graph.INPUT not in artifact.graph.nodes:
        return False
    return not running.prepares_pixels(artifact.graph, static_graph.INPUT)


def _refused(artifact: Artifact, refusal: Refusal) -> str:
    lines = [f'--from: {artifact.path} is not recovered: {refusal}.']
    for name, differences in refusal.differences.items():
        lines.append(
            f'  {name}: {len(differences)} differences: {errors.shortened(differences, 4)}'
        )
    return '\n'.join(lines)


def _unknown(artifact: Artifact, kernels: Kernels) -> str:
    names = sorted(kernels.shapes())
    if any(map(_KERAS.match, names)):
        return (
            f'--from: {artifact.path} is a model of Keras: its layers are '
            f'{errors.shortened(names, 4)}; expected a network with the names of TF-Slim, the '
            'Object Detection API or DeepLab.'
        )
    near = errors.nearest(names[0].partition('/')[0], _scopes())
    hint = f'; the scope of the nearest is {near}' if near else ''
    return (
        f'--from: {artifact.path} is of no known network; its kernels are '
        f'{errors.shortened(names, 4)}. Expected a published network, or one of this package{hint}.'
    )


def _build(
    artifact: Artifact, kernels: Kernels, proposal: Proposal, folder: str
) -> List[verification.Difference]:
    """Write the checkpoint of a proposal, and compare its model with the artifact."""
    files.write_others(proposal, folder)
    try:
        task = build_task(files.placed(proposal, folder), 'export')
    except errors.ConfigError as error:
        raise errors.UserError(
            f'--from: {artifact.path}: the recovered config is not valid: {error}'
        ) from error
    with contextlib.ExitStack() as opened:
        probe, shape = None, None
        if artifact.graph is not None and proposal.outputs:
            runner = opened.enter_context(running.open_runner(artifact))
            probe = verification.Probe(runner, proposal)
            shape = probe.shape
        model = verification.Model(task, shape)
        prefix = files.write_checkpoint(_values(artifact, kernels, proposal, model), folder)
        differences = [] if probe is None else probe.compare(model, prefix)
    if probe is not None and not verification.agrees(differences):
        raise errors.UserError(
            f'--from: {artifact.path} is not recovered: it looks like {proposal.network}, but on '
            f'test images the recovered model differs: {", ".join(map(str, differences))}; '
            f'expected equal shapes, and at most {verification.TOLERANCE:g}.'
        )
    return differences


def _values(
    artifact: Artifact, kernels: Kernels, proposal: Proposal, model: verification.Model
) -> Dict[str, np.ndarray]:
    """Find the value of each variable of a recovered model."""
    values = kernels.values(model.graph, model.exported)
    if values.missing:
        raise errors.UserError(
            f'--from: {artifact.path} is not recovered: it looks like {proposal.network}, but '
            f'{len(values.missing)} variables differ: {errors.shortened(values.missing, 4)}.'
        )
    if values.unused:
        proposal.unknown.append(
            f'{len(values.unused)} variables that the outputs do not depend on are not in it; '
            'they have initial values.'
        )
        with tf1.Session(graph=model.graph) as session:
            session.run([variable.initializer for variable in values.unused])
            values.known.update(session.run({each.op.name: each for each in values.unused}))
    return values.known
