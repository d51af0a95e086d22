"""Values as they are typed: their grammar and names are checked before torch is loaded.

What a value stands for is built when a command asks for it, by :mod:`tepui.core.spec`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from tepui.core.checks import one_of, require
from tepui.core.grammar import Call, Word, parsed
from tepui.core.names import EXAMPLES, PLACES
from tepui.core.spec import PATH

# How data of one's own are written, by the end of their path.
FORMS = {
    "/": "ImageFolder(path={0})",
    ".csv": "Table(path={0}, target=COLUMN)",
    ".parquet": "Table(path={0}, target=COLUMN)",
    ".npz": "ArrayFile(path={0})",
}
TYPED = "cli"  # the source of what a person types, as cyclopts calls it
UNREAD = ("extractor", "set")  # what is read once more is known


class Text(str):
    """A value as it was written, which is built where it is needed.

    Attributes:
        kind: What it must be: a kind of :data:`tepui.core.names.PLACES`.
        typed: Whether a person typed it, who may name code of their own.
    """

    kind: str
    typed: bool

    def __new__(cls, text: str, kind: str, typed: bool = True) -> "Text":
        """Return a text that must be of a kind."""
        made = super().__new__(cls, text)
        made.kind, made.typed = kind, typed
        return made

    def read(self) -> Any:
        """Return the value, or what makes it."""
        from tepui.core import spec

        return spec.read(self, self.kind, own=self.typed)

    def name(self) -> str:
        """Return the name of its class or function."""
        tree = parsed(self, self.kind, own=self.typed)
        return tree.name if isinstance(tree, Call) else str(tree)


def checked(said: str, kind: str, *, typed: bool = True) -> Text:
    """Return a text whose grammar is right, and whose name is known or a path.

    Example:
        >>> checked("SAM(rho=0.1)", "method").read().rho
        0.1
        >>> checked("SMA(rho=0.1)", "method")
        Traceback (most recent call last):
        ValueError: method must be one of A2D, DeepEnsemble, DivDis, EoA, GSAM, SAM, \
SED, SharpBalance, SnapshotEnsemble, got 'SMA' (did you mean 'SAM'?)
    """
    text = Text(said, kind, typed)
    if kind in UNREAD:
        return text
    tree = parsed(text, kind, own=typed)
    if isinstance(tree, Word | Call):
        name = text.name()
        if kind == "data" and name not in PLACES["data"] and Path(name).exists():
            suffix = "/" if Path(name).is_dir() else Path(name).suffix
            rule = f"be written {FORMS.get(suffix, EXAMPLES[kind]).format(name)}"
            require(suffix not in FORMS, kind, rule, name)
        if not PATH.fullmatch(name):
            rule = f"be a path, such as {EXAMPLES.get(kind)}"
            require(kind in PLACES, kind, rule, name)
            one_of(kind, name, PLACES[kind])
        rule = "be typed on the command line, since it is code of your own"
        require(typed or name in PLACES.get(kind, ()), kind, rule, name)
    return text


def _of_option(token: Token, kind: str) -> Text:
    return checked(token.value, kind, typed=token.source == TYPED)


def _one(kind: str) -> Parameter:
    def convert(_: Any, tokens: Sequence[Token]) -> Any:
        (token,) = tokens
        return _of_option(token, kind)

    return Parameter(converter=convert, n_tokens=1)


def _several(convert_one: Callable[[Token], Any]) -> Parameter:
    def convert(_: Any, tokens: Sequence[Token]) -> Any:
        return [convert_one(token) for token in tokens]

    return Parameter(converter=convert, n_tokens=-1, consume_multiple=True)


def _list(kind: str) -> Parameter:
    return _several(lambda token: _of_option(token, kind))


def _named(_: Any, tokens: Sequence[Token]) -> dict[str, Text]:
    """Return data sets by name, of words such as ``noise=UniformNoise``."""
    sets: dict[str, Text] = {}
    for token in tokens:
        name, equals, text = token.value.partition("=")
        rule = "be written NAME=DATASET, such as noise=UniformNoise"
        require(bool(equals) and name.isidentifier(), "value", rule, token.value)
        require(name not in sets, "value", "name each data set once", name)
        sets[name] = checked(text, "data", typed=token.source == TYPED)
    return sets


def _share(_: Any, tokens: Sequence[Token]) -> Any:
    """Return a share of the data, or other data."""
    (token,) = tokens
    try:
        return float(token.value)
    except ValueError:
        return _of_option(token, "data")


def _whole(_: Any, tokens: Sequence[Token]) -> Any:
    """Return a whole number; 1.5 is none, which cyclopts would cut."""
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        raise ValueError(f"it must be a whole number, got {token.value}") from None


Data = Annotated[Text, _one("data")]
Model = Annotated[Text, _one("model")]
Models = Annotated[list[Text], _list("model")]
Method = Annotated[Text, _one("method")]
Methods = Annotated[list[Text], _list("method")]
Loss = Annotated[Text, _one("loss")]
Optimizer = Annotated[Text, _one("optimizer")]
Augmentations = Annotated[list[Text], _list("augmentation")]
Executor = Annotated[Text, _one("executor")]
Functions = Annotated[list[Text], _list("function")]
DataSets = Annotated[
    dict[str, Text], Parameter(converter=_named, n_tokens=-1, consume_multiple=True)
]
Share = Annotated[float | Text, Parameter(converter=_share, n_tokens=1)]
Whole = Annotated[int, Parameter(converter=_whole, n_tokens=1)]
Wholes = Annotated[list[int], _several(lambda token: _whole(int, [token]))]
Extractor = Annotated[Text, _one("extractor")]
Size = Literal["paper", "medium", "small", "smoke"]
Settings = Annotated[list[Text], _list("set")]
Words = Annotated[list[str], _several(lambda token: token.value)]


def by_name(option: str, functions: Sequence[Any]) -> dict[str, Any]:
    """Return functions of one's own by their names, each once."""
    named = {function.__name__: function for function in functions}
    rule = "name each function once"
    require(len(named) == len(functions), option, rule, [*named])
    return named
