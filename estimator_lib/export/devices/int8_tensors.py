"""Tensors of TFLite files in int8: which lose most, and some that stay float.

All values of a tensor share one scale in int8. Where a channel is a thousand times larger than the
others, the others become 0. `QuantizationDebugger` of TensorFlow computes each op in float beside
the same op in int8, and returns both results.
"""

from __future__ import annotations

import csv
import io
import itertools
import shlex
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors

_WORST = 5  # tensors that are listed
_MOST_DECIBELS = 100.0  # of a channel without noise
# Ops whose results have the scale of what they read: rounding one rounds the other.
_SAME_SCALE = (
    *('AVERAGE_POOL_2D', 'BATCH_TO_SPACE_ND', 'BROADCAST_TO', 'CONCATENATION', 'DEPTH_TO_SPACE'),
    *('EXPAND_DIMS', 'GATHER', 'GATHER_ND', 'MAXIMUM', 'MAX_POOL_2D', 'MINIMUM', 'MIRROR_PAD'),
    *('PACK', 'PAD', 'PADV2', 'REDUCE_MAX', 'REDUCE_MIN', 'RESHAPE', 'RESIZE_BILINEAR'),
    *('RESIZE_NEAREST_NEIGHBOR', 'REVERSE_V2', 'SELECT', 'SELECT_V2', 'SLICE'),
    *('SPACE_TO_BATCH_ND', 'SPACE_TO_DEPTH', 'SPLIT', 'SPLIT_V', 'SQUEEZE', 'STRIDED_SLICE'),
    *('TILE', 'TRANSPOSE', 'UNPACK'),
)


def convert(converter: Any, keep_float: Sequence[str]) -> bytes:
    """Convert a network to int8, but for some tensors.

    Args:
        converter: TensorFlow's, with all options for int8 and the images for ranges.
        keep_float: names of tensors, as `describe` lists them.

    Returns:
        The content of the file.

    Raises:
        errors.UserError: there is no tensor of a name.
    """
    from tensorflow.lite.python import convert as tflite_convert

    calibrated = _debugger(converter).calibrated_model
    # `get_nondebug_quantized_model` of the debugger does the same for an input of float32.
    return tflite_convert.mlir_quantize(
        calibrated,
        input_data_type=converter.inference_input_type,
        **_as_denylists(read_ops(calibrated), keep_float),
    )


def describe(converter: Any, images: Sequence[np.ndarray], keep_float: Sequence[str]) -> List[str]:
    """Return lines on the tensors with the worst ratios of signal to noise.

    They have the order of computation, because errors of one tensor reach those after it.

    Args:
        converter: TensorFlow's, with all options for int8 and the images for ranges.
        images: float32 [1, height, width, channels] each, on which ops are compared.
        keep_float: names of tensors that are float already.
    """
    debugger = _debugger(converter)
    ops = read_ops(debugger.calibrated_model)
    kept = _as_denylists(ops, keep_float)
    try:
        debugger.options = tf.lite.experimental.QuantizationDebugOptions(**kept)
    except ValueError:  # nothing is rounded any more
        return []
    # A debugger of a file keeps all tensors, which the ratio needs; one of a converter does not.
    compared = tf.lite.experimental.QuantizationDebugger(
        quant_debug_model_content=debugger.get_debug_quantized_model(),
        debug_dataset=lambda: ([image] for image in images),
        debug_options=tf.lite.experimental.QuantizationDebugOptions(
            layer_direct_compare_metrics={'ratio': signal_to_noise}
        ),
    )
    compared.run()
    table = io.StringIO()
    compared.layer_statistics_dump(table)
    rows = list(csv.DictReader(io.StringIO(table.getvalue())))
    if not rows:
        return []
    bound = sorted(float(row['ratio']) for row in rows)[:_WORST][-1]
    names = _shortest_names(ops)
    return [
        'Least signal to noise of its tensors, in the order of computation. Errors of one '
        'reach those after it. The flag keeps a tensor in float:',
        *(
            f'  {float(row["ratio"]):6.1f} dB  {row["op_name"]:<20} '
            f'--keep_float={shlex.quote(names.get(row["tensor_name"], row["tensor_name"]))}'
            for row in rows
            if float(row['ratio']) <= bound
        ),
    ]


def _debugger(converter: Any) -> Any:
    # It wants a dataset, which only `run` reads.
    return tf.lite.experimental.QuantizationDebugger(converter=converter, debug_dataset=lambda: ())


