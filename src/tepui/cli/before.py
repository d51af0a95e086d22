"""The ``tepui`` command: flags and YAML from the commands' typed signatures."""

import inspect
import os
import sys
from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from docstring_parser import parse
from jsonargparse import ArgumentParser, Namespace

from tepui.cli import (
    calibrate,
    claims,
    compare,
    corrupt,
    data,
    doctor,
    evaluate,
    export,
    measure,
    predict,
    report,
    reproduce,
    sweep,
    theory,
    train,
    verify,
)
from tepui.cli.admission import admitting, check_classes, listed, named_by_user, refusal
from tepui.cli.architecture import Architecture
from tepui.cli.completion import EXAMPLE, Shell, script
from tepui.cli.config_calls import with_calls
from tepui.cli.config_place import place_in_files, told_with_place
from tepui.cli.console import console, plain_warnings
from tepui.cli.factories import without_factory
from tepui.cli.files_named import check_no_files
from tepui.cli.greeting import GREETING
from tepui.cli.help_text import HelpFormatter
from tepui.cli.kept_options import check_none_masked, kept_text, with_kept
from tepui.cli.mistakes import NOT_GIVEN, as_refused, as_typed, command_in, in_words
from tepui.cli.other_rows import with_targets
from tepui.cli.parsing import (
    check_names,
    normalized,
    options_of,
    spelled,
    with_data_option,
    with_files_first,
    with_places,
)
from tepui.cli.piped import piped
from tepui.cli.printed import first_line
from tepui.cli.words_first import with_words_first
from tepui.cli.written import check_written
from tepui.core.checks import one_of, require
from tepui.core.lease import LeaseLostError
from tepui.core.version import __version__
from tepui.studies.job import JobError
from tepui.training import (
    ExecutionSpec,
    RankLost,
    TrainingDiverged,
    TrainingSpec,
)
from tepui.training.ranks import place_of_environment


def completion(shell: Shell = "bash") -> None:
    """Print a script that completes commands, options and names in a shell.

    Args:
        shell: Which shell. The file of the example is read by a line in ~/.bashrc:
            source ~/.tepui.bash. For zsh, tepui completion zsh > _tepui writes a file
            for a folder of $fpath. The extra completion installs what is needed.
    """
    with admitting(listed()):
        console().out(script(build_parser(*COMMANDS), shell), highlight=False)


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "compare": (compare.compare, compare.EXAMPLE),
    "train": (train.train, train.EXAMPLE),
    "evaluate": (evaluate.evaluate, evaluate.EXAMPLE),
    "calibrate": (calibrate.calibrate, calibrate.EXAMPLE),
    "predict": (predict.predict, predict.EXAMPLE),
    "export": (export.export, export.EXAMPLE),
    "measure": (measure.measure, measure.EXAMPLE),
    "corrupt": (corrupt.corrupt, corrupt.EXAMPLE),
    "report": (report.report, report.EXAMPLE),
    "data": (data.data, data.EXAMPLE),
    "theory": (theory.theory, theory.EXAMPLE),
    "reproduce": (reproduce.reproduce, reproduce.EXAMPLE),
    "claims": (claims.claims, claims.EXAMPLE),
    "sweep": (sweep.sweep, sweep.EXAMPLE),
    "verify": (verify.verify, verify.EXAMPLE),
    "doctor": (doctor.doctor, doctor.EXAMPLE),
    "completion": (completion, EXAMPLE),
}
# Parameters that are no options: words after a command, their types and how many.
WORDS: dict[str, dict[str, tuple[Any, str | None]]] = {
    "evaluate": {"run": (Path, "+")},
    "predict": {"run": (Path, None), "inputs": (Path | None, "?")},
    "data": {"action": (data.Verb, "?"), "name": (str | None, "?")},
    "reproduce": {"items": (str, "*")},
    "sweep": {"recipe": (str | None, "?")},
    "report": {"runs": (Path, "+")},
    "measure": {"checkpoints": (Path, "+")},
    "completion": {"shell": (Shell, "?")},
}
# Options whose names are words of Python, and the parameters they stand for.
RENAMED: dict[str, dict[str, tuple[str, Any]]] = {"claims": {"from": ("folder", Path)}}
# Commands that train take, in one parameter, all fields of the specifications, each an
# option, except those they have as parameters of their own, and these.
SPECIFICATIONS = (TrainingSpec, ExecutionSpec)
SETTINGS = "settings"
# And this one all options, as they are printed.
OPTIONS = "options"
PRINT = "--print_config"
# Words that are answered without a command.
OF_ALL = ("-h", "--help", "--version")
# What ends in a message, not in a traceback.
MISTAKES = (
    *(ValueError, OSError, ImportError),
    *(TrainingDiverged, RankLost, JobError, LeaseLostError),
)
# Commands whose work torchrun's processes share, and how others share theirs.
OVER_RANKS = ("train", "compare", "evaluate")
EXECUTORS = " (--executor and --workers spread its work)"
INSTEAD = {
    "predict": " (tepui.evaluation.predict_shards with rank and world shares its work)",
    "reproduce": EXECUTORS,
    "sweep": EXECUTORS,
}
LEFT_OUT: dict[str, set[str]] = {
    "train": {"progress"},
    "compare": {"progress", "method", "keep", "stop_after"},
    "sweep": {"progress", "keep", "stop_after", "data_parallel"},
}


