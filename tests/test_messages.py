"""The wording of errors, once per kind: as Python shows it, and as a command does.

Everywhere else errors are asserted by their fields, so that a sentence is edited here alone.
"""

import io
import warnings

import numpy as np
import pytest

import tagloom as tl
from tagloom import checks
from tagloom.cli import groups
from tagloom.cli.mistakes import naming
from tagloom.errors import TagloomError


def command(*names):
    """A command of the command line, whose options its messages name."""
    command = groups.group
    for name in names:
        command = command.get_command(None, name)
    return command


TRAIN, CONVERT, EVAL = command("train", "crf"), command("convert"), command("eval")
WORDS, LABELS = [["They", "can", "fish"]], [["PRON", "AUX", "VERB"]]
MODEL = tl.HMM().fit(WORDS, LABELS).to_bytes()


def read(text, *arguments, **options):
    return tl.read(io.StringIO(text), *arguments, **options)


def fit(X, y=None, **options):
    return tl.CRF("words", max_iterations=1, **options).fit(X, y)


# what is called; a command; the text in Python; the text of the command, if it is another
MESSAGES = {
    "integer": (
        lambda: checks.count(0, "min_count", least=1),
        TRAIN,
        "min_count must be an integer of at least 1; got 0.",
        "--min-count must be an integer of at least 1; got 0.",
    ),
    "large integer": (
        lambda: checks.count(2**70, "order"),
        TRAIN,
        "order must be an integer below 2**63; got an integer of 71 bits.",
        "--order must be an integer below 2**63; got an integer of 71 bits.",
    ),
    "number": (
        lambda: checks.number(float("nan"), "l2", least=0),
        TRAIN,
        "l2 must be a finite number of at least 0; got nan.",
        "--l2 must be a finite number of at least 0; got nan.",
    ),
    "choice": (
        lambda: checks.choice("sen", "states", ("auto", "seen", "all")),
        TRAIN,
        "states must be one of 'auto', 'seen', 'all'; got 'sen'.",
        "--states must be one of 'auto', 'seen', 'all'; got 'sen'.",
    ),
    "flag": (
        lambda: checks.flag("no", "averaged"),
        TRAIN,
        "averaged must be True or False; got 'no'.",
    ),
    "threads": (
        lambda: checks.threads(0),
        TRAIN,
        "n_threads must be an integer of at least 1; got 0. Pass None for all cores.",
        "--n-threads must be an integer of at least 1; got 0. Pass None for all cores.",
    ),
    "file name": (
        lambda: checks.path(3, "checkpoint"),
        TRAIN,
        "checkpoint must be a file name; got 3, of type int.",
        "--checkpoint must be a file name; got 3, of type int.",
    ),
    "text for sentences": (
        lambda: checks.sentences("They can fish"),
        TRAIN,
        "expected a list of sentences, found the str 'They can fish'. Split it into tokens first: "
        "[text.split()]; or read a file: tagloom.read(path).",
    ),
    "text for a sentence": (
        lambda: tl.Sentence("They can fish"),
        TRAIN,
        "expected a list of tokens, found the str 'They can fish'. Split it first, for instance "
        "with text.split().",
    ),
    "numbers of labels": (
        lambda: tl.Corpus(WORDS, [["PRON", "AUX"]]),
        TRAIN,
        "sentence 0: expected 3 labels, one per token, found 2.",
    ),
    "unknown label": (
        lambda: tl.evaluate([["O", None]], [["O", "O"]]),
        EVAL,
        "gold: sentence 0, token 1: expected a known label, found None (unknown). Complete the "
        "labels of this sentence, or leave it out.",
    ),
    "no labels": (
        lambda: tl.Corpus(WORDS).labels,
        TRAIN,
        "sentence 0: expected labels, found none. When reading a file, name their column with "
        "label.",
        "sentence 0: expected labels, found none. When reading a file, name their column with "
        "--label.",
    ),
    "one label": (
        lambda: fit(WORDS, [["X", "X", "X"]]),
        TRAIN,
        "Every token of all 1 sentences has the label 'X'. Is it the right column? Set label to "
        "choose another.",
        "Every token of all 1 sentences has the label 'X'. Is it the right column? Set --label to "
        "choose another.",
    ),
    "columns of a row": (
        lambda: read("a,X\nb\tY\n", "conll", sep=","),
        TRAIN,
        "<file>:2: expected 2 columns as on line 1, found 1 in 'b\\tY'. Wrong separator? Try "
        'sep="\\t".',
        "<file>:2: expected 2 columns as on line 1, found 1 in 'b\\tY'. Wrong separator? Try "
        "--sep '\\t'.",
    ),
    "a column": (
        lambda: read("a X\n", "conll", label="upos"),
        TRAIN,
        "<file>: label must be one of the columns 0, 1; got 'upos'.",
        "<file>: --label must be one of the columns 0, 1; got 'upos'.",
    ),
    "format": (
        lambda: read("They swim\n"),
        CONVERT,
        "<file>: expected a known format, found 'They swim' in the first row. Pass format: conll, "
        "conllu, csv, slash, text, jsonl, jsonl-spans, json, json-spans, spacy, label-studio, "
        "brat, crfsuite, docbin, parquet, arrow.",
    ),
    "encoding": (
        lambda: tl.read(io.BytesIO(b"Zo\xeb N\n"), "conll"),
        TRAIN,
        "<file>:1: expected text in UTF-8, found byte 0xEB at offset 2. If the file is in another "
        'encoding, such as latin-1, shift_jis, euc-jp or gbk, pass it, as in encoding="latin-1".',
        "<file>:1: expected text in UTF-8, found byte 0xEB at offset 2. If the file is in another "
        "encoding, such as latin-1, shift_jis, euc-jp or gbk, pass it, as in --encoding latin-1.",
    ),
    "a value to write": (
        lambda: tl.write([tl.Sentence(["a"])], io.BytesIO(), "slash"),
        CONVERT,
        "sentence 0, token 0: expected a known label, as slash has no value for unknown ones, "
        'found None (unknown). Choose a value, such as unknown="_", or write jsonl.',
        "sentence 0, token 0: expected a known label, as slash has no value for unknown ones, "
        "found None (unknown). Choose a value, such as --unknown _, or write jsonl.",
    ),
    "scheme": (
        lambda: tl.labels.validate([["O"]], "bieos"),
        EVAL,
        "scheme must be one of bio, iob1, io, bioes, bilou, bmes, bmewo, ioe2, "
        "ioe1, iob2, iobes; got 'bieos'.",
        "--scheme must be one of bio, iob1, io, bioes, bilou, bmes, bmewo, ioe2, "
        "ioe1, iob2, iobes; got 'bieos'.",
    ),
    "illegal label": (
        lambda: tl.labels.convert([["O", "I-PER"]], "bio", "bioes"),
        CONVERT,
        "sentence 0, token 1: 'I-PER' cannot follow 'O' in bio. If the labels are iob1, pass "
        'source="iob1". Pass repair=True to read them as conlleval does.',
        "sentence 0, token 1: 'I-PER' cannot follow 'O' in bio. If the labels are iob1, pass "
        'source="iob1". Pass --repair to read them as conlleval does.',
    ),
    "systems": (
        lambda: tl.evaluate([["O"], ["O"]], [["O"]]),
        EVAL,
        "predicted: expected 2 sentences, as in gold, found 1. Both need the same sentences in the "
        "same order.",
    ),
    "shapes": (
        lambda: tl.evaluation.reliability(np.zeros(2), [True], n_bins=10),
        EVAL,
        "is_right must be bools of the shape of confidence, (2,), in one dimension; got shape "
        "(1,), bool.",
    ),
    "shape of scores": (
        lambda: tl.Trellis(np.zeros((1, 2)), np.zeros((2, 3))),
        TRAIN,
        "trans must be of shape (Y, Y) = (2, 2) to match emit (1, 2); got (2, 3).",
    ),
    "score": (
        lambda: tl.Trellis([[0.0, np.nan]]),
        TRAIN,
        "emit[0, 1]: expected a score between -1e300 and 1e300, or -inf for forbidden, found nan.",
    ),
    "offsets": (
        lambda: tl.Trellis([[0.0]], offsets=[0, 2]),
        TRAIN,
        "offsets must be N + 1 integers that rise from 0 to 1, the rows of emit; got 0 to 2.",
    ),
    "label of a path": (
        lambda: tl.Trellis([[0.0, 0.0]], labels=["N", "V"]).path_score(["X"]),
        TRAIN,
        "path, position 0: expected a label: 'N', 'V'; or a label id from 0 to 1, found 'X'.",
    ),
    "no path": (
        lambda: tl.Trellis([[0.0], [-np.inf]]).viterbi(),
        TRAIN,
        "position 1: no allowed path reaches position 1. Relax the constraints, or pass "
        "on_infeasible='none'.",
    ),
    "no end": (
        lambda: tl.Trellis([[0.0]], stop=[-np.inf], offsets=[0, 1]).viterbi(),
        TRAIN,
        "sequence 0, position 1: no path may stop after position 0, the last. Relax the "
        "constraints, or pass on_infeasible='none'.",
    ),
    "memory": (
        lambda: tl.Trellis([[0.0]]).sample(2**62),
        TRAIN,
        "n must be a number of samples of 1 labels each that fits into memory; got "
        "4611686018427387904.",
    ),
    "state": (
        lambda: tl.StateSpace.from_edges(2, [0, 1], [(0, 1), (0, 5)], [0]),
        TRAIN,
        "edges[1]: expected states from 0 to 1, found [0, 5].",
    ),
    "not fitted": (
        lambda: tl.CRF().predict(WORDS),
        TRAIN,
        "This CRF is not fitted. Call fit(), or load a saved one with tagloom.load(path), before "
        "predict().",
    ),
    "parameters that exclude each other": (
        lambda: fit(WORDS, LABELS, l1=0.5),
        TRAIN,
        "l1 must be 0 with the algorithm 'adagrad', which has no l1 penalty; got 0.5. Choose "
        'algorithm="lbfgs".',
        "--l1 must be 0 with the algorithm 'adagrad', which has no l1 penalty; got 0.5. Choose "
        "--algorithm lbfgs.",
    ),
    "batch learner": (
        lambda: tl.CRF("words", algorithm="lbfgs").partial_fit(WORDS, LABELS),
        TRAIN,
        "CRF(features='words', algorithm='lbfgs') learns from all sentences at once. For "
        'partial_fit choose an online learner, such as algorithm="adagrad"; to continue from the '
        "present weights, warm_start=True.",
        "CRF(features='words', algorithm='lbfgs') learns from all sentences at once. For "
        "partial_fit choose an online learner, such as --algorithm adagrad; to continue from the "
        "present weights, warm_start=True.",
    ),
    "forbidden gold labels": (
        lambda: fit(WORDS, [["O", "I-X", "O"]], constraints="bio", constrain_training=True),
        TRAIN,
        "sentence 0: expected gold labels that the constraints allow, found labels that they "
        "forbid. Correct them, or leave constrain_training out: constraints then hold for "
        "predictions only.",
    ),
    "known labels": (
        lambda: tl.HMM().fit(WORDS, LABELS).predict(WORDS, known=[["X", None, None]]),
        TRAIN,
        "known, sentence 0, token 0: expected None, one of the labels AUX, PRON, VERB, or a set of "
        "them, found 'X'.",
    ),
    "template": (
        lambda: tl.features.make(["shapes"]),
        TRAIN,
        "template 0, 'shapes', character 1: expected a function, found 'shapes'. Did you mean "
        "'shape'?",
    ),
    "feature value": (
        lambda: tl.features.extract([{"length": float("inf")}], None),
        TRAIN,
        "sentence 0, token 0: the value of feature 'length' is inf; expected a finite number.",
    ),
    "token": (
        lambda: tl.features.extract(["They", 3], ["word"]),
        TRAIN,
        "sentence 0, token 1: expected a str, found int. A sentence is a list of str; if tokens "
        "are dicts or numbers, use features=None.",
    ),
    "loss": (
        lambda: tl.training.minimise(lambda theta: (np.nan, theta), np.zeros(2)),
        TRAIN,
        "iteration 1: the loss is nan. Scale real-valued inputs to about 1, or lower the learning "
        "rate.",
    ),
    "state of another learner": (
        lambda: tl.training.LBFGS(None, theta=np.zeros(2)).restore({}),
        TRAIN,
        "the state is of another optimiser: an array is missing.",
    ),
    "not a model": (
        lambda: tl.load(b"They can fish"),
        TRAIN,
        "<bytes>: expected a tagloom model, written by save(), found a file that begins with "
        "b'They can '.",
    ),
    "damaged model": (
        lambda: tl.load(MODEL + b"!"),
        TRAIN,
        "<bytes>: damaged: 1 bytes follow the last array. Copy or save the model again.",
    ),
    "another kind of model": (
        lambda: tl.CRF.load(MODEL),
        TRAIN,
        "<bytes>: expected a model of kind CRF, found HMM.",
    ),
    "header of a file": (
        lambda: tl.storage.to_bytes({"l2": float("nan")}, {}),
        TRAIN,
        "header['l2'] must be a finite number, for JSON; got nan.",
    ),
    "data set": (
        lambda: tl.datasets.load("german"),
        TRAIN,
        "name must be a corpus that comes with tagloom: english; got 'german'. Worked examples are "
        "in classic(); to read a file, use tagloom.read(path).",
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_wording(kind):
    call, running, python, *option = MESSAGES[kind]
    with pytest.raises(TagloomError) as caught:
        call()
    assert str(caught.value) == python
    assert caught.value.render(naming(running)) == (option or [python])[0]


def test_wording_of_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit([["a", "b", "c"]], [["I-X", "B-Y", "I-Z"]])
    (warning,) = [w.message for w in caught if isinstance(w.message, TagloomError)]
    assert str(warning) == (
        "No scheme fits: bio: 2 illegal, as 'I-X' cannot start a sentence in bio; iob1: 1 illegal, "
        "as 'B-Y' cannot follow 'I-X' in iob1; io: 1 illegal, as 'B-Y' is not a label of io; "
        "bioes: 4 illegal, as 'I-X' cannot start a sentence in bioes; bilou: 4 illegal, as 'I-X' "
        "cannot start a sentence in bilou. Predictions may be illegal, too. To find such labels, "
        'run tagloom check; to rule them out, pass constraints="bio".'
    )
    assert warning.render(naming(TRAIN)).endswith("pass --constraints bio.")


def test_options_are_written_as_they_are_typed():
    write = naming(EVAL)
    assert write("spans", False) == "--no-spans"
    assert write("strict", True) == "--strict"
    assert write("n_bootstrap", 0) == "--n-bootstrap 0"
    assert write("sep", "\t") == r"--sep '\t'"
    assert write("tokenize", "x") == 'tokenize="x"'  # not an option
    assert naming(None)("sep", ";") == 'sep=";"'
    assert naming(CONVERT, {"format": "from_"})("format") == "--from"
