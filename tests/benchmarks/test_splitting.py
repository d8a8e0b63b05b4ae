"""The scores of another tokenizer's output are computed as those of ours."""

import importlib.util
from pathlib import Path

import pytest

import tagloom as tl

pytestmark = pytest.mark.scripts

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "splitting.py"
FORMS = ["Dr.", "Lee", "did", "n't", "pay", "$", "3.50", ".", "Why", "not", "?"]
JOINED = {"did", "$", "3.50", "pay", "not"}  # no blank follows


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("splitting", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path):
    """A treebank of one document per sentence, whose last sentence the rules cut otherwise."""
    rows = []
    for n, forms in enumerate([FORMS[:8], FORMS[8:], FORMS]):
        rows.append(f"# newdoc id = {n}")
        for i, form in enumerate(forms, 1):
            misc = "SpaceAfter=No" if form in JOINED else "_"
            rows.append("\t".join([str(i), form, *"______", "_", misc]))
        rows.append("")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "test.conllu").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_scores_of_a_file_are_those_of_the_tokenizer(script, folder, capsys):
    gold = tl.read(folder / "x" / "test.conllu")
    tokenizer = tl.Tokenizer()
    script.main(["--data", str(folder), "--treebanks", "x", "--write-text", str(folder / "text")])
    texts = (folder / "text").read_text(encoding="utf-8").split("\n\n")
    assert len(texts) == 3
    rows = []
    for text in texts:
        rows.append("# newpar")
        for sentence in tokenizer.split(text.rstrip("\n")):
            ends = [end for _, end in sentence.offsets]
            starts = [start for start, _ in sentence.offsets[1:]] + [ends[-1] + 1]
            for i, token in enumerate(sentence.tokens):
                misc = "SpaceAfter=No" if starts[i] == ends[i] else "_"
                rows.append("\t".join([str(i + 1), token, *"______", "_", misc]))
            rows.append("")
    (folder / "found").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = script.compare(gold, tl.read(folder / "found", "conllu"))
    expected = [score.f1 for score in tokenizer.evaluate(gold)]
    assert found == pytest.approx(expected)
    assert found[1] < 1
    script.main(["--data", str(folder), "--treebanks", "x", "--split", str(folder / "found")])
    assert f"sentences {100 * expected[1]:.2f}" in capsys.readouterr().out


def test_another_text_is_refused(script, folder):
    gold = tl.read(folder / "x" / "test.conllu")
    with pytest.raises(SystemExit, match="differ at"):
        script.compare(gold, gold[:2])
