"""Weights from the Hugging Face hub, kept in a folder of this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import types

from estimator_lib import errors
from estimator_lib.processes import path_names
from model_fns.backbones.hub_weights import families, files

log = logging.getLogger('model_fns')

SCHEME = 'hub:'
WEIGHTS = 'model.safetensors'

_REPOSITORY = re.compile(r'[\w-][\w.-]*/[\w-][\w.-]*', re.ASCII)
_OWNER = 'timm'
_TIMEOUT = 20.0  # seconds, for the hub's answer


def cache_folder(repository: str) -> str:
    """Return the folder in which the files of a repository `owner/name` are kept."""
    return os.path.join(path_names.cache_folder('vision_model_fns'), *repository.split('/'))


def find(name: str, where: str) -> str:
    """Return the path of the weights of `hub:owner/name`, and download them if they are not there.

    Args:
        name: `hub:timm/tf_efficientnet_b0.in1k`.
        where: the config field or flag with the name.

    Raises:
        errors.CheckpointError: the hub cannot be reached, or does not have these weights.
        errors.ConfigError: the name is malformed, or timm's model fits no network.
        errors.UserError: the extra [hub] is not installed.
    """
    repository = name[len(SCHEME) :]
    if not _REPOSITORY.fullmatch(repository):
        raise errors.ConfigError(
            f'{where}: {name!r} is malformed; expected hub:OWNER/NAME, as '
            'hub:timm/tf_efficientnet_b0.in1k.'
        )
    owner, model = repository.split('/')
    known = families.list_models()
    if owner == _OWNER and model not in known:
        raise errors.ConfigError(
            f'{where}: {name!r} is none of the weights that fit our networks'
            f'{errors.did_you_mean(model, known)}'
        )
    folder = cache_folder(repository)
    path = os.path.join(folder, WEIGHTS)
    if not os.path.isfile(path):
        _download(repository, folder, where)
    return path


def _download(repository: str, folder: str, where: str) -> None:
    """Download the weights of a repository into a folder, and what describes them."""
    place = (
        f'put {WEIGHTS} of https://huggingface.co/{repository} at {os.path.join(folder, WEIGHTS)}'
    )
    try:
        import huggingface_hub
        from huggingface_hub import errors as hub_errors
    except ImportError:
        raise errors.UserError(
            f'{where}: hub:{repository} cannot be downloaded without the package huggingface_hub: '
            f'{files.INSTALL}, or {place}.'
        ) from None
    log.info('downloading %s of %s to %s', WEIGHTS, repository, folder)
    try:
        _fetch(huggingface_hub, repository, WEIGHTS, folder)
        for name in (files.CARD, files.MODEL_CONFIG):
            with contextlib.suppress(hub_errors.EntryNotFoundError):
                _fetch(huggingface_hub, repository, name, folder)
    except Exception as error:  # The client raises those of its HTTP library as well.
        reason = errors.first_line(error).rstrip('.')
        raise errors.CheckpointError(
            f'{where}: hub:{repository} cannot be downloaded ({reason}); {place}.'
        ) from error


def _fetch(client: types.ModuleType, repository: str, name: str, folder: str) -> None:
    # `local_dir`: a file in place of a link into the client's cache, which may be cleaned.
    client.hf_hub_download(repository, name, local_dir=folder, etag_timeout=_TIMEOUT)
