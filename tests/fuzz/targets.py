"""What is fuzzed: every reader of files that come from elsewhere, each with seeds that it accepts.

A target takes bytes and either returns or raises a `TagloomError` whose message can be shown. Any
other exception, a crash, a hang or memory beyond a limit is a fault. `fuzz.py` searches for faults
with coverage feedback; `test_cases.py` runs the seeds, and inputs that once were faults.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import gzip
import importlib.util
import io
import json
import random
import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import tagloom as tl
from role_sentences import grammar
from tagloom import features, interop, storage
from tagloom.errors import TagloomError
from tagloom.scores.vectors import Vectors, read_vectors
from tagloom.sequences import FORMATS, read_frames, write_frames
from tagloom.sequences.label_names import label_names_of

# Formats of optional packages are read where these are installed.
_NEEDED = {"docbin": "spacy", "parquet": "pyarrow", "arrow": "pyarrow"}
MISSING = {
    format: package
    for format, package in _NEEDED.items()
    if importlib.util.find_spec(package) is None
}
FORMATS = {name: text for name, text in FORMATS.items() if name not in MISSING}
CASES = Path(__file__).parent / "cases"
SENTENCES = [["They", "can", "fish"], ["can", "of", "fish", "."], ["😀", "ﬁ"]]
LABELS = [["N", "V", "V"], ["N", "P", "N", "X"], ["X", "X"]]
SPANS = [["O", "O", "B-A"], ["B-A", "I-A", "I-A", "O"], ["O", "B-B"]]

Target = Callable[[bytes], None]


def refusing(read: Target) -> Target:
    """Let a target refuse its input by an error of tagloom with a short, printable message."""

    @functools.wraps(read)
    def target(data: bytes) -> None:
        try:
            read(data)
        except TagloomError as error:
            message = str(error)
            assert message.isprintable(), repr(message)
            assert len(message) < 2000, message

    return target


# Model files


DICTS = [[{"word": word, "length": 2.0} for word in x] for x in SENTENCES]
HASHED = {"hash_bits": 8, "tags": ["upos"], "max_iterations": 2, "n_threads": 1}
COLUMNS = {
    "upos": ["PRON", "VERB", "NOUN"],
    "head": ["2", "0", "2"],
    "deprel": ["nsubj", "root", "obj"],
}
TREES = [tl.Sentence(["They", "can", "fish"], columns=COLUMNS)] * 2
FRAMES = grammar(4, 0)
RAW = b"".join(
    b"1\tThey\t_\tX\t_\t_\t_\t_\t_\t_\n"
    b"2\tfish\t_\tX\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    b"3\t.\t_\tX\t_\t_\t_\t_\t_\t_\n\n"
    for _ in range(4)
)
RNG = np.random.default_rng(0)
SERIES = [RNG.normal(size=(6, 2)), RNG.normal(size=(4, 2))]
# Written by model_files.py: kinds that are trained with an extra, and files of earlier versions.
WRITTEN = Path(__file__).parents[1] / "models" / "files"


def limited(data: bytes) -> bytes:
    """Add the limit of candidate labels that models with more than a hundred labels have."""
    header, arrays = storage.read_bytes(data)
    assert "prune" in header
    return storage.to_bytes({**header, "prune_most": 2}, arrays)


@functools.cache
def model_seeds() -> list[bytes]:
    """Return small models of every kind."""
    templates = ["word", "suffix(2)", "word[-1] & word"]
    taggers = [
        tl.CRF(templates, max_iterations=3).fit(SENTENCES, LABELS),
        tl.CRF(templates, order=2, max_iterations=3).fit(SENTENCES, SPANS),
        tl.CRF(["word", "edge(word)"], max_iterations=3).fit(SENTENCES, LABELS),
        tl.StructuredPerceptron(templates).fit(SENTENCES, LABELS),
        tl.MEMM(templates, max_iterations=3).fit(SENTENCES, LABELS),
        tl.TokenClassifier(templates).fit(SENTENCES, LABELS),
        tl.HMM().fit(SENTENCES, LABELS),
        tl.HMM(n_states=2, max_iterations=3).fit(SENTENCES),
        tl.MostFrequentTag().fit(SENTENCES, LABELS),
        tl.NGramModel(order=3).fit(SENTENCES),
        tl.StructuredSVM(templates, max_iterations=3).fit(SENTENCES, LABELS),
        tl.SemiCRF(templates, max_iterations=3).fit(SENTENCES, SPANS),
        tl.HMM(n_states=2, emissions=tl.emissions.Gaussian(), max_iterations=3).fit(SERIES),
        tl.LinearGaussian(n_states=2, max_iterations=2).fit(SERIES),
        *(tl.DependencyParser(labelling=x, **HASHED).fit(TREES) for x in ("second", "joint")),
        tl.RoleLabeller(**HASHED).fit(FRAMES),
        tl.Tokenizer().fit(tl.read(io.BytesIO(RAW), format="conllu")),
        tl.CRF(templates[:1], max_iterations=3).fit(SENTENCES, SPANS).with_tokenizer("rules"),
    ]
    trigrams = tl.CRF(templates, order=2, states="seen", prune=0.01, max_iterations=3)
    pruned = [trigrams, tl.CRF(templates, prune=0.1, max_iterations=3)]
    return [
        *(model.to_bytes() for model in taggers),
        *(limited(model.fit(SENTENCES, SPANS).to_bytes()) for model in pruned),
        *(path.read_bytes() for path in sorted(WRITTEN.glob("*.tagloom"))),
    ]


@np.errstate(all="ignore")  # numbers of a damaged file may overflow
def use_model(data: bytes) -> None:
    """Load a model file; what loads can be used."""
    loaded = tl.load(data)
    loaded.describe()
    if isinstance(loaded, tl.Tagger):
        X = SENTENCES
        for X in (SENTENCES, SERIES, DICTS):
            try:
                loaded.predict(X)
                break
            except TagloomError:  # a model of other input, or a damaged one
                continue
        loaded.predict_marginals(X[:1])
    elif isinstance(loaded, tl.DependencyParser):
        loaded.predict(TREES)
    elif isinstance(loaded, tl.RoleLabeller):
        loaded.predict(FRAMES)
    elif isinstance(loaded, tl.LinearGaussian):
        loaded.smooth(SERIES)
    elif isinstance(loaded, tl.NGramModel):
        loaded.score(SENTENCES)
    elif isinstance(loaded, tl.Tokenizer):
        loaded.split("They can't fish. Why?")


model = refusing(use_model)


def forge(data: bytes, rng: random.Random, times: int = 1) -> bytes:
    """Change the description or the arrays of a model file, and renew all checksums.

    So the fuzzer reaches the checks behind the checksums.
    """
    try:
        header, arrays = storage.read_bytes(data, verify=False)
        for _ in range(times):
            header, arrays = change_parts(header, arrays, rng)
        return storage.to_bytes(header, arrays)
    except (TagloomError, ValueError, TypeError):
        return data


Parts = tuple[dict, dict]


def change_parts(header: dict, arrays: dict, rng: random.Random) -> Parts:
    """Return a changed copy of the parts of a model file."""
    if rng.random() < 0.5 and arrays:
        name = rng.choice([*arrays])
        array = arrays[name].copy()
        if array.nbytes:
            flat = array.reshape(-1).view("u1")
            for _ in range(rng.choice([1, 1, 4])):
                at = rng.randrange(len(flat))
                flat[at] = rng.choice([0, 1, 127, 128, 255, flat[at] ^ (1 << rng.randrange(8))])
            if array.dtype == bool:
                flat &= 1
        if rng.random() < 0.3:
            array = array.reshape(-1)[: rng.randrange(array.size + 1)]
        return header, {**arrays, name: array}
    return _change(header, rng), arrays  # type: ignore[return-value]


VALUES = [None, True, 0, 1, -1, 2**31, 2**63, 1e308, "", "x", [], {}, [[]], "word", 0.5]


def _change(value: object, rng: random.Random) -> object:
    """Replace one value somewhere in plain data, or drop or repeat an entry."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice([*value])
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {k: _change(v, rng) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:i] + value[i + 1 :] if rng.random() < 0.5 else [*value, value[i]]
        return [_change(v, rng) if j == i else v for j, v in enumerate(value)]
    return rng.choice(VALUES)


