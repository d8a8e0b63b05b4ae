"""The rival of V1: FastAPI, pydantic and sklearn-crfsuite, as their tutorials put them together.

python crfsuite.py PORT TRAIN.conll     # tokens and labels, one pair per line
"""

import sys
from pathlib import Path

import sklearn_crfsuite
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


def features(tokens):
    """Return the features of the tutorial of sklearn-crfsuite, for words without tags."""
    rows = []
    for i, word in enumerate(tokens):
        row = {
            "bias": 1.0,
            "word.lower()": word.lower(),
            "word[-3:]": word[-3:],
            "word[-2:]": word[-2:],
            "word.isupper()": word.isupper(),
            "word.istitle()": word.istitle(),
            "word.isdigit()": word.isdigit(),
        }
        for shift, name in ((-1, "-1"), (1, "+1")):
            if 0 <= i + shift < len(tokens):
                near = tokens[i + shift]
                row[f"{name}:word.lower()"] = near.lower()
                row[f"{name}:word.istitle()"] = near.istitle()
                row[f"{name}:word.isupper()"] = near.isupper()
            else:
                row["BOS" if shift < 0 else "EOS"] = True
        rows.append(row)
    return rows


def read(path):
    sentences = [[]]
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.strip():
            sentences[-1].append(line.split())
        elif sentences[-1]:
            sentences.append([])
    return [s for s in sentences if s]


class Body(BaseModel):
    sentences: list[list[str]]


app = FastAPI()
crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=50)


@app.post("/v1/tag")
async def tag(body: Body):
    predicted = crf.predict([features(x) for x in body.sentences])  # an array of arrays
    return {"labels": [list(labels) for labels in predicted]}


@app.get("/readyz")
async def ready():
    return {}


if __name__ == "__main__":
    data = read(sys.argv[2])
    crf.fit([features([w for w, _ in s]) for s in data], [[y for _, y in s] for s in data])
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
