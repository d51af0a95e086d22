"""A file of options stands for no more than it could hold itself."""

import math

import pytest

from tepui.cli.expansion import LIMIT, check_expansion, expanded_size

BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60)
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 1),
        ("epochs: 3", 3),
        ("a: &a [1, 2]\nb: *a", 9),
        ("{a: &a {b: 1}, c: {<<: *a}}", 11),
        ("a: &a [*a]", math.inf),
        ("a: &a {b: [*a]}", math.inf),
        ("[\n" * 2_000, math.inf),
        ("a: [", 0),
        ("a: !!python/name:os.system", 3),
    ],
)
def test_values_are_counted_with_what_aliases_stand_for(text, size, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert expanded_size(str(file)) == size


@pytest.mark.parametrize("text", [BOMB, "augment: &a [*a]"])
def test_a_file_that_stands_for_too_much_is_refused(text, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    message = f"--config must hold at most {LIMIT} values, .* got '.*c.yaml'"
    with pytest.raises(ValueError, match=message):
        check_expansion(["train", "--config", str(file)])
    check_expansion(["train", "--config", str(tmp_path / "missing.yaml")])