# Corpora


def corpus_seeds(name: str) -> list[bytes]:
    """Return the sentences in a format, once for each kind of labels that it takes."""
    if name == "brat":
        return [b"T1\tPER 0 4\tThey\n", b"T2\tLOC 5 8;9 13\tcan fish\n"]
    if name == "text":
        return [b"They can fish\ncan of fish .\n"]
    seeds = []
    for labels in (LABELS, SPANS):
        corpus = tl.Corpus(
            [tl.Sentence(x, labels=y) for x, y in zip(SENTENCES, labels, strict=True)]
        )
        out = io.BytesIO()
        try:
            tl.write(corpus, out, format=name)
        except TagloomError:  # a format of spans has no place for other labels
            continue
        seeds.append(out.getvalue())
    assert seeds, name
    return seeds


def corpus(name: str | None) -> Target:
    """Read a corpus in a format, or with a guessed one; what is read can be written."""

    @refusing
    def read(data: bytes) -> None:
        corpus = tl.read(io.BytesIO(data), format=name)
        for sentence in corpus:
            len(sentence)
        out = io.BytesIO()
        tl.write(corpus, out)

    return read


@refusing
def compressed(data: bytes) -> None:
    """Read a compressed corpus."""
    for _ in tl.stream(io.BytesIO(data), format="conll"):
        pass


