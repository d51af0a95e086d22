"""A table in a CSV file."""

import pytest

from table_files import rows, written


@pytest.fixture
def table_file(tmp_path):
    return written(tmp_path / "my.csv", rows())
