"""Artifacts of tiny models, and what is recovered from them."""

import os

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.schema import is_repeated
from estimator_lib.export import freezing, inference_graph, serving
from estimator_lib.export.devices import static_graph, tflite
from estimator_lib.export.writers import Source
from model_fns import build_task
from protos import export_pb2, pipeline_pb2
from tests import tiny_deployed
from vision_extras.recover import files as files_lib
from vision_extras.recover import recovering

tf1 = tf.compat.v1


def parse(text):
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


def write_checkpoint(text, folder, deviation=0.4, filled=None):
    """Write a checkpoint of a config's model with lively weights; return (config, task, prefix)."""
    config = parse(text)
    task = build_task(config, 'export')
    prefix = os.path.join(folder, 'source', 'model.ckpt')
    return config, task, tiny_deployed.save(task, prefix, filled=filled, deviation=deviation)


def calmed(values):
    """Change values of variables so that layers keep the size of their inputs.

    In deep networks, lively weights make large differences of the noise of floating point.
    """
    weights = {name: value for name, value in values.items() if name.endswith('weights')}
    for name, value in weights.items():
        fan_in = np.prod(value.shape[: 2 if name.endswith('depthwise_weights') else -1])
        weights[name] = (value * np.sqrt(1.6 / fan_in) / value.std()).astype(np.float32)
    return {**values, **weights}


def freeze(text, folder, deviation=0.4, is_calm=False):
    """Write the frozen graph of a config's model with lively weights; return (config, path)."""
    config = parse(text)
    task = build_task(config, 'export')
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(0)
        receiver = serving.serving_input_receiver_fn(task, export_pb2.IMAGE_TENSOR)()
        outputs = list(inference_graph.build_outputs(task, receiver.features).values())
        tiny_deployed.enliven(session, deviation)
        if is_calm:
            variables = {one.op.name: one for one in tf1.global_variables()}
            for name, value in calmed(session.run(variables)).items():
                variables[name].load(value, session)
        frozen = freezing.fold_batch_norms(freezing.freeze(session, outputs), outputs)
    path = os.path.join(folder, 'frozen.pb')
    with open(path, 'wb') as file:
        file.write(frozen.to_graph_def().SerializeToString())
    return config, path


def convert(text, folder, quantize='none', is_calm=False, filled=None):
    """Write the TFLite file of a config's model; return (config, path)."""
    config, task, prefix = write_checkpoint(text, folder, filled=filled)
    if is_calm:
        values = {name: value for name, value in read_checkpoint(prefix).items() if '/' in name}
        prefix = files_lib.write_checkpoint(calmed(values), os.path.join(folder, 'calm'))
    writer = tflite.TfliteWriter()
    graph = static_graph.build(task.deployable(writer.ops), Source(task, config, prefix))
    path = os.path.join(folder, 'model.tflite')
    writer.convert(graph, path, quantize)
    return config, path


def recover(path, folder):
    """Recover an artifact; return (files, config)."""
    files = recovering.recover(path, os.path.join(folder, 'recovered'))
    with open(files.config, encoding='utf-8') as file:
        return files, parse(file.read())


def plain(message, without=()):
    """Return the set fields of a message, floats rounded, but for those of some names."""
    result = {}
    for field, value in message.ListFields():
        if field.name in without:
            continue
        if field.message_type is not None:
            many = is_repeated(field)
            value = [plain(one, without) for one in value] if many else plain(value, without)
        elif field.cpp_type == field.CPPTYPE_FLOAT:
            many = is_repeated(field)
            value = np.round(list(value) if many else value, 6).tolist()
        result[field.name] = list(value) if hasattr(value, 'append') else value
    return result


def read_checkpoint(prefix):
    """Return the variables of a checkpoint by name."""
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def with_defaults(message):
    """Set the fields of values that have a default, so that it counts as a set value."""
    for field in message.DESCRIPTOR.fields:
        if is_repeated(field):
            continue
        if field.message_type is None:
            setattr(message, field.name, getattr(message, field.name))
        elif message.HasField(field.name):
            with_defaults(getattr(message, field.name))
    return message


def flat(fields, path=''):
    """Return the values of nested fields by their path, so that differences are short."""
    if isinstance(fields, dict):
        return {
            name: value
            for key, inside in fields.items()
            for name, value in flat(inside, f'{path}.{key}').items()
        }
    return {path: fields}
