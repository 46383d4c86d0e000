"""What a run says is in a file too, and nothing more after it."""

import logging

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
