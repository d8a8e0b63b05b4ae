"""``tagloom train``: one subcommand per model, whose options are the parameters of its class.

Name, type, default and help of an option are declared by the class. The capabilities of the model
determine the other options.
"""

from __future__ import annotations

import glob
import inspect
import json
import os
import tempfile
import warnings
from collections.abc import Set
from functools import partial
from typing import Any

import click

from tagloom import features, models
from tagloom.checks import plural
from tagloom.cli import mistakes, structures
from tagloom.cli.options import find_taggers, model_options, read_values
from tagloom.cli.reading import OPTIONS as READING
from tagloom.cli.reading import Reading
from tagloom.cli.summaries import show_summary, summarise
from tagloom.cli.templates import Resources, read_features, read_resources
from tagloom.cli.wording import some
from tagloom.errors import LabelError, TagloomError
from tagloom.models import Capability
from tagloom.models.constraints import look_like_spans
from tagloom.models.shared import ClusterParameters
from tagloom.sequences import Corpus
from tagloom.sequences.sources import Files, files
from tagloom.text import PRESETS

EXAMPLES = {
    "crf": """\b
Examples:
  tagloom train crf train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train crf train.conllu -o small.tagloom --features "word; suffix(1..3)"
  tagloom train crf ner.conll -o ner.tagloom --algorithm lbfgs --l1 0.5 --json
  tagloom train crf train.conllu --label upos --tokenizer learn -o pos.tagloom
  tagloom train crf 'shards/*.conllu.gz' --label upos --n-workers 8 -o pos.tagloom
""",
    "semicrf": """\b
Examples:
  tagloom train semicrf ner.conll --dev dev.conll -o ner.tagloom
  tagloom train semicrf ner.conll -o ner.tagloom --algorithm lbfgs --json
""",
    "perceptron": """\b
Examples:
  tagloom train perceptron train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train perceptron ner.conll -o ner.tagloom --max-iterations 5
""",
    "svm": """\b
Examples:
  tagloom train svm train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train svm ner.conll -o ner.tagloom --algorithm frank-wolfe --C 0.05
""",
    "memm": """\b
Examples:
  tagloom train memm train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train memm train.conllu -o pos.tagloom --features "word; suffix(1..3); edge(word)"
""",
    "token": """\b
Examples:
  tagloom train token train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train token train.conllu -o pos.tagloom --loss hinge --features "word[-1..1]"
""",
    "hmm": """\b
Examples:
  tagloom train hmm train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train hmm train.conllu --label upos -o pos.tagloom --order 2 --lexical 3
  tagloom train hmm train.conllu --label upos -o pos.tagloom --emissions "word; suffix(2)"
  tagloom train hmm words.txt -o states.tagloom --n-states 45 --algorithm em
""",
}
_EXAMPLE = """\b
Examples:
  tagloom train {name} train.conllu --label upos --dev dev.conllu -o pos.tagloom
"""


class _Models(mistakes.Group):
    """The models, each a command that is created on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*find_taggers(), *(kind.name for kind in structures.kinds())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for kind in structures.kinds():
            if cmd_name == kind.name:
                return kind.train_command()
        cls = find_taggers().get(cmd_name)
        return None if cls is None else make_command(cmd_name, cls)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names:  # probably a file name, the most common first mistake
            raise click.UsageError(
                f"{args[0]!r} is not a model. Choose one of: {', '.join(names)}, as in "
                "tagloom train crf TRAIN -o MODEL",
                ctx,
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Models,
    epilog="""\b
Examples:
  tagloom train crf train.conllu --label upos --dev dev.conllu -o pos.tagloom
  tagloom train perceptron ner.conll -o ner.tagloom
