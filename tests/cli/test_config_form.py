"""A configuration file is refused in words of its own form."""

import pytest

from tepui.cli.config_form import check_form
from tepui.cli.main import main


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"--config .*c.yaml must hold options, .* got 'nothing'"),
        ("p0,p1\n1,2\n" * 9000, r"hold options.* got \"other text \('p0,p1"),
        ("- 1\n", r"hold options"),
        ("1: 2\n", r"--config .*c.yaml must name each option by a word, got 1"),
        ("null: 2\n", r"--config .*c.yaml must name each option .*, got 'null'"),
        (
            "method: {1: {rho: 2}}\n",
            r"method must be written \{class_path: CLASS, init_args: .* got \{1: ",
        ),
        ("method: {null: {rho: 2}}\n", r"method must be written \{class_path: CLASS"),
        ("data: {name: digits}\n", r"data must be written \{class_path: Digits, init"),
        (
            "ood: {far: {name: svhn, root: x}}\n",
            r"ood must be written \{class_path: SVHN, init_args: \{...\}\}, got",
        ),
        ("batch-size: 3\n", r"batch-size must be written batch_size in a file"),
        (
            "method: {class_path: SharpBalance, rho: 0.05}\n",
            r"method must have the arguments of a class under init_args, such as "
            r"\{class_path: SharpBalance, init_args: \{rho: 0.05\}\}, "
            "got 'rho beside class_path'",
        ),
        (
            "method.rho: 0.1\n",
            r"method.rho must be nested in a file, such as method: "
            r"\{class_path: CLASS, init_args: \{rho: 0.1\}\}",
        ),
        (
            "method: SharpBalance\nmethod.rho: 0.1\n",
            r"such as method: \{class_path: SharpBalance, init_args: \{rho: 0.1\}\}",
        ),
        (
            "method.base.rho: 0.1\n",
            r"such as method: \{class_path: CLASS, init_args: \{base: "
            r"\{class_path: CLASS, init_args: \{rho: 0.1\}\}\}\}, got",
        ),
        (
            "method: {class_path: SharpBalance}\nmethod.init_args.base.rho: 0.1\n",
            r"such as method: \{class_path: SharpBalance, init_args: \{base: "
            r"\{class_path: CLASS, init_args: \{rho: 0.1\}\}\}\}, got",
        ),
        (
            "method.base.class_path: SAM\n",
            r"\{class_path: CLASS, init_args: \{base: \{class_path: SAM\}\}\}, got",
        ),
        (
            "data.target: sold\n",
            r"such as data: \{class_path: Table, init_args: \{target: sold\}\}, got",
        ),
        (
            "methods.rho: 0.1\n",
            r"such as methods: \[\{class_path: CLASS, init_args: \{rho: 0.1\}\}\], got",
        ),
        (
            "ood.far.path: pictures\n",
            r"ood: \{far: \{class_path: CLASS, init_args: \{path: pictures\}\}\}, got",
        ),
        (
            "early_stopping.patience: 3\n",
            r"be nested in a file, such as early_stopping: \{patience: 3\}",
        ),
        (
            "epochs: 3\nseeds: [1\nmembers: 2\n",
            r"--config .*c.yaml must be YAML, but line 3 is not \(expected ',' or ']', "
            "but got ':', in what line 2 begins\\), got 'members: 2'",
        ),
        ("a: [", r"must be YAML, but line 1 is not \(expected the node content, .*"),
        ("epochs: 3\nseed: 1: 2\n", "but line 2 is not .*, got 'seed: 1: 2'"),
        ("a: '\u2028\u2028'\nb: 1: 2", "but line 2 is not .*, got 'b: 1: 2'"),
        ("a: 1\nb: \x07\n", r"but line 2 is not \(special characters .*, got 'b: "),
        ("a: !!python/name:os.system", "could not determine a constructor for the tag"),
        # What a tab would hide from the count of values.
        ("a:\t" + "[" * 100_000, r"but line 1 is not \(found character '\\t' that"),
        (
            "epochs: 1\nseed: 3\nepochs: 2\n",
            "must name epochs once, got 'again in l.* 3'",
        ),
        (
            "method: {class_path: SAM, init_args: {rho: 1, rho: 2}}",
            "must name rho once",
        ),
        (
            "methods: [{SAM: {rho: 0.1}}]",
            r'methods must be written "SAM\(rho=0.1\)" or',
        ),
        (
            "methods:\n- class_path: SAM\n  rho: 0.1\n  start_at: 2\n",
            r"methods must have .* got 'rho, start_at beside class_path'",
        ),
        (
            "method:\n  class_path: SED\n  init_args:\n    base: "
            "{class_path: SAM, rho: 0.1}\n",
            r"method must have .* \{class_path: SAM, init_args: \{rho: 0.1\}\}",
        ),
    ],
)
def test_what_is_no_file_of_options_is_named(text, said, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=said) as caught:
        check_form(["train", "--config", str(file)])
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "text",
    [
        "epochs: 3\nmethod: SAM\n",
        "method: {class_path: SAM, init_args: {rho: 0.1}}\nmodel: null\n",
        "ood: {svhn: {class_path: SVHN, init_args: {root: x}}, name: SVHN}\n",
        "shifted: {svhn: {class_path: SVHN}}\nood: {name: SVHN}\n",
        "init_args: 3\n",  # no option, which the parser says
        "a: 2001-99-99",  # no date to the parser
    ],
)
def test_others_are_left_to_the_parser(text, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    check_form(["train", "--config", str(file)])


def test_a_missing_file_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--config", str(tmp_path / "c.yaml")])
    assert f"no configuration file {tmp_path}" in capsys.readouterr().err


def test_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path):
    with pytest.raises(ValueError, match="--config must be a file, got the folder"):
        check_form(["train", "--config", str(tmp_path)])
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xff\xfe\xc8\x00")
    with pytest.raises(ValueError, match=r"--config .*c.yaml must be text, but: "):
        check_form(["train", "--config", str(file)])


@pytest.mark.parametrize("option", ["--ood", "--shifted"])
def test_data_with_the_name_of_a_class_are_read_as_they_were_printed(
    option, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["evaluate", "run", option, "svhn=SVHN:x", "--print-config"])
    printed = capsys.readouterr().out
    (tmp_path / "c.yaml").write_text(printed)
    with pytest.raises(SystemExit):
        main(["evaluate", "--config", "c.yaml", "--print-config"])
    assert capsys.readouterr().out == printed