# Templates, language models, models of other tools, raw text


@refusing
def templates(data: bytes) -> None:
    """Parse templates of our own language, and extract with them."""
    text = data.decode("utf-8", "replace")
    features.Templates(text.split(";")).extract(SENTENCES[0])


@refusing
def crfpp(data: bytes) -> None:
    """Parse a CRF++ template file."""
    features.CRFppTemplates(data.decode("utf-8", "replace").splitlines())


@refusing
def wapiti(data: bytes) -> None:
    """Parse a Wapiti pattern file."""
    features.WapitiTemplates(data.decode("utf-8", "replace").splitlines())


@refusing
def arpa(data: bytes) -> None:
    """Read an ARPA file and score with it."""
    model = tl.NGramModel.from_arpa(io.BytesIO(data))
    model.score(SENTENCES)


@functools.cache
def arpa_seeds() -> list[bytes]:
    """Return ARPA files of orders 1 and 3."""
    seeds = []
    for order in (1, 3):
        out = io.BytesIO()
        tl.NGramModel(order=order).fit(SENTENCES).to_arpa(out)
        seeds.append(out.getvalue())
    return seeds


@refusing
def foreign(data: bytes) -> None:
    """Load a model of CRFsuite, CRF++ or Wapiti; what loads can be used."""
    tagger = interop.read_foreign(data)
    attributes = [[["word=They", "bias"], ["word=can"]]]
    tagger.predict(attributes if data[:4] == b"lCRF" else SENTENCES[:1])


@functools.cache
def foreign_seeds() -> list[bytes]:
    """Return a model in the format of each tool."""
    dicts = [[{"word": word, "bias": 1.0} for word in x] for x in SENTENCES]
    tagger = tl.CRF(max_iterations=3, boundaries=False, constraints=None).fit(dicts, LABELS)
    crfsuite = interop.to_crfsuite(tagger)
    wapiti = b"#mdl#2#1\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#1\n1:N,\n#qrk#1\n3:u:a,\n0=0x1p+0\n"
    crfpp = b"version: 100\ncost-factor: 1\nmaxid: 2\nxsize: 1\n\nN\nV\n\nU:%x[0,0]\n\n"
    crfpp += b"0 U:a\n\n0.5\n-1\n"
    return [crfsuite, wapiti, crfpp]


