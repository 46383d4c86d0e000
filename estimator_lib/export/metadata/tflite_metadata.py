"""Metadata of TFLite files, by which MediaPipe Tasks and ML Kit know what a model takes and gives.

The metadata is a flatbuffer of its own, in a buffer of the model. Its schema is public:
`metadata_schema.fbs` of the project tflite-support, which MediaPipe continues. Files that belong to
it, here the labels, follow the model as an uncompressed ZIP archive.

Programs that read no metadata go by the order of the outputs. The converter sorts them in no useful
way, so `add` sorts them too.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.export import artifacts
from estimator_lib.export.metadata import flatbuffer_tables, model_facts
from estimator_lib.export.metadata.flatbuffer_tables import Table
from estimator_lib.task_interfaces.deployable import Content, Deployable

NAME = 'TFLITE_METADATA'
FACTS_FILE = 'metadata.json'
IDENTIFIER = b'M001'

_MOST_LABELS = 1 << 20  # bytes
_PARSER = '1.0.0'  # the oldest parser that knows all of this
_MEAN, _STD = 0.0, 1.0  # the file normalizes pixels itself
_DARKEST, _BRIGHTEST = 0.0, 255.0

# Values of the schema.
_COLOR_SPACES = {1: np.int8(2), 3: np.int8(1)}  # ColorSpaceType by channels: grayscale, RGB
_UNKNOWN = np.int8(0)
_FEATURE, _IMAGE, _BOX = np.uint8(1), np.uint8(2), np.uint8(3)  # kinds of ContentProperties
_NORMALIZATION, _THRESHOLD = np.uint8(1), np.uint8(3)  # kinds of ProcessUnitOptions
_BOUNDARIES = np.int8(1)  # BoundingBoxType
_AXIS_LABELS, _VALUE_LABELS = np.int8(2), np.int8(3)  # AssociatedFileType
# Columns of left, top, right and bottom in (ymin, xmin, ymax, xmax).
_COLUMNS = np.array([1, 0, 3, 2], np.uint32)

# Of the earliest time that ZIP has, so that equal models are equal files.
_TIME = (1980, 1, 1, 0, 0, 0)


def add(
    content: bytes,
    deployable: Deployable,
    title: str,
    names: Sequence[str],
    facts: Mapping[str, Any],
) -> bytes:
    """Add metadata and labels to a TFLite file, and sort its outputs.

    Args:
        content: of a file with one signature, whose outputs have the names of
            `Deployable.meanings`.
        deployable: describes the input and the outputs.
        title: of the model, for people.
        names: of the classes; empty: the file gets no labels.
        facts: of the model by name, texts and lists (`model_facts.describe`), which
            become `metadata.json` in the archive.

    Returns:
        The content of the new file. It computes the same.
    """
    # The generated schema of the converter that has written the file.
    from tensorflow.lite.python import schema_py_generated as schema
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    graph = model.subgraphs[0]
    tensors = {each.name.decode(): each.tensorIndex for each in model.signatureDefs[0].outputs}
    # The outputs that other programs know come first, each once.
    order = list(dict.fromkeys([*deployable.contents, *deployable.meanings]))
    graph.outputs = np.array([tensors[name] for name in order], np.int32)
    outputs = [
        _describe_output(
            deployable,
            name,
            graph.tensors[tensors[name]].shape,
            names,
            facts.get('threshold'),
        )
        for name in order
    ]
    told = {2: facts.get('version'), 5: facts.get('license')}
    metadata = Table(
        {
            0: title,
            **{place: value for place, value in told.items() if value},
            3: [Table({2: [_describe_input(deployable.input_shape)], 3: outputs})],
            7: _PARSER,
        }
    )
    data = flatbuffer_tables.encode(metadata, IDENTIFIER)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(data, np.uint8)
    entry.name, entry.buffer = NAME, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or ()), entry]
    described = bytes(flatbuffer_utils.convert_object_to_bytearray(model))
    files = {
        # First, since other programs read the first file.
        **({FACTS_FILE: model_facts.as_json(facts)} if facts else {}),
        **({artifacts.LABELS_FILE: artifacts.label_lines(names)} if names else {}),
    }
    return _append_files(described, files) if files else described


class Metadata(NamedTuple):
    """What the metadata of a TFLite file tell of its input and its classes.

    Attributes:
        mean: of each channel, which is taken from pixels; empty: not told.
        deviation: of each channel, by which the difference is divided.
        labels: lines of the file's list of names; empty: it has none.
    """

    mean: Sequence[float] = ()
    deviation: Sequence[float] = ()
    labels: Sequence[str] = ()


def read(path: str) -> Metadata:
    """Read the metadata of a file of any program, and the labels in it."""
    from tensorflow.lite.python import schema_py_generated as schema

    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    model = schema.Model.GetRootAs(content)
    mean: Sequence[float] = ()
    deviation: Sequence[float] = ()
    for index in range(model.MetadataLength()):
        entry = model.Metadata(index)
        if entry.Name() == NAME.encode():
            mean, deviation = _read_normalization(model.Buffers(entry.Buffer()).DataAsNumpy())
    return Metadata(mean, deviation, read_labels(content))


def _read_normalization(data: Any) -> Tuple[Sequence[float], Sequence[float]]:
    """Return mean and deviation of the first input; empty where the metadata have none."""
    if isinstance(data, int):  # what the generated code returns for an empty buffer
        return (), ()
    root = flatbuffer_tables.decode(bytes(data))
    for graph in root.tables(3)[:1]:
        for tensor in graph.tables(2)[:1]:
            for unit in tensor.tables(4):
                if unit.number(0, np.uint8) == _NORMALIZATION:
                    options = unit.table(1)
                    return options.numbers(0, np.float32), options.numbers(1, np.float32)
    return (), ()


def read_labels(content: bytes) -> Sequence[str]:
    """Return the lines of the first text file in the archive behind a model; () without one.

    Args:
        content: of a TFLite file. Text files of more than 1 MiB are left out.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return ()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        texts = [
            entry
            for entry in archive.infolist()
            if entry.filename.endswith('.txt') and entry.file_size <= _MOST_LABELS
        ]
        if not texts:
            return ()
        return archive.read(texts[0]).decode('utf-8', 'replace').splitlines()


