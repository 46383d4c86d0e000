"""`predict.py` beside a file: a program of about 40 lines that predicts images with it.

It needs NumPy, Pillow and the runtime of the format. It resizes as the network was trained, and
says what the outputs mean, so that a client cannot use the file wrongly. An export runs it on an
image, in a process that cannot import TensorFlow, before it stays.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import tempfile
from typing import List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing import visualization
from estimator_lib.processes import child_processes
from estimator_lib.task_interfaces import resizing
from estimator_lib.task_interfaces.deployable import Deployable

log = logging.getLogger('estimator_lib')

NAME = 'predict.py'

_MOST_SECONDS = 120
_CHANNELS = 3
# Runs a program as a main module, in a process where TensorFlow cannot be imported.
# None in `sys.modules` makes each import of that name an ImportError.
_WITHOUT_TENSORFLOW = (
    'import runpy; sys.modules["tensorflow"] = None; del sys.argv[0]; '
    'runpy.run_path(sys.argv[0], run_name="__main__")'
)


class Runtime(NamedTuple):
    """Runtime of a format.

    Attributes:
        packages: that have it; one is enough.
        imports: lines that import it.
        load: lines that make `run`, a function from `pixels` to outputs by name.
    """

    packages: Sequence[str]
    imports: Sequence[str]
    load: Sequence[str]


_TEMPLATE = '''"""Predict images: python predict.py photo.jpg

Prints a line of JSON for each image. Needs numpy, pillow and {package}.
"""

import json
import os
import sys

import numpy as np
{imports}
from PIL import Image, ImageOps

folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, 'export.json'), encoding='utf-8') as file:
    about = json.load(file)
names = {{int(index): name for index, name in about['names'].items()}}
threshold = about.get('threshold', 0.0)
{load}

{function}

for path in sys.argv[1:]:
    image = ImageOps.exif_transpose(Image.open(path)).convert('RGB')
    image = np.asarray(image, np.float32)
    size = image.shape[:2]
{resize}
    outputs = run(pixels)
{report}
    print(json.dumps({{'image': path, 'results': results}}, ensure_ascii=False))
'''


def text(deployable: Deployable, runtime: Runtime) -> Optional[str]:
    """Return the program of a file; None where a program of one page cannot use the file.

    Args:
        deployable: says how images are resized, and what the outputs mean.
        runtime: of the format.
    """
    resize = deployable.resize
    if resize is None or not deployable.report or deployable.input_shape[2] != _CHANNELS:
        return None
    return _TEMPLATE.format(
        package=runtime.packages[0],
        imports='\n'.join(runtime.imports),
        load='\n'.join(runtime.load),
        function=resizing.FUNCTION.strip('\n') + '\n',
        resize=_indented(resize.program(deployable.input_shape[:2])),
        report=_indented(deployable.report),
    )


def _indented(lines: Sequence[str]) -> str:
    return '\n'.join(f'    {line}' for line in lines if line)


def write(folder: str, program: Optional[str], runtime: Runtime, image: np.ndarray) -> None:
    """Write a program into the folder of an export, and run it on an image.

    Args:
        folder: of the export.
        program: from `text`; None: nothing is written, and the log says so.
        runtime: of the format; without its package the program is not run.
        image: uint8 [height, width, 3].

    Raises:
        errors.UserError: the program fails, or prints anything but its results.
    """
    if program is None:
        log.info('no %s: the resizing or the outputs of this model need more than a page', NAME)
        return
    path = os.path.join(folder, NAME)
    with tf.io.gfile.GFile(path, 'w') as file:
        file.write(program)
    if '://' in folder or not any(map(importlib.util.find_spec, runtime.packages)):
        log.info('%s was not run here: it needs %s', path, runtime.packages[0])
        return
    results = run(path, image)
    log.info('%s ran without TensorFlow: %d results in an image', path, len(results))


def run(path: str, image: np.ndarray) -> List[Mapping[str, object]]:
    """Run a program on an image, and return its results.

    Args:
        path: of the program.
        image: uint8 [height, width, 3].

    Raises:
        errors.UserError: see `write`.
    """
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, 'image.png')
        visualization.write_png(picture, image)
        try:
            ran = subprocess.run(
                child_processes.code_command(
                    _WITHOUT_TENSORFLOW, path, picture, options=('-I', '-X', 'utf8')
                ),
                capture_output=True,
                encoding='utf-8',
                errors='replace',
                timeout=_MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise errors.UserError(f'{path}: it takes more than {_MOST_SECONDS} s.') from None
    try:
        results = json.loads(ran.stdout)['results']
    except (ValueError, KeyError):
        last = (ran.stderr.strip().splitlines() or ['it prints nothing'])[-1]
        raise errors.UserError(f'{path} fails on an image: {last}. No export is left.') from None
    return list(results)
