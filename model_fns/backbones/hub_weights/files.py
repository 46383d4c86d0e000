"""Files of weights of other programs, read under the names of our variables."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import state_files
from model_fns.backbones.hub_weights import families, torch_files
from model_fns.backbones.hub_weights.family import Family, Tensor, UnknownNameError

if TYPE_CHECKING:
    import safetensors

INSTALL = "pip install 'vision-model-fns[hub]'"
# Files that a hub has beside the weights.
CARD = 'README.md'
MODEL_CONFIG = 'config.json'

_FRONT_MATTER = re.compile(r'\s*---\n(.*?)\n---', re.DOTALL)
_LICENSE = re.compile(r'^license:[ \t]*([^\s#]+)', re.MULTILINE)


class FamilyReader:
    """Reader of a file of one of the families; see `weight_files.WeightReader`.

    All values are float32.

    Args:
        path: the path of the file.
        file: the open file, which has the methods `keys`, `get_slice` and `get_tensor` of
            `safetensors.safe_open`.
        known: families that the file may be of.

    Attributes:
        family: that of the file.

    Raises:
        errors.CheckpointError: the file is not of a known network.
    """

    def __init__(self, path: str, file: Any, known: Sequence[Family] = families.FAMILIES):
        self._path = path
        self._file = file
        names = list(file.keys())
        shapes: Dict[str, Tuple[int, ...]] = {
            name: tuple(file.get_slice(name).get_shape()) for name in names
        }
        self.family = _find_family(path, shapes, known)
        self._tensors = _map(path, self.family, shapes)

    def get_variable_to_shape_map(self) -> Dict[str, List[int]]:
        """Return the shapes of all variables by name."""
        return {name: list(tensor.shape) for name, tensor in self._tensors.items()}

    def get_variable_to_dtype_map(self) -> Dict[str, tf.DType]:
        """Return float32 for each variable."""
        return dict.fromkeys(self._tensors, tf.float32)

    def has_tensor(self, name: str) -> bool:
        """Return whether the file has a variable."""
        return name in self._tensors

    def get_tensor(self, name: str) -> np.ndarray:
        """Return the value of a variable, float32.

        Returns:
            A tensor of the variable's shape.

        Raises:
            errors.CheckpointError: the file has it in a type that NumPy does not have.
        """
        tensor = self._tensors[name]
        value = self._read(tensor.source).transpose(tensor.axes)
        if tensor.convert is not None:
            value = tensor.convert(value)
        if tensor.factor is not None:
            value = value * self._read(tensor.factor)
        return np.ascontiguousarray(value.reshape(tensor.shape))

    def description(self) -> str:
        """Return the family and the license of the weights."""
        held = read_license(os.path.dirname(self._path))
        text = f'license {held}' if held else f'license not known: no {CARD} beside the file has it'
        return f'{self.family.name}, weights of {self.family.origin}, {text}'

    def _read(self, name: str) -> np.ndarray:
        try:
            return np.asarray(self._file.get_tensor(name), np.float32)
        except (TypeError, ValueError) as error:  # bfloat16
            raise errors.CheckpointError(
                f'{self._path} has {name} in a type that NumPy does not have '
                f'({errors.first_line(error)}); expected float32 or float16.'
            ) from None


def open_weights(path: str, known: Sequence[Family] = families.FAMILIES) -> FamilyReader:
    """Open a file.

    Args:
        path: of a `.safetensors` file, or of one that torch wrote.
        known: families that the file may be of.

    Raises:
        errors.CheckpointError: the file is corrupt, or not of a known network.
        errors.UserError: the extra [hub] is not installed.
    """
    is_torch = path.endswith(torch_files.SUFFIXES)
    return FamilyReader(path, torch_files.open_file(path) if is_torch else _open_file(path), known)


def read_license(folder: str) -> str:
    """Return the license in the model card of a folder; empty if it has none."""
    path = os.path.join(folder, CARD)
    if not os.path.isfile(path):
        return ''
    with open(path, encoding='utf-8', errors='replace') as file:
        header = _FRONT_MATTER.match(file.read())
    found = _LICENSE.search(header[1]) if header else None
    return found[1].strip('\'"') if found else ''


def _open_file(path: str) -> safetensors.safe_open:
    try:
        import safetensors
    except ImportError:
        raise errors.UserError(
            f'{path} cannot be read without the package safetensors: {INSTALL}'
        ) from None
    try:
        return safetensors.safe_open(path, framework='numpy')
    except (safetensors.SafetensorError, OSError) as error:
        raise errors.CheckpointError(
            f'{path} cannot be read as a safetensors file: {errors.first_line(error)}'
        ) from None


def _find_family(
    path: str, shapes: Mapping[str, Tuple[int, ...]], known: Sequence[Family]
) -> Family:
    for family in known:
        if all(name in shapes for name in family.signature):
            # Names alone do not tell: inception_v3.tv_in1k has those of tf_in1k and other paddings.
            _refuse_other_model(path, family)
            return family
    names = ', '.join(family.name for family in known)
    raise errors.CheckpointError(
        f'{path} is of an unknown network (it holds {errors.shortened(sorted(shapes), 2)}); '
        f'expected the weights of one of: {names}.'
    )


def _map(path: str, family: Family, shapes: Mapping[str, Tuple[int, ...]]) -> Dict[str, Tensor]:
    try:
        return family.map_tensors(shapes)
    except UnknownNameError as error:
        raise errors.CheckpointError(
            f'{path} is of another network than {family.name}, which it resembles: it holds '
            f'{error}; expected one of: {", ".join(sorted(family.networks))}.'
        ) from None


def _refuse_other_model(path: str, family: Family) -> None:
    """Refuse weights of a model with the same names that computes something else.

    The hub's description of the model, where it is beside the file, tells.
    """
    described = state_files.read_state(os.path.join(os.path.dirname(path), MODEL_CONFIG))
    model = described.get('architecture')
    if not isinstance(model, str):
        return
    pretrained = described.get('pretrained_cfg')
    tag = pretrained.get('tag') if isinstance(pretrained, dict) else ''
    tag = tag if isinstance(tag, str) else ''
    foreign = tag in families.FOREIGN_TAGS.get(model, ())
    if model not in family.networks or foreign:
        raise errors.CheckpointError(
            f'{path}: {MODEL_CONFIG} beside it says that it is {model}{"." if tag else ""}{tag}, '
            'which has other paddings or another normalization than ours'
            f'{errors.did_you_mean(f"{model}.{tag}", families.list_models(family))}'
        )