def _describe_input(shape: Sequence[int]) -> Table:
    """Describe the image: its size, its colors and the range of its pixels."""
    height, width, channels = shape
    size = Table({0: np.uint32(width), 1: np.uint32(height)})
    image = Table({0: _COLOR_SPACES.get(channels, _UNKNOWN), 1: size})
    normalization = Table({0: _floats(channels, _MEAN), 1: _floats(channels, _STD)})
    stats = Table({0: _floats(channels, _BRIGHTEST), 1: _floats(channels, _DARKEST)})
    return Table(
        {
            0: 'image',
            1: 'pixels from 0 to 255',
            3: Table({0: _IMAGE, 1: image}),
            4: [Table({0: _NORMALIZATION, 1: normalization})],
            5: stats,
        }
    )


def _describe_output(
    deployable: Deployable,
    name: str,
    shape: Sequence[int],
    names: Sequence[str],
    threshold: Optional[float],
) -> Table:
    """Describe an output of a shape, and the least score that is worth showing."""
    content = deployable.contents.get(name)
    properties: Mapping[int, Any] = {0: _FEATURE, 1: Table({})}
    if content is Content.BOXES:
        # Fractions of the image, which is the default of the schema.
        properties = {0: _BOX, 1: Table({0: _COLUMNS, 1: _BOUNDARIES})}
    fields: Dict[int, Any] = {
        0: content.value if content and content.value else name,
        1: deployable.meanings[name],
        3: Table(properties),
    }
    if content is Content.BOX_SCORES and threshold is not None:
        options = Table({0: np.float32(threshold)})
        fields[4] = [Table({0: _THRESHOLD, 1: options})]
    files = _label_files(content, shape, names)
    return Table({**fields, 6: files} if files else fields)


def _label_files(content: Any, shape: Sequence[int], names: Sequence[str]) -> List[Table]:
    """Return the labels of an output: of its last axis, or of its values."""
    if content is Content.CLASS_SCORES and shape[-1] == len(names):
        kind = _AXIS_LABELS
    elif content is Content.CLASS_NUMBERS and names:
        kind = _VALUE_LABELS
    else:
        return []
    return [Table({0: artifacts.LABELS_FILE, 1: 'names of the classes', 2: kind})]


def _floats(count: int, value: float) -> np.ndarray:
    return np.full([count], value, np.float32)


def _append_files(content: bytes, files: Mapping[str, str]) -> bytes:
    """Append an archive with texts by file name."""
    file = io.BytesIO()
    file.write(content)
    # Mode `a` appends an archive to a file that is none. ZIP has its directory at the end, and a
    # flatbuffer is read from its beginning, so both are found.
    with zipfile.ZipFile(file, 'a') as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), text)
    return file.getvalue()