""",
)
def command() -> None:
    """Train a tagger on labelled sentences, a parser on trees, or a role labeller; choose a MODEL.

    Each model has different options, for example: tagloom train crf --help.
    """


# ---- the command of a model --------------------------------------------------------------------


def make_command(name: str, cls: type[models.Tagger]) -> click.Command:
    """Return the command that trains one model, with an option for each of its parameters."""
    iterates = Capability.ITERATIONS in cls.capabilities
    use = "keep the best iteration" if iterates else "score the model on it"
    options = [
        click.argument("train_file", metavar="TRAIN"),
        click.option("-o", "--output", metavar="MODEL", required=True, help="File to save to."),
        click.option("--dev", metavar="FILE", help=f"Development data: {use}."),
        click.option("--calibrate", is_flag=True, help="Calibrate the probabilities on --dev."),
        *(_FEATURES if Capability.FEATURES in cls.capabilities else ()),
        *(option.decorate for option in READING),
        _TOKENIZER,
        *((_DICTIONARY,) if "constraints" in cls.parameters else ()),
        *((_CHECKPOINT,) if iterates or "n_states" in cls.parameters else ()),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
        click.option("--quiet", "-q", is_flag=True, help="Print no progress, notices or summary."),
    ]
    command = click.Command(
        name,
        callback=partial(train, cls),
        short_help=_summary(cls),
        help=f"{_summary(cls)}\n\nThe model is trained on TRAIN; - is stdin. "
        + (_FILES if issubclass(cls, ClusterParameters) else "")
        + ("Ctrl-C saves the best model so far. " if iterates else "")
        + "The model stores how TRAIN was read, and other files are read in the same way.",
        epilog=EXAMPLES.get(name, _EXAMPLE.format(name=name)),
    )
    for option in options:
        option(command)
    command.params += model_options(cls)
    return command


_FILES = "A pattern such as 'shards/*.conllu.gz' stands for files that stay on disk. "
_FEATURES = [
    click.option(
        "--features",
        default="auto",
        show_default=True,
        help=f"A preset ({', '.join(features.PRESETS)}), a CRF++ or Wapiti template file, or "
        "templates such as 'word; suffix(1..3); word[-1] & word'; none for no templates.",
    ),
    click.option(
        "--lexicon",
        multiple=True,
        metavar="NAME=FILE",
        help="Phrases for lexicon(NAME), which is also added to a preset.",
    ),
    click.option(
        "--clusters",
        multiple=True,
        metavar="NAME=FILE",
        help="Word clusters for cluster(NAME), which is also added to a preset.",
    ),
]
_DICTIONARY = click.option(
    "--dictionary",
    type=click.IntRange(min=1),
    metavar="N",
    help="Restrict words seen at least N times to the labels seen with them.",
)
_TOKENIZER = click.option(
    "--tokenizer",
    type=click.Choice(["learn", *PRESETS]),
    help="How raw text is split, for tag --text and documents; saved with the model.",
)
_CHECKPOINT = click.option(
    "--checkpoint", metavar="FILE", help="Save the run to FILE, or resume it from there."
)


def _summary(cls: type) -> str:
    """Return the first line of a class's docstring, or its name if Python drops docstrings."""
    return (inspect.getdoc(cls) or f"{cls.__name__}.").split("\n", 1)[0]


# ---- training ----------------------------------------------------------------------------------


def train(
    cls: type[models.Tagger],
    *,
    train_file: str,
    output: str,
    dev: str | None,
    calibrate: bool,
    tokenizer: str | None,
    as_json: bool,
    quiet: bool,
    checkpoint: str | None = None,
    **options: Any,
) -> None:
    """Read the files, train, save, and print a summary."""
    if calibrate and dev is None:
        raise click.UsageError("--calibrate needs --dev, sentences that are not in TRAIN.")
    reading = Reading.of(options)
    spec, resources = _take_features(options)
    tagger: Any = cls.from_options(_arguments(cls, options, spec, resources))
    for path in (output, checkpoint):
        if path is not None:
            check_writable(path)
    needs_labels = not getattr(tagger, "learns_states", False)
    if dev is not None and not needs_labels:
        raise click.UsageError("--dev needs labels, which states have not. Leave out --dev.")
    splitter = None if tokenizer in (None, "learn") else models.Tokenizer(str(tokenizer))
    source = _find_files(tagger, train_file, reading)
    if source is not None:
        _check_files(tokenizer, spec, resources)
        corpus = reading.head(source.paths[0])
    else:
        read = reading.read if needs_labels else reading.read_unlabelled
        corpus = read(train_file, splitter)
    if tokenizer == "learn":
        splitter = models.Tokenizer().fit(corpus)
    if spec == "auto" and any(resources.values()):
        tagger.set_params(features=read_features(_preset(corpus), resources))
    dev_corpus = None if dev is None else reading.read(dev, splitter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "always")
        warnings.showwarning = _warn  # at once: training may take long
        _fit(tagger, corpus if source is None else source, dev_corpus, checkpoint, quiet)
    record = getattr(tagger, "training_", {})
    tagger.training_ = {**record, **reading.describe(corpus)}
    if calibrate:
        tagger = tagger.calibrate(dev_corpus)
    if splitter is not None:
        tagger = tagger.with_tokenizer(splitter)
    tagger.save(output)
    # Guesses come last, so that an error, which ends the command earlier, is one line.
    for file in (corpus, dev_corpus):
        if file is not None and file.notice and not quiet:
            click.echo(file.notice, err=True)
    _report(tagger, output, as_json, quiet)


def _take_features(options: dict[str, Any]) -> tuple[str, Resources]:
    """Remove the options about features from all options of a command and return them."""
    spec = options.pop("features", "auto")
    lexicons, clusters = (read_resources(options.pop(x, ())) for x in ("lexicon", "clusters"))
    return spec, {"lexicons": lexicons, "clusters": clusters}


