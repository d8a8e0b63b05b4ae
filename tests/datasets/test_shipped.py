"""The English corpus: what is in the files, and that load gives it."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

import tagloom as tl
from raising import raises
from tagloom.cli.groups import group
from tagloom.datasets import Splits, load
from tagloom.errors import DatasetError

FOLDER = Path(tl.datasets.__file__).parent / "english"
PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"
GENRES = {
    *("news", "report", "conversation", "email"),
    *("instructions", "review", "narrative", "ambiguity"),
}
UPOS = {
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
}
TYPES = {
    "chunk": {"NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST"},
    "entity": {"PER", "LOC", "ORG", "MISC"},
}


def genre(sentence):
    (line,) = [c for c in sentence.comments if c.startswith("# genre = ")]
    return line.removeprefix("# genre = ")


def test_it_has_at_least_600_sentences_and_8000_tokens():
    splits = load("english")
    assert isinstance(splits, Splits)
    assert sum(map(len, splits)) >= 600
    assert sum(part.n_tokens for part in splits) >= 8000


def test_the_splits_are_about_70_15_15():
    train, dev, test = (part.n_tokens for part in load("english"))
    assert 0.67 < train / (train + dev + test) < 0.73
    assert 0.13 < dev / (train + dev + test) < 0.17


def test_the_tags_are_those_of_universal_dependencies_and_every_one_occurs_in_train():
    for part in load("english"):
        assert set(part.label_counts()) <= UPOS
    assert set(load("english", "train").label_counts()) == UPOS


@pytest.mark.parametrize("label", ["chunk", "entity"])
def test_the_spans_are_legal_bio_of_the_conll_types(label):
    for part in load("english", label=label):
        for sentence in part:
            for before, now in pairwise(["O", *sentence.labels]):
                assert now == "O" or (now[:2] in ("B-", "I-") and now[2:] in TYPES[label])
                if now.startswith("I-"):
                    assert before[2:] == now[2:], (sentence, now)
    train = load("english", "train", label=label)
    assert {y[2:] for y in train.label_counts() if y != "O"} == TYPES[label]


@pytest.mark.parametrize("label", ["chunk", "entity"])
def test_the_schemes_find_bio_and_nothing_else(label):
    for part in load("english", label=label):
        assert tl.labels.detect(part.labels).scheme == "bio"
        assert tl.labels.validate(part.labels, "bio").is_valid


def test_no_sentence_stands_twice():
    seen = Counter(tuple(w.lower() for w in s) for part in load("english") for s in part)
    assert seen.most_common(1)[0][1] == 1


def test_every_genre_is_in_every_split_by_about_its_share():
    splits = load("english")
    total = Counter(genre(s) for part in splits for s in part)
    assert set(total) == GENRES
    for part, share in zip(splits, (0.7, 0.15, 0.15), strict=True):
        counts = Counter(genre(s) for s in part)
        for name in GENRES:
            assert abs(counts[name] / total[name] - share) < 0.07


def test_sentences_are_numbered_within_their_genre_and_neighbours_stay_together():
    where = {}
    for name, part in zip(Splits._fields, load("english"), strict=True):
        for sentence in part:
            (line,) = [c for c in sentence.comments if c.startswith("# sent_id = ")]
            match = re.fullmatch(r"# sent_id = en-(\w+)-(\d{3})", line)
            assert match[1] == genre(sentence)
            where[match[1], int(match[2])] = name
    for name in GENRES:
        n = sum(g == name for g, _ in where)
        order = [where[name, i] for i in range(1, n + 1)]
        breaks = sum(a != b for a, b in pairwise(order))
        assert breaks <= n / 5  # a split changes at most at the edges of blocks of about five


def test_load_gives_one_split_or_three():
    assert load("english", "dev") == load("english").dev
    assert load().test == load("english", split="test")


@pytest.mark.parametrize("label", ["upos", "chunk", "entity"])
def test_the_label_is_chosen_and_the_other_columns_stay(label):
    for sentence in load("english", "test", label=label):
        assert list(sentence.columns) == ["form", "upos", "chunk", "entity"]
        assert sentence.labels == sentence.columns[label]
        assert sentence.tokens == sentence.columns["form"]
    assert load("english", "test", label=label).label == label


def test_the_files_are_plain_columns_that_read_understands_alone(tmp_path):
    for name in Splits._fields:
        path = FOLDER / f"{name}.conll"
        corpus = tl.read(path, label="chunk")
        assert corpus == load("english", name, label="chunk")
        tl.write(corpus, tmp_path / "again.conll")
        assert (tmp_path / "again.conll").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("label", ["upos", "chunk", "entity"])
def test_tagloom_check_finds_nothing_wrong(label):
    files = [str(FOLDER / f"{name}.conll") for name in Splits._fields]
    # In parts this small some labels are rare; that is said in the documentation.
    result = CliRunner().invoke(group, ["check", *files, "--label", label, "--ignore", "rare"])
    assert result.exit_code == 0, result.output
    assert result.output.count("no problems") == 3


def test_a_name_that_does_not_exist_is_answered_with_those_that_do():
    with raises(DatasetError, parameter="name", expected="english", found="'German'"):
        load("German")
    with raises(DatasetError, parameter="split", expected="train, dev, test", found="'valid'"):
        load("english", "valid")
    with raises(DatasetError, parameter="label", expected="upos, chunk", found="'ner'"):
        load("english", label="ner")


def test_the_tables_in_the_documentation_are_counted_from_the_files():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    splits = load("english")
    for name in GENRES:
        n = [sum(genre(s) == name for s in part) for part in splits]
        tokens = sum(len(s) for part in splits for s in part if genre(s) == name)
        (row,) = [line for line in lines if line.startswith(f"| {name} |")]
        assert row.endswith(f" | {n[0]} | {n[1]} | {n[2]} | {sum(n)} | {tokens:,} |")
    counts = sum((part.label_counts() for part in splits), Counter())
    for tag in UPOS:
        assert f"| {tag} | {counts[tag]:,} |" in lines
    for label, types in TYPES.items():
        counts = sum((part.label_counts() for part in load("english", label=label)), Counter())
        for name in types:
            assert f"| {name} | {counts['B-' + name]:,} |" in lines