def signal_to_noise(
    expected: np.ndarray, computed: np.ndarray, scale: float, zero_point: int
) -> float:
    """Return the mean ratio of signal to noise of the channels of a tensor, in decibels.

    Of each channel it is the power of its values over that of their errors. A mean over all values
    would not see that small channels are lost beside a large one. Channels of zeros do not count.

    Args:
        expected: float32 [.., channels].
        computed: int8 of the same shape.
        scale: of `computed`.
        zero_point: of `computed`.

    Example:
        Of [[100, 1, 0]], rounded to [[90, 0, 0]], two channels have 10^2 and 1: 20 and 0 dB, and
        10 dB.
    """
    axes = tuple(range(expected.ndim - 1))
    values = (computed.astype(np.float64) - zero_point) * scale
    signal = np.square(expected, dtype=np.float64).mean(axes)
    noise = np.square(values - expected).mean(axes)
    signal, noise = signal[signal > 0], noise[signal > 0]
    if not signal.size:
        return _MOST_DECIBELS
    # A channel without noise would have an infinite ratio, and so would the mean.
    least = signal * 10 ** (-_MOST_DECIBELS / 10)
    return float(np.mean(10 * np.log10(signal / np.maximum(noise, least))))


class Op(NamedTuple):
    """Op of a TFLite file.

    Attributes:
        kind: its name in TFLite: `CONV_2D`.
        inputs: names of the tensors that it reads.
        outputs: names of the tensors that it computes.
    """

    kind: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


def read_ops(content: bytes) -> List[Op]:
    """Return the ops of a TFLite file."""
    from tensorflow.lite.python import schema_py_generated as schema

    kinds = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    model = schema.Model.GetRootAs(content)
    graph = model.Subgraphs(0)

    def name(index: int) -> str:
        return graph.Tensors(index).Name().decode() if index >= 0 else ''  # -1: left out

    ops = []
    for op in map(graph.Operators, range(graph.OperatorsLength())):
        code = model.OperatorCodes(op.OpcodeIndex())
        # The older field has 8 bits and 127 for all later ops. Writers from before the newer one
        # leave that at 0.
        kind = kinds[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        inputs = tuple(name(op.Inputs(index)) for index in range(op.InputsLength()))
        outputs = tuple(name(op.Outputs(index)) for index in range(op.OutputsLength()))
        ops.append(Op(kind, inputs, outputs))
    return ops


def select(ops: Sequence[Op], keep_float: Sequence[str]) -> List[str]:
    """Return the results that must not be rounded to keep tensors in float.

    These are the tensors and what is computed from them: an op in int8 reads int8. Ops whose result
    has the scale of what they read pass it on, so what reads their results is float too.

    Args:
        ops: of the file.
        keep_float: names of tensors, or parts of them between semicolons: the converter joins the
            names of the ops that it fuses.

    Raises:
        errors.UserError: there is no tensor of a name.

    Example:
        Of a -> CONV_2D -> b -> RESHAPE -> c -> ADD -> d -> MUL -> e, `b` is kept by b, c and d.
    """
    by_part = _tensors_by_part(ops)
    wanted: List[str] = []
    for name in keep_float:
        if name not in by_part:
            raise errors.UserError(
                f'--keep_float={name}: the file has no such tensor'
                f'{errors.did_you_mean(name, _shortest_names(ops).values())}'
            )
        wanted += by_part[name]
    kept = dict.fromkeys(wanted)
    while wanted:
        tensor = wanted.pop()
        for op in ops:
            if tensor in op.inputs:
                new = [output for output in op.outputs if output not in kept]
                kept.update(dict.fromkeys(new))
                wanted += new if op.kind in _SAME_SCALE else []
    return list(kept)


def _as_denylists(ops: Sequence[Op], keep_float: Sequence[str]) -> Dict[str, List[str]]:
    """Return arguments of the converter that keep tensors in float.

    It does not find an op with several results by their names, so such ops stay float by their
    kind, all of a file.
    """
    kept = select(ops, keep_float)
    kinds = {op.kind for op in ops if len(op.outputs) > 1 and not set(op.outputs).isdisjoint(kept)}
    return {'denylisted_nodes': kept, 'denylisted_ops': sorted(kinds)}


def _tensors_by_part(ops: Sequence[Op]) -> Dict[str, List[str]]:
    """Return the tensors with a part of a name, for whole names too."""
    by_part: Dict[str, List[str]] = {}
    for tensor in itertools.chain.from_iterable(op.outputs for op in ops):
        for part in dict.fromkeys((tensor, *tensor.split(';'))):
            by_part.setdefault(part, []).append(tensor)
    return by_part


def _shortest_names(ops: Sequence[Op]) -> Dict[str, str]:
    """Return the first part of each tensor's name that no other tensor has, else its name."""
    by_part = _tensors_by_part(ops)
    return {
        tensor: next((part for part in tensor.split(';') if by_part[part] == [tensor]), tensor)
        for op in ops
        for tensor in op.outputs
    }
