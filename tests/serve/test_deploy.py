"""The Dockerfile and the manifest name options that the command has."""

import json
import re
from pathlib import Path

import click
import pytest

from tagloom.cli.serve import command

ROOT = Path(__file__).parents[2]
MANIFEST = (ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def arguments_of_the_manifest():
    block = re.search(r"args:\n((?: +- .*\n)+)", MANIFEST)[1]
    return [line.strip().removeprefix("- ") for line in block.splitlines()]


def arguments_of_the_image():
    return json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])


@pytest.mark.parametrize("arguments", [arguments_of_the_manifest(), arguments_of_the_image()])
def test_every_option_exists_and_takes_its_value(arguments):
    assert arguments[0] == "serve"
    context = command.make_context("serve", arguments[1:])  # raises for what it does not know
    assert context.params["host"] == "0.0.0.0"
    assert context.params["port"] == 8080
    assert context.params["token_file"] or context.params["insecure"]


def test_an_unknown_option_would_be_noticed():
    with pytest.raises(click.UsageError):
        command.make_context("serve", [*arguments_of_the_manifest()[1:], "--max-threads=3"])


def test_the_manifest_sets_every_limit():
    given = {x.partition("=")[0] for x in arguments_of_the_manifest()}
    options = {opt for p in command.params if isinstance(p, click.Option) for opt in p.opts}
    assert options - given == {"--insecure", "--cors", "--help"} - ({"--help"} - options)


def test_the_grace_period_is_longer_than_the_drain():
    context = command.make_context("serve", arguments_of_the_manifest()[1:])
    grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", MANIFEST)[1])
    assert grace > context.params["drain_delay"] + context.params["timeout"]
    for path in re.findall(r"path: (/\w+)", MANIFEST):
        assert path in ("/readyz", "/healthz")


def test_the_page_about_serving_names_options_that_exist():
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    options = {opt for p in command.params if isinstance(p, click.Option) for opt in p.opts}
    assert set(re.findall(r"`(--[a-z-]+)", page)) <= options
