"""Replaces what `tensorflow-estimator` 2.15 imports and later TensorFlow releases do not have.

`REMOVED` is the whole list. `python -m tools.removed_names` compares it with the TensorFlow that is
installed, so that a new release is judged without a run.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import types
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

_EXPORTS = 'tensorflow_estimator.python.estimator.estimator_export'
_TF_EXPORT = 'tensorflow.python.util.tf_export'
_COORDINATION = 'tensorflow.python.distribute.estimator_training'


class Removed(NamedTuple):
    """Names that TensorFlow removed.

    Attributes:
        name: of the module, or of the attribute of a module.
        release: the first TensorFlow without it.
        replaced_in: the module that is replaced while `tensorflow-estimator` is imported.
        create: creates the replacement from its name.
    """

    name: str
    release: str
    replaced_in: str
    create: Callable[[str], types.ModuleType]


def is_built_in() -> bool:
    """Tell whether TensorFlow has what `tensorflow-estimator` needs, as 2.15 has."""
    # The module is looked for, not the version: a nightly release or a build of one's own may
    # differ.
    return importlib.util.find_spec(_COORDINATION) is not None


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let imports in the block find a replacement for each removed module.

    The modules that were imported keep their replacements; TensorFlow's packages get none.
    """
    if is_built_in():
        yield
        return
    modules = {one.replaced_in: one.create(one.replaced_in) for one in REMOVED}
    before = {name: sys.modules.get(name) for name in modules}
    # In `sys.modules` before the import, so that `import` finds these and does not look for files.
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class EstimatorExport:
    """Leaves a symbol as it is, where the original registers it with TensorFlow's API generator.

    The original also warns at each use that Keras should be used instead.
    """

    def __init__(self, *names: str, v1: Optional[Sequence[str]] = None) -> None:
        del names, v1

    def __call__(self, symbol: Any) -> Any:
        """Return the symbol."""
        return symbol

    def export_constant(self, module: str, name: str) -> None:
        """Leave the constant of a module as it is."""


class _Refusal(type):
    """The class of classes that cannot be used."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse(cls.__name__)


class _TpuModule(types.ModuleType):
    """A module of TPU estimators, whose names can be imported and not used."""

    def __getattr__(self, name: str) -> Any:
        # Python asks modules for `__path__`, `__file__` and others; a class in their place breaks
        # imports.
        if name.startswith('__'):
            raise AttributeError(name)
        return _Refusal(f'{self.__name__}.{name}', (), {})


def _refuse(name: str) -> None:
    release = {one.name: one.release for one in REMOVED}[name.rpartition('.')[0]]
    raise NotImplementedError(
        f'{name} was removed from TensorFlow {release}; TPU estimators need TensorFlow 2.15.'
    )


def _create_exports(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module)['estimator_export'] = EstimatorExport
    return module


def _create_coordination(name: str) -> types.ModuleType:
    del name
    return importlib.import_module('estimator_lib.tf_estimator.coordination')


REMOVED = (
    Removed(_COORDINATION, '2.16', _COORDINATION, _create_coordination),
    Removed(
        'tensorflow.python.util.tf_export.ESTIMATOR_API_NAME', '2.16', _EXPORTS, _create_exports
    ),
    *(
        Removed(name, '2.16', name, _TpuModule)
        for name in (
            'tensorflow.python.tpu.session_support',
            'tensorflow.python.tpu.tpu_embedding',
            'tensorflow.python.tpu.tpu_embedding_gradient',
        )
    ),
)
