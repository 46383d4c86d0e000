"""`README.md` of an export: a model card, with the head that the Hugging Face Hub reads."""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Sequence

from estimator_lib import environment
from estimator_lib.export.metadata import client_program

NAME = 'README.md'

_MOST_CLASSES = 100
# Keys of `export.json` that the table of a card has, with their titles.
_ROWS = {
    'resize': 'resizing of images',
    'pixel_range': 'pixels',
    'threshold': 'least score that is worth showing',
    'quantize': 'quantization',
    'version': 'version',
    'license': 'license',
}


def text(
    title: str,
    tag: str,
    names: Sequence[str],
    about: Mapping[str, Any],
    metrics: Mapping[str, Any],
    license_name: str = '',
) -> str:
    """Return the text of a card.

    Args:
        title: of the model.
        tag: the Hub's `pipeline_tag`, such as `object-detection`; empty: none.
        names: of the classes.
        about: content of `export.json`.
        metrics: of the checkpoint by evaluation set, beside other keys, as `metrics.json` has them.
        license_name: of the model; empty: not told.
    """
    head = [
        *([f'license: {json.dumps(license_name)}'] if license_name else []),
        f'library_name: {environment.PACKAGE}',
        *([f'pipeline_tag: {tag}'] if tag else []),
        f'tags: [{about["format"]}]',
    ]
    lines = ['---', *head, '---', '', f'# {title}', '']
    lines += ['| | |', '| --- | --- |', f'| format | {about["format"]} |']
    for kind in ('inputs', 'outputs'):
        tensors = about.get(kind, {})
        lines.append(f'| {kind} | {", ".join(map(_described, tensors.items()))} |')
    lines += [f'| {name} | {_cell(about[key])} |' for key, name in _ROWS.items() if key in about]
    lines += [f'| classes | {_cell(_listed(names))} |', '']
    sets = {name: values for name, values in metrics.items() if isinstance(values, Mapping)}
    for name, values in sets.items():
        lines += [f'Metrics on the evaluation set `{name}`:', '', '| metric | value |']
        lines += ['| --- | --- |', *_metric_rows(values), '']
    return '\n'.join(lines)


def usage() -> str:
    """Return the section of a card on the program beside a file."""
    return f'```sh\npython {client_program.NAME} photo.jpg\n```\n'


def _metric_rows(values: Mapping[str, Any]) -> List[str]:
    known = {name: value for name, value in values.items() if isinstance(value, (int, float))}
    return [f'| {_cell(name)} | {known[name]:.6g} |' for name in sorted(known)]


def _described(tensor: Any) -> str:
    name, details = tensor
    if not isinstance(details, Mapping):
        return f'`{name}`: {_cell(details)}'
    return f'`{name}`: {details.get("dtype", "")} {_cell(details.get("shape", ""))}'


def _listed(names: Sequence[str]) -> str:
    shown = ', '.join(names[:_MOST_CLASSES])
    rest = len(names) - _MOST_CLASSES
    return f'{shown} and {rest} more' if rest > 0 else shown or 'not named'


def _cell(value: Any) -> str:
    return str(value).replace('|', '\\|').replace('\n', ' ')
