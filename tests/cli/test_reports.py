"""tagloom eval --report: one page that needs nothing else, whatever stands in the corpus."""

import re
from html.parser import HTMLParser

import tagloom as tl
from tagloom.cli.reports import confusion_svg, reliability_svg
from tagloom.evaluation import reliability

NASTY = ["<script>alert(1)</script>", "</svg><b>", '"onload="x', "a&amp;b", "'", "\x07bell"]
VOID = {"meta"}


class Page(HTMLParser):
    """Reads a page, and minds that every element is closed and nothing comes from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.tags, self.text, self.titles = [], {}, [], []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.stack.append(tag)
        self._look(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self._look(tag, attrs)

    def _look(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            assert name not in ("src", "href", "onload", "onclick"), (tag, name, value)
            assert "url(" not in (value or "")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "h2":
            self.titles.append(data)
        self.text.append(data)


def read(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not set(page.tags) & {"script", "link", "img", "iframe", "object", "b"}
    assert "@import" not in text
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    return page


def test_a_page_for_a_model(run, model, corpora, tmp_path):
    options = ["--train", corpora / "train.conllu", "--report", "report.html"]
    done = run("eval", model, corpora / "test.conllu", *options)
    assert done.returncode == 0, done.stderr
    page = read(tmp_path / "report.html")
    assert page.titles == [
        "Scores",
        "Confusion matrix",
        "Mistakes, gold → predicted",
        "Unknown words",
        "Reliability",
        "The worst sentences",
    ]
    text = "\n".join(page.text)
    tagger, test = tl.load(model), tl.read(corpora / "test.conllu", label="upos")
    result = tl.evaluate(test, test.with_labels(tagger.predict(test)))
    assert f"{result.accuracy:.4f}" in text
    gold, predicted, n = result.confusions()[0]
    assert f"{gold} → {predicted}: {n}" in text
    assert f"expected calibration error {tagger.reliability(test).ece:.4f}" in text
    wrong = int(result.confusion.sum() - result.confusion.trace())
    assert f"{wrong:,} tokens have a wrong label." in text
    assert page.tags["svg"] == 2 + 5  # matrix, reliability, and five sentences
    # what is printed is what is printed without a page
    plain = run("eval", model, corpora / "test.conllu", "--train", corpora / "train.conllu")
    assert done.stdout == plain.stdout


def test_the_worst_sentences_are_those_with_the_least_probable_labels(
    run, model, corpora, tmp_path
):
    run("eval", model, corpora / "test.conllu", "--report", "report.html")
    tagger, test = tl.load(model), tl.read(corpora / "test.conllu", label="upos")
    predicted = tagger.predict(test)
    means = {}
    for i, sentence in enumerate(test):
        if sentence.labels != predicted[i] and len(sentence) <= 40:
            trellis = tagger.trellis([sentence])[0]
            means[i] = trellis.log_prob(sentence.labels) / len(sentence)
    worst = sorted(means, key=means.get)[:5]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [int(i) for i in re.findall(r"<p>Sentence (\d+): the gold", text)] == worst


def test_any_text_is_only_text(run, tmp_path):
    labels = ["<i>X</i>", "Y&", "Z\"'"]
    X = [[word, *NASTY[:2]] for word in NASTY]
    y = [[labels[i % 3], labels[1], labels[2]] for i in range(len(X))]
    tl.write(tl.Corpus(X, y), tmp_path / "train.jsonl")
    wrong = [[labels[(i + 1) % 3], "never <seen>", labels[2]] for i in range(len(X))]
    tl.write(tl.Corpus(X, wrong), tmp_path / "test.jsonl")
    tl.write(tl.Corpus([["other"]], [["Y&"]]), tmp_path / "words.jsonl")
    assert run("train", "hmm", "train.jsonl", "-o", "m.tagloom", "-q").returncode == 0
    options = ["--report", "report.html", "--train", "words.jsonl"]
    done = run("eval", "m.tagloom", "test.jsonl", *options)
    assert done.returncode == 0, done.stderr
    page = read(tmp_path / "report.html")
    assert "i" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert any("never <seen>" in text for text in page.text)
    assert any("the gold labels have probability 0." in text for text in page.text)


def test_a_page_for_two_files_has_no_probabilities(run, corpora, tmp_path):
    done = run("eval", corpora / "test.conllu", corpora / "test.conllu", "--report", "report.html")
    assert done.returncode == 0, done.stderr
    page = read(tmp_path / "report.html")
    assert "Reliability" not in page.titles
    assert "None." in page.text
    assert any("--train FILE" in text for text in page.text)


def test_a_model_of_spans_and_order_two(run, corpora, tmp_path):
    run("train", "hmm", corpora / "ner.conll", "--order", "2", "-o", "ner.tagloom", "-q")
    done = run("eval", "ner.tagloom", corpora / "ner.conll", "--report", "report.html")
    assert done.returncode == 0, done.stderr
    text = "\n".join(read(tmp_path / "report.html").text)
    assert "Spans are read as conlleval reads them" in text
    assert "states shown" in text


def test_an_old_page_stays_if_there_is_a_mistake(run, model, corpora, tmp_path, is_mistake):
    (tmp_path / "report.html").write_text("old")
    done = run("eval", model, "nothing.conllu", "--report", "report.html")
    assert is_mistake(done, "nothing.conllu")
    assert (tmp_path / "report.html").read_text() == "old"
    done = run("eval", model, corpora / "test.conllu", "--report", "no/such/folder.html")
    assert is_mistake(done, "No such file or directory")


def test_pictures():
    svg = confusion_svg(["<A>", "B"], [[12345, 1], [0, 2_000_000]])
    page = Page(svg)
    assert [t for t in page.text if t in ("12k", "1", "2.0M")] == ["12k", "1", "2.0M"]
    assert "gold <A>, predicted B: 1 (0.0%)" in page.text
    assert page.tags["rect"] == 4
    svg = reliability_svg(reliability([0.95, 0.2], [True, False]))
    assert Page(svg).tags["circle"] == 2
    assert Page(reliability_svg(reliability([], []))).tags.get("circle") is None