def _arguments(
    cls: type[models.Tagger], options: dict[str, Any], spec: str, resources: Resources
) -> dict[str, Any]:
    """Convert the options of a model to the arguments of its class."""
    dictionary = options.pop("dictionary", None)
    arguments = read_values(cls, options)
    if Capability.FEATURES in cls.capabilities:
        arguments["features"] = read_features(spec, resources)
    if dictionary is not None:
        scheme = arguments["constraints"]
        rest = [] if scheme is None else [scheme]
        arguments["constraints"] = [*rest, models.TagDictionary(dictionary)]
    return arguments


def _find_files(tagger: Any, train_file: str, reading: Reading) -> Files | None:
    """Return TRAIN as files that stay on disk, if it is a pattern or workers are to read it."""
    has_workers = any(getattr(tagger, name, None) for name in ClusterParameters.parameters)
    if not has_workers and (os.path.exists(train_file) or not glob.has_magic(train_file)):
        return None
    if not getattr(tagger, "takes_files", False):
        raise click.UsageError(
            f"{type(tagger).__name__} learns from one file; {train_file} is a pattern."
        )
    return files(train_file, **vars(reading))


def _check_files(tokenizer: str | None, spec: str, resources: Resources) -> None:
    """Check the options that need a whole corpus."""
    if tokenizer is not None:
        raise click.UsageError("--tokenizer needs TRAIN as one file, without workers.")
    if spec == "auto" and any(resources.values()):
        raise click.UsageError(
            "--lexicon and --clusters need a preset that is named, such as --features ner."
        )


def _preset(corpus: Corpus) -> str:
    """Return the preset that ``--features auto`` selects."""
    labels = [label for label in corpus.label_counts() if isinstance(label, str)]
    return "ner" if look_like_spans(labels) else "pos"


def _fit(
    tagger: Any, corpus: Corpus | Files, dev: Corpus | None, checkpoint: str | None, quiet: bool
) -> None:
    """Train a tagger; one that does not learn iteratively is scored on ``dev`` afterwards."""
    if dev is not None and isinstance(corpus, Corpus):
        check_dev(dev, {*corpus.label_counts(), *(getattr(tagger, "labels", None) or ())})
    if tagger.can(Capability.ITERATIONS):
        progress = False if quiet else None
        tagger.fit(corpus, dev=dev, progress=progress, checkpoint=checkpoint)
        return
    if getattr(tagger, "learns_states", False):
        tagger.fit(corpus, progress=False if quiet else None, checkpoint=checkpoint)
        return
    tagger.fit(corpus)
    if dev is not None:
        tagger.training_["dev"] = tagger.score(dev)


def _report(tagger: Any, path: str, as_json: bool, quiet: bool) -> None:
    """Print the summary; exit with 130 if training was interrupted."""
    interrupted = tagger.training_.get("stopped") == "interrupted"
    if interrupted:
        kept = tagger.training_["best_iteration"]
        click.echo(f"tagloom: interrupted; iteration {kept} is saved in {path}.", err=True)
    summary = summarise(tagger, path)
    if as_json:
        click.echo(json.dumps(summary, ensure_ascii=False))
    elif not quiet:
        click.echo(show_summary(summary))
    if interrupted:
        click.get_current_context().exit(130)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    if not str(message).startswith("Interrupted"):  # reported at the end, with the file
        naming = mistakes.naming(click.get_current_context().command)
        text = message.render(naming) if isinstance(message, TagloomError) else str(message)
        click.echo(f"tagloom: {text}", err=True)


def check_dev(dev: Corpus, trained: Set[Any]) -> None:
    """Compare the labels of the development data with those of the training data.

    Raises
    ------
    LabelError
        If they have none in common, so that every score would be 0.
    """
    counts = dev.label_counts()
    new = {y: n for y, n in counts.items() if isinstance(y, str) and y not in trained}
    if new and len(new) == len(counts):
        names = some(sorted(filter(None, trained), key=str))
        raise LabelError(
            where=dev.path,
            expected=f"a label of the training file: {names}",
            found=f"none of them, but {next(iter(new))!r}",
            hint="Is it the right column? Set {label} to choose another.",
            options={"label": ...},
        )
    if new:
        warnings.warn(
            f"{dev.path}: the training file has no label {some(sorted(new), 'or')}, so "
            f"{plural(sum(new.values()), 'token')} of {dev.n_tokens:,} cannot be right.",
            stacklevel=2,
        )


def check_writable(path: str) -> None:
    """Check before training that its result can be saved.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(21, "Is a folder; -o names the file to save to", path)
    folder = os.path.dirname(os.path.realpath(path))
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(
            error.errno, f"{error.strerror}; cannot save a model there", path
        ) from None
