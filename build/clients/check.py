"""Shared code for the checks of the Python clients."""

import os
import time

URL = os.environ["GODWIT_URL"]
QUESTION = "Name three animals that live in the sea."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}


def same(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: {got!r}, want {want!r}")


def true(what, ok):
    if not ok:
        raise SystemExit(f"{what}: not so")


def run(name, checks):
    start = time.time()
    for check in checks:
        check()
    print(f"{name}: {len(checks)} checks in {time.time() - start:.1f} s")