@functools.cache
def folder() -> Path:
    """Return a folder for readers of files that take only names."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    kept = tempfile.TemporaryDirectory(prefix="tagloom-fuzz-", dir=memory)
    atexit.register(kept.cleanup)
    return Path(kept.name)


@refusing
def vectors(data: bytes) -> None:
    """Read word vectors of any kind."""
    path = folder() / "vectors"
    path.write_bytes(data)
    read_vectors(path).rows(["They", "fish"])


@functools.cache
def vector_seeds() -> list[bytes]:
    """Return vectors as text with and without a first line, binary, of fastText, and our own."""
    text = b"they 0.5 2\nNew York 1 0\n"
    rows = np.array([[0.5, 2], [1, 0]], "<f4")
    words = b"".join(
        w + b" " + row.tobytes() for w, row in zip((b"they", b"can"), rows, strict=True)
    )
    head = struct.pack("<ii12id", 793712314, 12, 2, 5, 5, 1, 5, 1, 2, 2, 3, 1, 4, 100, 1e-4)
    entries = b"".join(w + b"\0" + struct.pack("<qb", 3, 0) for w in (b"</s>", b"they"))
    fasttext = head + struct.pack("<iiiqq", 2, 2, 0, 99, -1) + entries
    fasttext += struct.pack("<?qq", False, 5, 2) + np.ones((5, 2), "<f4").tobytes()
    own = folder() / "own"
    Vectors(["they", "fish"], rows).save(own)
    return [text, b"2 2\n" + text, b"2 2\n" + words, fasttext, own.read_bytes()]


@refusing
def lists(data: bytes) -> None:
    """Read names of labels, a lexicon or clusters; the first byte chooses."""
    path = folder() / "list"
    path.write_bytes(data[1:])
    kind = (data[0] if data else 0) % 3
    if kind == 0:
        label_names_of(path, "ner_tags")
    elif kind == 1:
        features.Lexicon(path).match(SENTENCES[0])
    else:
        features.Templates(["cluster(x)"], clusters={"x": path}).extract(SENTENCES[0])


def list_seeds() -> list[bytes]:
    """Return names of labels in several forms, a lexicon, and clusters."""
    names = [b'["O", "B-A"]', b'{"id2label": {"0": "O", "1": "B-A"}}']
    names += [b'{"features": {"ner_tags": {"feature": {"names": ["O"], "_type": "ClassLabel"}}}}']
    seeds = [b"\0" + text for text in names]
    return [*seeds, b"\1New York\tUS\nfish\n", b"\x020110\tfish\t3\n01\tcan\t1\n", b"\2fish a\n"]


@refusing
def frames(data: bytes) -> None:
    """Read sentences with frames; what is read can be written."""
    path = folder() / "frames"
    path.write_bytes(data)
    sentences = read_frames(path)
    write_frames(sentences, folder() / "written")
    assert read_frames(folder() / "written") == sentences


@functools.cache
def frame_seeds() -> list[bytes]:
    """Return a file with frames."""
    write_frames(FRAMES, folder() / "seed")
    return [(folder() / "seed").read_bytes()]


PARTS = ("config.json", "tokenizer.json", "model.safetensors")


@functools.cache
def _transformer() -> dict[str, bytes]:
    """Return the files of a small transformer."""
    sizes = {"vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1, "type_vocab_size": 2}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 4, "max_position_embeddings": 70}
    config = {"model_type": "bert", "layer_norm_eps": 1e-12, "hidden_act": "gelu", **sizes}
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "[CLS]", "[SEP]", "they", "##s"])}
    pieces = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocabulary}
    pieces |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    whole = {"version": "1.0", "model": pieces, "normalizer": {"type": "Lowercase"}}
    names = ("word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight")
    shapes = {f"embeddings.{name}": [n, 4] for name, n in zip(names, (5, 70, 2), strict=True)}
    shapes |= {f"embeddings.LayerNorm.{name}": [4] for name in ("weight", "bias")}
    parts = ("attention.self.query", "attention.self.key", "attention.self.value")
    parts += ("attention.output.dense", "intermediate.dense", "output.dense")
    parts += ("attention.output.LayerNorm", "output.LayerNorm")
    for part in parts:
        shapes[f"encoder.layer.0.{part}.weight"] = [4] if "Norm" in part else [4, 4]
        shapes[f"encoder.layer.0.{part}.bias"] = [4]
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    model = len(text).to_bytes(8, "little") + text + bytes(end)
    files = (json.dumps(config).encode(), json.dumps(whole).encode(), model)
    return dict(zip(PARTS, files, strict=True))


@refusing
def transformer(data: bytes) -> None:
    """Read the folder of a transformer; the first byte chooses the file to replace."""
    from tagloom.neural.transformers import read_transformer

    place = folder() / "transformer"
    if not place.exists():
        place.mkdir()
        for name, whole in _transformer().items():
            (place / name).write_bytes(whole)
    name = PARTS[(data[0] if data else 0) % len(PARTS)]
    (place / name).write_bytes(data[1:])
    try:
        read_transformer(place, 3)
    finally:
        (place / name).write_bytes(_transformer()[name])


@refusing
def raw_text(data: bytes) -> None:
    """Split raw text: every token slices back from the text."""
    text = data.decode("utf-8", "replace")
    for preset in ("rules", "whitespace", "characters"):
        tokenizer = tl.Tokenizer(preset)
        tokens = [token for sentence in tokenizer.split(text) for token in sentence.tokens]
        assert [text[start:end] for start, end in tokenizer.offsets(text)] == tokens


# Bodies of requests to the server

BODIES = [
    (b"/v1/tag", b"application/json", b""),
    (b"/v1/tag", b"application/json", b"gzip"),
    (b"/v1/tag", b"application/x-ndjson", b""),
    (b"/v1/tag", b"text/x-conllu", b""),
    (b"/v1/explain", b"application/json", b""),
]


@functools.cache
def _server() -> tuple[Callable, asyncio.AbstractEventLoop]:
    from tagloom.serve import Metrics, Registry, Served, Settings, make_app

    tagger = tl.CRF(["word", "suffix(2)"], max_iterations=3).fit(SENTENCES, SPANS)
    registry = Registry(["spans"])
    registry.put(Served("spans", "1", tagger))
    settings = Settings(max_body=1 << 16, max_tokens=2_000)
    return make_app(registry, settings, Metrics(["spans"])), asyncio.new_event_loop()


def body(data: bytes) -> None:
    """Answer a request with any body; its first byte chooses the route. Never 500."""
    path, kind, coding = BODIES[(data[0] if data else 0) % len(BODIES)]
    headers = [(b"host", b"127.0.0.1"), (b"content-type", kind)]
    headers += [(b"content-encoding", coding)] * bool(coding)
    scope = {"type": "http", "method": "POST", "path": path.decode(), "raw_path": path}
    scope |= {"query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80)}
    sent = []

    messages = [{"type": "http.request", "body": data[1:], "more_body": False}]

    async def receive() -> dict:
        if not messages:
            await asyncio.Event().wait()  # the client neither sends more nor leaves
        return messages.pop()

    async def send(message: dict) -> None:
        sent.append(message)

    app, loop = _server()
    loop.run_until_complete(app(scope, receive, send))
    assert sent[0]["status"] < 500, sent


def body_seeds() -> list[bytes]:
    """Return a body for every route."""
    plain = b'{"sentences":[["They","can"]],"probs":"all","nbest":2,"known":[[null,["O","B-A"]]]}'
    text = b'{"texts":["They can fish. Why?"],"spans":true,"probs":"top"}'
    bodies = [plain, gzip.compress(text, mtime=0), b'["They","can"]\n{"tokens":["fish"]}\n']
    bodies += [
        b"1\tThey\t_\t_\t_\t_\t_\t_\t_\t_\n\n",
        b'{"sentence":["They","can"],"positions":[1]}',
    ]
    return [bytes([i]) + x for i, x in enumerate(bodies)] + [b"\x00" + text]


TARGETS: dict[str, tuple[Target, Callable[[], Iterable[bytes]]]] = {
    "model": (model, model_seeds),
    "foreign": (foreign, foreign_seeds),
    "arpa": (arpa, arpa_seeds),
    "templates": (
        templates,
        lambda: [b"word[-1..1]; suffix(1..3); word[-1] & shape", b"edge(word)"],
    ),
    "crfpp": (crfpp, lambda: [b"U00:%x[-1,0]/%x[0,1]\nB\n# comment\n", b"B01:%x[0,0]\n"]),
    "wapiti": (wapiti, lambda: [b'*:%x[ 0,0]\nu:%X[-1,0]\nb:%m[0,0,"^.?.?"]\n', b"*\n"]),
    "vectors": (vectors, vector_seeds),
    "lists": (lists, list_seeds),
    "frames": (frames, frame_seeds),
    **(
        {
            "transformer": (
                transformer,
                lambda: [bytes([i]) + x for i, x in enumerate(_transformer().values())],
            )
        }
        if all(map(importlib.util.find_spec, ("torch", "tokenizers")))
        else {}
    ),
    "raw_text": (raw_text, lambda: ["Dr. Who can't.  Why? (e.g. 3.5 km)\n\n😀".encode()]),
    "http": (body, body_seeds),
    "gzip": (compressed, lambda: [gzip.compress(seed, mtime=0) for seed in corpus_seeds("conll")]),
    "guess": (corpus(None), lambda: [s for name in FORMATS for s in corpus_seeds(name)]),
    **{f"corpus-{name}": (corpus(name), functools.partial(corpus_seeds, name)) for name in FORMATS},
}


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Damage bytes without a fuzzing engine, in one of the ways in which files go wrong."""
    if not data:
        return rng.randbytes(rng.randrange(1, 9))
    at, n = rng.randrange(len(data)), rng.choice([1, 1, 2, 8, 64])
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + rng.randbytes(n) + data[at + n :]
    if kind == 3:
        return data[:at] + data[at + n :]
    if kind == 4:
        other = rng.randrange(len(data))
        return data[:at] + data[other : other + n] + data[at:]
    number = str(rng.choice([0, -1, 2**31, 2**32, 2**63, 10**30])).encode()
    return data[:at] + number + data[at + 1 :]
