"""What a run says is in a file too, and nothing more after it."""

import logging
import os
import subprocess
import sys

import pytest

from estimator_lib import logs


def test_lines_are_appended_while_it_runs(tmp_path):
    path, log = tmp_path / 'run' / 'log.txt', logging.getLogger('model_fns.part')
    for number in range(2):
        with logs.also_in_file(str(path)):
            log.warning('number %d', number)
        log.warning('outside')
    lines = path.read_text().splitlines()
    assert [line.partition(' WARNING ')[2] for line in lines] == ['number 0', 'number 1']


def test_a_file_that_cannot_be_opened_is_not_written(tmp_path, capsys):
    (tmp_path / 'file').write_text('')
    for path in (str(tmp_path / 'file' / 'log.txt'), 'gs://bucket/log.txt'):
        with logs.also_in_file(path):
            logging.getLogger('estimator_lib').warning('said')
    assert 'Traceback' not in capsys.readouterr().err


def test_loggers_say_what_is_of_the_level_and_are_as_before_then(caplog):
    logger = logging.getLogger('converter')
    logger.setLevel(logging.DEBUG)
    with logs.silenced(['converter'], logging.ERROR):
        logger.warning('a remark')
        logger.error('a fault')
    logger.debug('afterwards')
    assert caplog.messages == ['a fault', 'afterwards']


TENSORFLOW = """
import os
os.write(2, b'WARNING: All log messages before absl::InitializeLog() is called are written\\n')
os.write(2, b'I0000 00:00:1.5 7 port.cc:153] custom operations are on.\\nF0000 00:00:1.6 no AVX\\n')
os.abort()
"""


@pytest.mark.parametrize(
    ('level', 'kept'), [('', ['F0000']), ('0', ['WARNING:', 'I0000', 'F0000'])]
)
def test_the_start_of_tensorflow_is_silent_and_the_reason_of_its_end_is_not(level, kept, tmp_path):
    (tmp_path / 'tensorflow.py').write_text(TENSORFLOW)
    environment = {k: v for k, v in os.environ.items() if k != 'TF_CPP_MIN_LOG_LEVEL'}
    environment['PYTHONPATH'] = os.pathsep.join([str(tmp_path), *sys.path])
    if level:
        environment['TF_CPP_MIN_LOG_LEVEL'] = level
    # At level 0 TensorFlow is left to the program.
    code = 'from estimator_lib import logs; logs.silence_tensorflow(); import tensorflow'
    # Named, because a forked process would have TensorFlow already.
    run = subprocess.run(
        [sys.executable, '-c', code],
        executable=sys.executable,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == -6  # SIGABRT
    assert [line.split()[0] for line in run.stderr.splitlines()] == kept


def test_names_are_no_commands_of_a_terminal(tmp_path):
    logger = logging.getLogger('estimator_lib')
    with logs.also_in_file(str(tmp_path / 'log.txt')):
        logger.warning('%s\nsecond', 'a\x1b]0;title\x07')
    assert (tmp_path / 'log.txt').read_text().endswith('a\\x1b]0;title\\x07\nsecond\n')
