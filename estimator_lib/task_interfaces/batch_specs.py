"""Declaration of the features and labels in the batches of a task.

A task declares each tensor once. The engine compares every batch with the declaration before it
builds a graph, and `docs/python.md` shows the same tables.
"""

from __future__ import annotations

import dataclasses
from typing import Collection, FrozenSet, List, Mapping, Tuple, Union

import tensorflow as tf

from estimator_lib import tf_estimator

ModeKeys = tf_estimator.ModeKeys

TRAINING = frozenset({ModeKeys.TRAIN})
EVALUATION = frozenset({ModeKeys.EVAL})
LEARNING = TRAINING | EVALUATION
ALWAYS = LEARNING | {ModeKeys.PREDICT}

_NEEDED = {
    frozenset(): 'no',
    TRAINING: 'training',
    EVALUATION: 'evaluation',
    LEARNING: 'training, evaluation',
    ALWAYS: 'always',
}


@dataclasses.dataclass(frozen=True)
class BatchTensor:
    """One tensor of the features or labels of a batch.

    Attributes:
        name: its key.
        dtype: its type; integers of another width are converted to it.
        shape: size of each dimension, the batch first: a number, or the name of a size that varies.
            All tensors of a batch have the same size by a name.
        meaning: phrase on its values, for the documentation and for messages; may be empty.
        needed: the modes that cannot do without it.
        condition: phrase on the models that need it; empty: all models do.
        converted: other types than `dtype` that are converted to it without a change of values.
    """

    name: str
    dtype: tf.DType
    shape: Tuple[Union[int, str], ...]
    meaning: str = ''
    needed: FrozenSet[str] = frozenset()
    condition: str = ''
    converted: Tuple[tf.DType, ...] = ()

    def form(self) -> str:
        """Return the type and shape, as `float32 [batch, height, width, 3]`."""
        return f'{self.dtype.name} [{", ".join(map(str, self.shape))}]'

    def converts(self, dtype: tf.DType) -> bool:
        """Return whether a tensor of another type can be converted to this one's."""
        return dtype in self.converted or (dtype.is_integer and self.dtype.is_integer)

    def cells(self) -> Tuple[str, str, str, str]:
        """Return the cells of the tensor in a table: name, form, need and meaning."""
        needed = _NEEDED[self.needed]
        if self.condition:
            needed = self.condition if self.needed == ALWAYS else f'{needed}, {self.condition}'
        return f'`{self.name}`', self.form(), needed, self.meaning


@dataclasses.dataclass(frozen=True)
class BatchSpec:
    """Features and labels that a task reads; batches may have further ones.

    Attributes:
        features: the declared features.
        labels: the declared labels.
    """

    features: Tuple[BatchTensor, ...] = ()
    labels: Tuple[BatchTensor, ...] = ()

    def of_model(self, sizes: Mapping[str, int], conditions: Collection[str] = ()) -> BatchSpec:
        """Return the declaration of one model.

        Args:
            sizes: sizes that are fixed in this model, by their names in shapes.
            conditions: those conditions of tensors that hold for this model.

        Returns:
            The declaration with numbers in place of these names. Tensors whose condition does not
            hold are not needed.
        """

        def adapted(tensor: BatchTensor) -> BatchTensor:
            holds = not tensor.condition or tensor.condition in conditions
            return dataclasses.replace(
                tensor,
                shape=tuple(
                    sizes.get(size, size) if isinstance(size, str) else size
                    for size in tensor.shape
                ),
                needed=tensor.needed if holds else frozenset(),
            )

        return BatchSpec(tuple(map(adapted, self.features)), tuple(map(adapted, self.labels)))

    def table(self) -> List[str]:
        """Return the lines of a Markdown table of all tensors."""
        lines = ['| in | name | form | needed | values |', '| --- | --- | --- | --- | --- |']
        for kind, tensors in (('features', self.features), ('labels', self.labels)):
            lines += [f'| {" | ".join([kind, *tensor.cells()])} |' for tensor in tensors]
        return lines
