"""instructor: the modes that do not restrict the answer."""
import os
from typing import Iterable

import instructor
from anthropic import Anthropic
from openai import OpenAI
from pydantic import BaseModel

url = os.environ["GODWIT_URL"]


class Person(BaseModel):
    name: str
    age: int


ada, bob = {"name": "Ada", "age": 36}, {"name": "Bob", "age": 5}


def check(create, mode, question, model, want):
    result = create(model="small", max_tokens=200, messages=[{"role": "user", "content": question}], response_model=model)
    result = result.model_dump() if model is Person else [one.model_dump() for one in result]
    assert result == want, result
    print(mode, question, "passed")


for mode, question, model, want in (
    ("ANTHROPIC_JSON", "ASK person", Person, ada),
    ("ANTHROPIC_JSON", "ASK fenced", Person, ada),
    ("ANTHROPIC_PARALLEL_TOOLS", "ASK people", Iterable[Person], [ada, bob]),
):
    client = instructor.from_anthropic(Anthropic(base_url=url, api_key="local"), mode=instructor.Mode[mode])
    check(client.messages.create, mode, question, model, want)
for mode, question, model, want in (
    ("MD_JSON", "ASK fenced", Person, ada),
    ("PARALLEL_TOOLS", "ASK people", Iterable[Person], [ada, bob]),
):
    client = instructor.from_openai(OpenAI(base_url=url + "/v1", api_key="local"), mode=instructor.Mode[mode])
    check(client.chat.completions.create, mode, question, model, want)
