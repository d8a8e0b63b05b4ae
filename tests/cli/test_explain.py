"""tagloom explain, as a process."""

import json

import tagloom as tl


def test_text_json_and_html_say_the_same(run, model, tmp_path):
    tagger = tl.load(model)
    sentences = [["They", "can", "fish", "."], ["<b>Please", "book", "&", "go"]]
    text = "".join(" ".join(tokens) + "\n" for tokens in sentences)
    expected = [tagger.explain(tokens) for tokens in sentences]
    done = run("explain", model, "--format", "text", "--top", "3", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "\n\n".join(e.to_text(3) + "\n" for e in expected)
    done = run("explain", model, "--format", "text", "--json", stdin=text)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        e.to_dict() for e in expected
    ]
    options = ["--format", "text", "--html", "-o", "why.html"]
    done = run("explain", model, *options, stdin=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert all(e.to_html() in page for e in expected)
    assert "<b>" not in page


def test_files_are_read_as_tag_reads_them(run, model, corpora):
    done = run("explain", model, corpora / "text.conll", "--top", "1")
    assert done.returncode == 0
    assert "text.conll: read as" in done.stderr
    assert done.stdout.startswith("token  label")


def test_mistakes(run, model, is_mistake):
    done = run("explain", model, "--html", "--json", stdin="a")
    assert is_mistake(done, "--html and --json exclude each other")
    assert is_mistake(run("explain", "none.tagloom", stdin="a"), "none.tagloom")
