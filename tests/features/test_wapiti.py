"""Wapiti pattern files: what they give, worked out by hand from Wapiti's manual.

The rules were also tried on Wapiti 1.5.0 itself: on 160 random pattern files, with words that are
not ASCII among the data, the observations in the model that it trains are our attributes.
"""

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import SentenceError, TemplateError
from tagloom.features import WapitiTemplates, from_dict, make, read_wapiti

# The table of the manual: the pattern "u:%x[-1,0]/%x[+1,2]" at the second row gives "u:a1/c3".
MANUAL = tl.Sentence(["a1", "a2", "a3"], columns={"b": ["b1", "b2", "b3"], "c": ["c1", "c2", "c3"]})


def value(command, word, **options):
    """What a command stands for at the only word of a sentence."""
    (attributes,) = WapitiTemplates([f"u:{command}"], **options).extract([word])
    (name,) = attributes
    return name.removeprefix("u:")


def test_the_example_of_the_manual():
    found = WapitiTemplates(["u:%x[-1,0]/%x[+1,2]"]).extract(MANUAL)
    assert [list(token) for token in found] == [["u:_x-1/c2"], ["u:a1/c3"], ["u:a2/_x+1"]]


@pytest.mark.parametrize(
    ("pattern", "word", "found"),
    [
        # the two examples of the manual
        ("^.?.?.?.?", "toves", "tove"),
        ("^.?.?.?.?", "the", "the"),
        (r"^\u\u*$", "NATO", "NATO"),
        (r"^\u\u*$", "Nato", None),
        # the last two letters at most; the first match from the left
        ("..?$", "toves", "es"),
        ("..?$", "a", "a"),
        ("o.", "toves tome", "ov"),
        # classes and their complements
        (r"\d", "a1b2", "1"),
        (r"\D", "1a2", "a"),
        (r"\a\a", "1ab", "ab"),
        (r"\A", "ab3", "3"),
        (r"\w\w*$", "x-1y", "1y"),
        (r"\W", "x-y", "-"),
        (r"\l", "AbC", "b"),
        (r"\L", "aBc", "B"),
        (r"\U\u", "aBc", "aB"),
        (r"\p\p*$", "a!?", "!?"),
        (r"\P\p", "(a)", "a)"),
        (r"\S", "x", "x"),
        (r"\s", "x", None),
        # a star takes as little as will do, a question mark one if it can
        ("a*", "aaa", ""),
        ("a*$", "aaa", "aaa"),
        ("ba*", "baa", "b"),
        ("ba?", "baa", "ba"),
        ("e.*e", "beetree", "ee"),
        # escapes, and anchors that are not at the ends
        (r"\.", "1.5", "."),
        (r"\*", "a*b", "*"),
        (r"\\", "a\\b", "\\"),
        ("a^", "a^b", "a^"),
        ("$a", "$a", "$a"),
        ("^", "abc", ""),
        ("$", "abc", ""),
        ("^$", "abc", None),
    ],
)
def test_regular_expressions(pattern, word, found):
    assert value(f'%t[0,0,"{pattern}"]', word) == ("false" if found is None else "true")
    assert value(f'%m[0,0,"{pattern}"]', word) == (found or "")
    assert value(f'%M[0,0,"{pattern}"]', word) == (found or "").lower()


def test_capital_commands_give_lower_case():
    assert value("%X[0,0]", "NATO") == "nato"
    assert value(r'%M[0,0,"^\u*$"]', "NATO") == "nato"
    assert value(r'%T[0,0,"^\u*$"]', "NATO") == "true"


def test_bytes_as_wapiti_has_them_or_characters():
    assert value("%X[0,0]", "ÉTÉ") == "ÉtÉ"
    assert value("%X[0,0]", "ÉTÉ", unicode=True) == "été"
    assert value('%m[0,0,"...$"]', "café") == "fé"  # é is two bytes
    assert value('%m[0,0,"..$"]', "日") == r"\x97\xa5"  # the last two of its three
    assert value('%m[0,0,"...$"]', "café", unicode=True) == "afé"
    assert value(r'%t[0,0,"^\u"]', "École") == "false"
    assert value(r'%t[0,0,"^\u"]', "École", unicode=True) == "true"
    assert value(r'%t[0,0,"^\a\a*$"]', "naïve", unicode=True) == "true"


def test_expressions_are_tried_on_what_stands_outside_too():
    patterns = [r'u:%t[-1,0,"\d"]', r'u:%m[+1,0,"x."]', "u:%X[-1,0]", "u:%x[-6,0]/%x[7,0]"]
    found = WapitiTemplates(patterns).extract(["Ab"])
    assert [list(token) for token in found] == [["u:true", "u:x+", "u:_x-1", "u:_x-#/_x+#"]]


