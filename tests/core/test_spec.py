"""One written form: what is written is read back, and nothing else is ever called."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from functools import partial
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tepui.core.names import PLACES, known
from tepui.core.spec import (
    LATER,
    _hints,
    digest,
    document,
    from_document,
    path_of,
    read,
    read_argument,
    written,
)
from tepui.methods import GSAM, SAM, SharpBalance
from tepui.models import MLP

NAMES = [(kind, name) for kind, places in PLACES.items() for name in places]
BUILT = [known(kind, name) for kind, name in NAMES if kind not in LATER]
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(1, 4),
    float: st.floats(0.01, 0.99) | st.sampled_from([1e-7, 0.5, 1]),
    bool: st.booleans(),
    str: st.text(max_size=9) | st.sampled_from(["auto", "a,b", "it's", 'x"y', "SAM"]),
    type(None): st.none(),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values that an annotation allows, as far as it says."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Callable:
        return st.nothing()
    if hint in PLAIN:
        return PLAIN[hint]
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, type(int | None)):
        return st.one_of(*map(values, inner))
    if origin is tuple and inner[-1] is not ...:
        return st.tuples(*map(values, inner))
    if origin is not None and inner and origin is not dict:
        return st.lists(values(inner[0]), min_size=1, max_size=3).map(tuple)
    of_kind = [
        item for item in BUILT if isinstance(hint, type) and issubclass(item, hint)
    ]
    return st.one_of(*map(made, of_kind)) if of_kind else st.nothing()


@st.composite
def made(draw: Any, item: Any) -> Any:
    """A value of a class of the table, some of its arguments drawn."""
    hints = _hints(item)
    given = {}
    for name, parameter in inspect.signature(item).parameters.items():
        strategy = values(hints.get(name))
        needed = parameter.default is parameter.empty and name != "options"
        if not strategy.is_empty and (needed or draw(st.integers(0, 3)) == 0):
            given[name] = draw(strategy)
    if item not in BUILT:
        return partial(item, **given) if given else item
    rest = [given.pop("policies")] if "policies" in given else []
    try:
        return item(*rest, **given)
    except ValueError:
        assume(False)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, partial):
        return one.func is other.func and repr(one.keywords) == repr(other.keywords)
    return bool(one == other)


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_what_is_written_is_read(kind, name):
    item = known(kind, name)

    @settings(max_examples=15)
    @given(made(item))
    def back(value):
        text = written(value)
        for own in (False, True):
            found = read(text, kind, own=own)
            assert same(found, value), text
            assert written(found) == text
        again = from_document(document(value))
        assert document(again) == document(value)
        assert digest(again) == digest(value)

    back()


def test_the_table_holds_every_class_of_the_packages():
    from tepui import data, losses, methods, models
    from tepui.training import optimizer

    def concrete(package, base):
        found = inspect.getmembers(package, inspect.isclass)
        return {
            name
            for name, item in found
            if issubclass(item, base) and item is not base
            if not inspect.isabstract(item) and not name.startswith("_")
        }

    assert concrete(methods, methods.Method) == {*PLACES["method"]}
    augmentations = concrete(data, data.Augmentation) | {"PerMember"}
    assert augmentations == {*PLACES["augmentation"]}
    assert concrete(optimizer, optimizer.Schedule) == {*PLACES["schedule"]}
    nets = {*PLACES["model"]} - {"from_timm", "from_huggingface"}
    assert concrete(models, models.Model) >= nets
    assert {*PLACES["loss"]} <= {*losses.__all__}
    for kind, places in PLACES.items():
        for name, place in places.items():
            item = known(kind, name)
            assert item.__name__ == name, place
    assert all(is_dataclass(known(k, n)) or k in LATER for k, n in NAMES)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ImageFolder(path=photos/train-1)", {"path": "photos/train-1"}),
        ("ImageFolder(photos, size=32)", {"path": "photos", "size": 32}),
        (
            "Table(path=2024-01.csv, target=age)",
            {"path": "2024-01.csv", "target": "age"},
        ),
        ("Table(~/my d.csv, Digits)", {"path": "~/my d.csv", "target": "Digits"}),
        (
            "Table('a,b.csv', target='x', ignore=[id, 'y z'])",
            {"path": "a,b.csv", "target": "x", "ignore": ("id", "y z")},
        ),
        ("Table(path=1.csv, target=7)", None),
    ],
)
def test_a_person_may_leave_quotes_out(typed, expected):
    if expected is None:
        with pytest.raises(ValueError, match="target must be a string, got 7"):
            read(typed, "data", own=True)
        return
    assert read(typed, "data", own=True).keywords == expected
    if "'" not in typed and "," not in typed:
        with pytest.raises(ValueError, match=r"path must be quoted|must be written"):
            read(typed, "data")


BAD = {
    "SMA": "did you mean 'SAM'",
    "SAM(rho=0.1": r"\) is missing",
    "SAM(rho=0.1))": "nothing may follow it",
    "SAM(rho=0.1, rho=0.2)": "rho is given twice",
    "SAM(rho=0.1, 0.2)": "without a name",
    "SAM(rho=)": "a value is missing|it is no value",
    "SAM(rh=0.1)": "did you mean 'rho'",
    "SAM(rho='0.1')": "rho must be a finite number",
    "SAM(rho=-1)": "rho must",
    "SAM(rho=[0.1, 'x'])": "rho must",
    "Adam": "method must be one of",
    "AdamW": "method must be one of",
    "SharpBalance(base=AdamW)": "base must be",
    "os.system": "tepui's own",
    "tepui.methods.SAM": "tepui's own",
    "file.py:Net": "must be written",
    "7": "must be written",
    "": "a value is missing",
    "SAM(" * 200: "deep",
    "[" * 1000: "deep",
    "SAM(rho=" + "1" * 200_000 + ")": "at most 100000 characters",
    "(lambda: SAM)()": "must be",
    "SAM(rho=__import__('os').getpid())": "must be|missing",
    "SAM.__init__(rho=1)": "tepui's own",
    "SAM(rho=1 if True else 2)": "missing",
    "f'{SAM}'": "must be|no value|follow",
    "SAM(rho=1e999)": "rho must be a finite number",
    "SAM(rho=nan)": "rho must",
    "SAM(*[1])": "no value",
    "SAM(**{})": "no value",
}


@pytest.mark.parametrize("text", BAD)
def test_mistakes_say_argument_rule_and_value(text):
    with pytest.raises(ValueError, match=BAD[text]):
        read(text, "method")


def test_a_file_reaches_nothing_but_the_table(tmp_path, monkeypatch):
    (tmp_path / "evil_code.py").write_text("raise SystemExit('was run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for text in (
        "evil_code.Net",
        "evil_code.Net()",
        "SharpBalance(base=evil_code.Net)",
        "SharpBalance(base='evil_code.Net')",
        "./evil_code.py:Net",
    ):
        with pytest.raises(ValueError, match="must"):
            read(text, "method")
        with pytest.raises(ValueError, match="must"):
            from_document({"class": text})
    with pytest.raises(ValueError, match="must"):
        from_document({"class": "SharpBalance", "base": {"class": "evil_code.Net"}})
    assert "evil_code" not in sys.modules


OWN = """
from torch import nn
from tepui.methods import DeepEnsemble
CALLED = []
class Net(nn.Module):
    def __init__(self, width: int = 3):
        CALLED.append(width)
        super().__init__()
