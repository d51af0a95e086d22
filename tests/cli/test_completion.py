"""A shell completes commands, options and names by the script that is printed."""

import shutil
import subprocess

import pytest

from tepui.cli.main import COMMANDS, main

pytest.importorskip("shtab")


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    file = tmp_path_factory.mktemp("completion") / "tepui.bash"
    with pytest.MonkeyPatch.context() as patch, file.open("w") as out:
        patch.setattr("sys.stdout", out)
        main(["completion", "bash"])

    def completed(*words):
        quoted = " ".join(f"'{word}'" for word in words)
        script = (
            f"source {file}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            "$(complete -p tepui | sed 's/.* -F \\([^ ]*\\) .*/\\1/'); "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        found = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, check=True
        )
        return {word.strip() for word in found.stdout.splitlines()}

    return completed


@pytest.mark.slow
def test_commands_are_completed(bash):
    assert bash("tepui", "") >= COMMANDS.keys()
    assert bash("tepui", "tr") == {"train"}


def test_options_are_completed_as_they_are_typed(bash):
    assert bash("tepui", "train", "--batch") == {"--batch-size", "--batch-norm"}
    assert bash("tepui", "train", "--resume", "--mem") == {"--members"}


def test_names_are_completed(bash):
    assert bash("tepui", "train", "--method", "S") == {"SAM", "SED", "SharpBalance"}
    assert bash("tepui", "train", "--keep", "") == {"last", "best"}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_scripts(shell, capsys):
    main(["completion", shell])
    assert "SharpBalance" in capsys.readouterr().out