def test_absolute_and_indirect_places():
    sentence = tl.Sentence(["a", "b", "c"], columns={"head": ["2", "-1", "0"]})
    patterns = ["u:1=%x[@1,0]", "u:-1=%x[@-1,0]", "u:5=%x[@5,0]", "u:-4=%X[@-4,0]", "u:h=%x[*1,0]"]
    first = ["u:1=a", "u:-1=c", "u:5=_x+2", "u:-4=_x-1"]
    assert [list(token) for token in WapitiTemplates(patterns).extract(sentence)] == [
        [*first, "u:h=c"],
        [*first, "u:h=a"],
        [*first, "u:h=c"],
    ]
    bad = tl.Sentence(["a"], columns={"head": ["x"]})
    with raises(SentenceError, where="sentence 0, token 0", found="'x'", expected="an integer"):
        WapitiTemplates(["u:%x[*1,0]"]).extract(bad)


def test_blanks_inside_a_command():
    tight = ["u:%x[0,0]", "u:%X[-1,0]", r'u:%t[0,0,"^\u"]', "u:%x[@1,0]"]
    loose = ["u:%x[ 0,0]", "u:%X[ -1, 0 ]", r'u:%t[ 0 , 0 , "^\u" ]', "u:%x[@ 1,0]"]
    sentence = ["Mome", "raths"]
    assert WapitiTemplates(loose).extract(sentence) == WapitiTemplates(tight).extract(sentence)


def test_messages_quote_the_pattern_as_written():
    with raises(TemplateError, where="'U:%y[ 0,0]'"):
        WapitiTemplates(["U:%y[ 0,0]"])


def test_three_kinds_of_patterns_comments_and_capitals():
    lines = ["# all", "U:%x[0,0]  # word", "b", "", "B2:%x[0,0]", "*:%x[-1,0]", "*"]
    patterns = WapitiTemplates(lines)
    assert patterns.templates == ["u:%x[0,0]", "b2:%x[0,0]", "*:%x[-1,0]", "*:%x[-1,0]", "*"]
    assert patterns.transitions
    assert patterns.extract(["a"]) == [{"u:a": 1.0, "*:_x-1": 1.0, "*": 1.0}]
    assert patterns.extract(["a"], edges=True) == [{"b2:a": 1.0, "*:_x-1": 1.0}]
    assert not WapitiTemplates(["u:%x[0,0]"]).transitions
    assert WapitiTemplates(["*"]).transitions


@pytest.mark.parametrize(
    ("line", "where", "expected", "found"),
    [
        ("x:%x[0,0]", "line 2", "a pattern that starts with u", "'x:%x[0,0]'"),
        ("u:%y[0,0]", "line 2, 'u:%y[0,0]', character 3", "%x[off,col]", "'%y[0,0]'"),
        ("u:%x[0]", "character 3", "%x[off,col]", "'%x[0]'"),
        ("u:%x[0,0", "character 9", "']'", "''"),
        ("u:%t[0,0]", "character 9", "a regular expression in double quotes", "']'"),
        ('u:%t[0,0,"a]', "character 9", "a regular expression in double quotes", ',"a]'),
        ('u:%t[0,0,"a**"]', "line 2", "'*' has nothing to repeat", ',"a**"]'),
        ('u:%t[0,0,"?"]', "line 2", "'?' has nothing to repeat", ',"?"]'),
    ],
)
def test_a_malformed_pattern(line, where, expected, found, tmp_path):
    with raises(TemplateError, where=where, expected=expected, found=found):
        WapitiTemplates(["u:%x[0,0]", line])
    path = tmp_path / "broken.pat"
    path.write_text(f"u:%x[0,0]\n{line}\n")
    with raises(TemplateError, where="broken.pat:2"):
        read_wapiti(path)


@pytest.mark.parametrize("first", ["u:%x[0,0]", "U:%X[0,0]", '*:%t[0,0,"a"]', "U:%x[@1,0]"])
def test_make_recognises_a_wapiti_file_by_its_commands(tmp_path, first):
    path = tmp_path / "pattern"
    path.write_text(f"# words\n{first}\nb\n")
    assert isinstance(make(path), WapitiTemplates)


@pytest.mark.parametrize("unicode", [False, True])
def test_saved_and_loaded(unicode):
    patterns = WapitiTemplates(["u:%X[-1,0]", r'u:%m[1,0,"^\u"]', "b"], unicode=unicode)
    again = from_dict(patterns.to_dict())
    assert isinstance(again, WapitiTemplates)
    assert again == patterns
    assert again.extract(["É", "É"]) == patterns.extract(["É", "É"])
