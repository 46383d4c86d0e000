"""What Linux says of a processor."""

import pytest

from estimator_lib.distribution import processors


@pytest.mark.parametrize(
    'flags, expected',
    [
        ('fpu sse2 avx512f avx512_bf16', True),
        ('fpu amx_bf16 amx_tile', True),
        ('fpu sse2 avx512f avx512_vnni', False),
        ('fpu not_avx512_bf16', False),
        ('', False),
    ],
)
def test_bfloat16_is_among_the_flags(tmp_path, flags, expected):
    path = tmp_path / 'cpuinfo'
    path.write_text(f'processor\t: 0\nmodel name\t: any\nflags\t\t: {flags}\nbugs\t\t: \n')
    assert processors.multiplies_bfloat16(str(path)) is expected
    assert processors.cpu_flags(str(path)) == set(flags.split())


def test_where_nothing_is_said_there_is_nothing(tmp_path):
    assert processors.cpu_flags(str(tmp_path / 'missing')) == set()
    assert not processors.multiplies_bfloat16(str(tmp_path / 'missing'))
