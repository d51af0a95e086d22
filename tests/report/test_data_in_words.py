"""What a report says of the data that a run learned from."""

import pytest

from tepui.report.loading import data_in_words


def said(*given):
    return data_in_words({"data": f"mine.Data({', '.join(given)})"})


@pytest.mark.parametrize("path", ["None", "3", "['a.csv', 'b.csv']"])
def test_a_path_that_is_none_is_not_told(path):
    assert said(f"path={path}", "target='sold'") is None


def test_a_folder_is_told_without_those_around_it():
    assert said("path='/home/me/photos'") == "photos"
    assert data_in_words({}) is None
