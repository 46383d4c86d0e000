"""The command as a process."""

import os
import subprocess
import sys


def test_the_start_of_tensorflow_is_not_on_the_terminal(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != 'TF_CPP_MIN_LOG_LEVEL'}
    flags = f'--from=folders --images=none --label_map={tmp_path}/map --output_prefix={tmp_path}/a'
    run = subprocess.run(
        [sys.executable, '-m', 'model_fns.datasets.convert', *flags.split()],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    said = f'error: --images: there is no folder none (in the working folder {os.getcwd()}).\n'
    assert run.stderr == said
