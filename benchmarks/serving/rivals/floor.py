"""The floor of V1: Starlette, msgspec and uvicorn, without a model."""

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route


class Body(msgspec.Struct):
    sentences: list[list[str]]


DECODER, ENCODER = msgspec.json.Decoder(Body), msgspec.json.Encoder()


async def tag(request):
    body = DECODER.decode(await request.body())
    labels = [["NOUN"] * len(sentence) for sentence in body.sentences]
    data = ENCODER.encode({"model": "none", "version": "0", "labels": labels})
    return Response(data, media_type="application/json")


async def ready(request):
    return Response(b"{}")


app = Starlette(routes=[Route("/v1/tag", tag, methods=["POST"]), Route("/readyz", ready)])

if __name__ == "__main__":
    import sys

    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
