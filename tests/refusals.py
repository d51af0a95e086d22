"""What a command says if it refuses."""

import pytest

from tepui.cli.main import main


def refused(words, capsys):
    """Return what is said of words that are not carried out, in one line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return " ".join(said.split())
