"""The command as a process."""

import os
import subprocess
import sys


def test_the_start_of_tensorflow_is_not_on_the_terminal(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != 'TF_CPP_MIN_LOG_LEVEL'}
    run = subprocess.run(
        [
            *(sys.executable, '-m', 'model_fns.convert_checkpoint'),
            *('--checkpoint_path=none/ckpt-0', f'--output_dir={tmp_path}'),
        ],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert run.stderr == (
        'error: --pipeline_config_path: there is no pipeline.config beside none/ckpt-0; expected '
        'the config of the model.\n'
    )
