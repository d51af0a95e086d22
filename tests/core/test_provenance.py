"""What is shown of a command holds neither secrets nor where somebody's files lie."""

import time
from pathlib import Path

import pytest

from tepui.core.provenance import (
    command_line,
    short_path,
    with_short_paths,
    without_secrets,
)


@pytest.mark.parametrize(
    "words",
    [
        ["--token", "SECRET"],
        ["--hub.token", "SECRET"],
        ["--hub.api-key", "SECRET"],
        ["--api_key=SECRET"],
        ["--db-password", "SECRET"],
        ["--PASSWORD=SECRET"],
        ["--aws.secret_access_key", "SECRET"],
        ["--auth", "SECRET"],
        ["--key", "SECRET"],
        ["--header", "Authorization: Bearer SECRET"],
        ["--data", "https://example.org/set.zip?part=2&sig=SECRET"],
        ["--data", "https://somebody:SECRET@example.org/set.zip"],
        ["--data", "https://SECRET@example.org/set.zip"],
        ["--model", '{"class_path": "huggingface", "init_args": {"token": "SECRET"}}'],
        ["--model", "{class_path: huggingface, init_args: {token: SECRET, width: 3}}"],
        ["--data", "https://example.org/set.zip?access_token=SECRET&part=2"],
    ],
)
def test_secrets_are_masked_and_nothing_else(words):
    masked = without_secrets(["tepui", *words, "--epochs", "3"])
    assert "SECRET" not in " ".join(masked)
    assert "***" in " ".join(masked)
    assert masked[0] == "tepui"
    assert masked[-2:] == ["--epochs", "3"]
    assert "SECRET" not in command_line(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--tokenizer.path", "words.json"],
        ["--data.tokenizer", "albert-base-v2"],
        ["--methods", "[SAM, GSAM]"],
        ["--data", "ImageFolder", "--data.path", "photos"],
        ["--keep", "best", "--seeds", "[1, 2]"],
        ["--out", "https://example.org/a"],
        ["--password", "--resume"],
    ],
)
def test_what_is_no_secret_is_kept(words):
    assert without_secrets(words) == words


@pytest.mark.parametrize("word", ["a", "token", "a.", "://", "--"])
def test_a_long_word_takes_no_longer_than_its_length_asks_for(word):
    seconds = []
    for count in (2_000, 40_000):
        start = time.process_time()
        without_secrets([word * count])
        seconds.append(time.process_time() - start)
    assert seconds[1] < 1 + 60 * seconds[0]


def test_paths_are_shown_from_here_or_by_their_last_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert short_path(tmp_path / "runs" / "a") == "runs/a"
    assert short_path(tmp_path) == "."
    assert short_path(Path("runs/a")) == "runs/a"
    assert short_path("/srv/data/photos") == ".../photos"
    text = f"tepui train --out={tmp_path}/runs --data.path /srv/my-data/photos/"
    assert with_short_paths(text) == "tepui train --out=runs --data.path .../photos"
    json = f'{{"root": "{tmp_path}/data", "ratio": "3/4", "at": "12:30"}}'
    assert with_short_paths(json) == '{"root": "data", "ratio": "3/4", "at": "12:30"}'
    address = "https://example.org/a/b --n 1/2 ../up/a ~/home runs/a"
    assert with_short_paths(address) == address
