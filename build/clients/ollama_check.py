"""Checks the server with Ollama's Python package."""

import json

import ollama

from check import QUESTION, SCHEMA, URL, run, same, true

client = ollama.Client(host=URL)
MESSAGES = [{"role": "user", "content": QUESTION}]
OPTIONS = {"temperature": 0, "num_predict": 16}


def models():
    name = client.list().models[0].model
    show = client.show(name)
    true("capabilities", "completion" in show.capabilities)
    true("context", any(k.endswith(".context_length") for k in show.modelinfo))
    same("running", client.ps().models[0].model, name)


def chat():
    whole = client.chat(model="any", messages=MESSAGES, options=OPTIONS)
    true("done", whole.done and whole.done_reason == "length")
    true("counters", whole.eval_count == 16 and whole.total_duration > 0)
    parts = list(client.chat(model="any", messages=MESSAGES, options=OPTIONS, stream=True))
    same("streamed", "".join(p.message.content or "" for p in parts), whole.message.content)
    same("last", parts[-1].eval_count, 16)


def generate():
    whole = client.generate(model="any", prompt=QUESTION, options=OPTIONS)
    text = "".join(p.response for p in client.generate(model="any", prompt=QUESTION, options=OPTIONS, stream=True))
    same("streamed", text, whole.response)
    true("raw", client.generate(model="any", prompt="One, two,", raw=True, options=OPTIONS).eval_count > 0)


def forms():
    r = client.chat(model="any", messages=MESSAGES, format=SCHEMA, options={"temperature": 0})
    true("schema", "city" in json.loads(r.message.content))


def tools():
    r = client.chat(
        model="any", options=OPTIONS, tools=[{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        messages=MESSAGES + [
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Oslo"}}}]},
            {"role": "tool", "tool_name": "weather", "content": "rain"},
        ],
    )
    true("answer to a result", r.eval_count > 0)


def embed():
    r = client.embed(model="any", input=["The sea.", "A lake."])
    same("rows", len(r.embeddings), 2)


def errors():
    for change in ({"messages": [{"role": "user", "content": "hello " * 5000}]}, {"options": {"temperature": 9}}):
        try:
            client.chat(**{"model": "any", "messages": MESSAGES, **change})
        except ollama.ResponseError as e:
            same("status", e.status_code, 400)
            true("text", len(e.error) > 0)
        else:
            raise SystemExit(f"no error with {change}")


run("ollama for Python", [models, chat, generate, forms, tools, embed, errors])