class Parser(ArgumentParser):
    """Shows help with :class:`HelpFormatter`, also that of one class.

    Options are written out: a script that abbreviates one breaks when another is added.

    A configuration is printed without the arguments of a model that nobody wrote:
    where it is read again, they follow from the data again.
    """

    written: Sequence[str] = ()
    folder = Path()  # where it was written
    words: Sequence[str] = ()  # as it is read, but for the wish to print it
    begins = ""  # how a printed configuration begins
    own: Mapping[str, Any] = MappingProxyType({})  # what was named beside tepui's

    def __init__(self, **options: Any) -> None:
        own = {"formatter_class": HelpFormatter, "allow_abbrev": False}
        super().__init__(**{**own, **options})

    def dump(self, namespace: Namespace, *arguments: Any, **options: Any) -> str:
        """Return a configuration as text."""
        shown, asked = namespace.clone(), getattr(self, "parent_parser", self)
        model, words = shown.get("model"), asked.words
        if words and isinstance(model, Namespace):
            explicit = build_parser(words[0]).parse_args(words, defaults=False)
            for name in _free_arguments(model, explicit[explicit.subcommand].model):
                del model.init_args[name]
        return f"{asked.begins}{super().dump(shown, *arguments, **options)}"

    def printed(self, chosen: Namespace) -> str:
        """Return all options of the command that was chosen, as text."""
        commands = self._subcommands_action
        assert commands is not None
        command: Parser = commands.choices[chosen.subcommand]
        text = command.dump(chosen[chosen.subcommand], skip_unset=False)
        return text.removeprefix(self.begins)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Say in our words what was wrong, and end the program."""
        whole = getattr(self, "parent_parser", self)
        if refused := refusal(message):
            place = place_in_files(refused, whole.written, whole.folder)
            self.exit(2, f"{_speaker()}: {refused}{place}\n")
        if not self.exit_on_error:  # another parser asks, and says it itself
            super().error(message, ex)
        parser = getattr(ex, "subcommand_parser", None) or self
        written = next(iter(whole.words), parser.prog.split()[-1])
        name = command_in(message) or written
        asked = _command(name) if name in COMMANDS else parser
        options = [word for action in asked._actions for word in action.option_strings]
        functions = {name: function for name, (function, _) in COMMANDS.items()}
        known = {**listed(), **whole.own}
        said = in_words(message, name, options, known, functions)
        said += place_in_files(said, whole.written, whole.folder)
        self.exit(2, f"{_speaker()}: {said}\n{_where(name)} shows all options\n")


def build_parser(*chosen: str) -> Parser:
    """Return the parser of all commands, with the options of those that are chosen.

    Options take time to build, and one command's are read at a time.
    """
    parser = Parser(
        prog="tepui",
        description="Deep ensembles whose members are flat and different.",
        epilog=f"example: {compare.EXAMPLE}",
        version=__version__,
    )
    commands = parser.add_subcommands(title="commands", metavar="COMMAND")
    for name, (function, _) in COMMANDS.items():
        summary = parse(function.__doc__ or "").short_description
        command = _command(name) if name in chosen else Parser()
        commands.add_subcommand(name, command, help=summary)
    return parser


def _command(name: str) -> ArgumentParser:
    """Return the parser of one command, its texts from the command's docstring."""
    function, example = COMMANDS[name]
    parameters = inspect.signature(function).parameters
    texts = parse(function.__doc__ or "")
    about = {text.arg_name: text.description for text in texts.params}
    command = Parser(description=texts.short_description, epilog=f"example: {example}")
    command.add_argument(
        "--config",
        action="config",
        help="Read options from a YAML file; - reads them from a pipe.",
    )
    words = WORDS.get(name, {})
    for word, (kind, count) in words.items():
        value = parameters[word].default
        # A word that is left out leaves what a file says of it.
        optional = value is not inspect.Parameter.empty
        default: dict[str, Any] = {"default": SUPPRESS} if optional else {}
        command.add_argument(word, nargs=count, type=kind, help=about[word], **default)
    renamed = RENAMED.get(name, {})
    for option, (parameter, kind) in renamed.items():
        value = parameters[parameter].default
        command.add_argument(
            f"--{option}", type=kind, default=value, help=about[parameter]
        )
    added = {*words, *(parameter for parameter, _ in renamed.values())}
    command.add_function_arguments(
        function, as_positional=True, skip={*added, SETTINGS, OPTIONS}
    )
    if SETTINGS in parameters:
        elsewhere: set[str | int] = {*parameters, *LEFT_OUT[name]}
        for specification in SPECIFICATIONS:
            command.add_class_arguments(
                specification, skip=elsewhere, instantiate=False
            )
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake ends in a message, not in a traceback."""
    written = sys.argv[1:] if arguments is None else arguments
    words: list[str] = []
    if not written:
        sys.stdout.write(GREETING)
        return
    if written[0] in OF_ALL:
        build_parser().parse_args(written[:1])
    try:
        named = with_data_option(with_words_first(normalized(written)))
        words = with_kept(with_files_first(spelled(with_places(named))))
        with piped(words) as words, told_with_place(words):
            command, values = read(words)
        _check_ranks(command)
        with plain_warnings():
            command(**values)
    except MISTAKES as error:
        sys.stderr.write(f"{_speaker()}: {_said(error, words)}\n")
        raise SystemExit(2) from error
    except KeyboardInterrupt as interrupt:
        goes_on = words[:1] in (["reproduce"], ["sweep"])
        way = "; run the same command again to continue" if goes_on else ""
        if place_of_environment().rank == 0:
            sys.stderr.write(f"tepui: interrupted{way}\n")
        raise SystemExit(130) from interrupt


def _said(error: Exception, words: Sequence[str]) -> str:
    """Return what a mistake is, in the options of the command."""
    said = as_refused(str(error))
    if NOT_GIVEN not in said or not words or words[0] not in COMMANDS:
        return said
    with admitting(listed()):
        actions = _command(words[0])._actions
    return as_typed(said, [word for each in actions for word in each.option_strings])


def _check_ranks(command: Callable[..., None]) -> None:
    """Refuse commands that would do the same work in every process of torchrun."""
    size, name = place_of_environment().size, command.__name__
    rule = (
        f"be {', '.join(OVER_RANKS[:-1])} or {OVER_RANKS[-1]} under torchrun ({size} "
        f"ranks); start tepui {name} once, without it{INSTEAD.get(name, '')}"
    )
    require(size == 1 or name in OVER_RANKS, "command", rule, name)


def _where(name: str) -> str:
    """Return the help that there is for a command."""
    return f"tepui {name if name in COMMANDS else 'COMMAND'} --help"


def _speaker() -> str:
    """Return who says something on standard error."""
    rank = os.environ.get("RANK", "0")
    return "tepui" if rank == "0" else f"tepui (rank {rank})"


def read(words: Sequence[str]) -> tuple[Callable[..., None], dict[str, Any]]:
    """Return the command and its arguments, built of admitted classes alone."""
    rule = "come before options (tepui COMMAND --help shows its own)"
    require(not words[0].startswith("-"), "COMMAND", rule, words[0])
    one_of("COMMAND", words[0], COMMANDS)
    check_no_files(options_of(words))
    check_names(words)
    written, words = words, with_calls(words)
    words, factory = without_factory(words)
    own = named_by_user(words)
    items = listed() | own
    typed, words = words, with_targets(words)
    with admitting(items):
        parser = build_parser(words[0])
        parser.words = [word for word in words if not word.startswith(PRINT)]
        parser.begins, parser.own = first_line(written, own), own
        parser.written, parser.folder = written, Path.cwd()
        chosen = _parsed(parser, words)
        check_classes(chosen, items)
        check_none_masked(chosen[chosen.subcommand].as_dict())
        values = parser.instantiate(chosen)[chosen.subcommand].as_dict()
        check_written(values, typed)
        values.pop("config", None)
        function, _ = COMMANDS[chosen.subcommand]
        parameters = inspect.signature(function).parameters
        if OPTIONS in parameters:
            values[OPTIONS] = kept_text(parser.begins, parser.printed(chosen))
        if values.get("model") is not None:
            explicit = parser.parse_args(words, defaults=False)
            models = (read[chosen.subcommand]["model"] for read in (chosen, explicit))
            free = _free_arguments(*models)
            values["model"] = Architecture(values["model"], free)
        if factory is not None:
            values["model"] = factory
    for option, (parameter, _) in RENAMED.get(chosen.subcommand, {}).items():
        values[parameter] = values.pop(option)
    if SETTINGS in parameters:
        fields = [name for name in values if name not in parameters]
        values[SETTINGS] = {name: values.pop(name) for name in fields}
    return function, values


def _parsed(parser: Parser, words: Sequence[str]) -> Namespace:
    """Return what was asked for; errors inside the parser are mistakes of the words."""
    try:
        return parser.parse_args(words)
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        raise ValueError(
            f"the options of tepui {words[0]} must be written as tepui {words[0]} "
            f"--print-config writes them, but the parser fails on them ({error})"
        ) from error


def _free_arguments(model: Any, explicit: Any) -> frozenset[str]:
    """Return the names of the model's arguments that were not written."""
    if inspect.isfunction(model):
        return frozenset(inspect.signature(model).parameters)
    taken, written = (
        vars(read.init_args) if read.get("init_args") else {}
        for read in (model, explicit)
    )
    return frozenset(taken.keys() - written.keys())