class Other:
    def __init__(self):
        CALLED.append("Other")
def make_net(width=2):
    CALLED.append("make_net")
    return Net(width)
"""


def test_a_person_names_code_of_their_own(tmp_path, monkeypatch):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "own_nets_of_spec.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    place = "nets/own_nets_of_spec.py"
    net = read(f"{place}:Net(width=5)", "model", own=True)
    own = sys.modules["own_nets_of_spec"]
    assert net.func is own.Net
    assert net.keywords == {"width": 5}
    assert read(f"{place}:make_net", "model", own=True) is own.make_net
    assert written(net) == "own_nets_of_spec.Net(width=5)"
    assert read(written(net), "model", own=True).func is own.Net
    for text, kind in (
        (f"{place}:Other", "model"),
        (f"{place}:Other()", "method"),
        (f"{place}:Net()", "method"),
        (f"{place}:make_net()", "method"),
        (f"SharpBalance(base={place}:Other)", "method"),
        ("os.system(ls)", "method"),
        ("os.system(ls)", "data"),
        ("subprocess.Popen(ls)", "method"),
        ("collections.Counter", "function"),
    ):
        with pytest.raises(ValueError, match="must"):
            read(text, kind, own=True)
    with pytest.raises(ValueError, match="Nothing"):
        read(f"{place}:Nothing", "model", own=True)
    assert own.CALLED == []


ANY = st.recursive(
    st.one_of(*PLAIN.values(), *map(made, BUILT[:5])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers(0, 9) | PLAIN[str], inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(ANY)
def test_an_argument_of_any_kind_is_read_as_it_was_written(value):
    found = read_argument(written(value), "parameter")
    assert found == value
    assert repr(found) == repr(value)


def test_numbers_of_other_libraries_are_written_as_numbers():
    several = {np.int64(1): np.float32(0.5), np.str_("a"): torch.tensor(True)}
    assert written(several) == "{1: 0.5, 'a': True}"
    with pytest.raises(ValueError, match="must be of tepui's own"):
        read_argument("os.system", "parameter")


def test_hidden_arguments_are_left_out_at_any_depth():
    value = [SharpBalance(rho=0.2, base=GSAM(rho=0.2, alpha=0.3))]
    assert written(value, hidden=["rho"]) == "[SharpBalance(base=GSAM(alpha=0.3))]"
    assert written(value, hidden=["base"]) == "[SharpBalance(rho=0.2)]"


def test_a_position_is_a_name_in_text_and_document():
    first, named = (
        partial(MLP, 5, num_classes=3),
        partial(MLP, in_features=5, num_classes=3),
    )
    assert written(first) == written(named) == "MLP(in_features=5, num_classes=3)"
    assert document(first) == document(named)
    assert from_document(document(first)).keywords == named.keywords


def test_a_document_has_what_tells_values_apart_and_nothing_else():
    @dataclass(frozen=True)
    class Told:
        counts: int
        derived: int = field(init=False)
        seen: int = field(default=0, compare=False)
        usual: int = 7

        def __post_init__(self):
            object.__setattr__(self, "derived", 2 * self.counts)

    about = document(Told(3, seen=1))
    assert about.pop("class").endswith("Told")
    assert about == {"counts": 3, "derived": 6, "usual": 7}
    assert document([SAM, len]) == [{"class": "SAM"}, "builtins.len"]


class Doubling:
    """What is called without being a function."""

    def __call__(self, value):
        return 2 * value


def test_what_is_called_has_the_name_of_its_class():
    assert document(Doubling()) == written(Doubling()) == path_of(Doubling)
