"""Checks the server with Anthropic's Python package."""

import json

import anthropic

from check import QUESTION, SCHEMA, URL, run, same, true

client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
# A white PNG of 2 by 2 pixels.
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAADklEQVR4nGP4DwYMEAoAU7oL9ZisIGcAAAAASUVORK5CYII="
MESSAGES = [{"role": "user", "content": QUESTION}]
TOOLS = [{"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA}]


def messages():
    r = client.messages.create(model="any", max_tokens=16, messages=MESSAGES, extra_body={"temperature": 0})
    same("type", r.content[0].type, "text")
    same("stop reason", r.stop_reason, "max_tokens")
    same("tokens", r.usage.output_tokens, 16)
    with client.messages.stream(model="any", max_tokens=16, messages=MESSAGES, extra_body={"temperature": 0}) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    same("streamed", text, r.content[0].text)
    same("final", final.content[0].text, text)
    same("final stop reason", final.stop_reason, "max_tokens")


def blocks():
    r = client.messages.create(
        model="any", max_tokens=8, system=[{"type": "text", "text": "You are a bird."}], stop_sequences=["\n"],
        messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
    )
    true("stop reason", r.stop_reason in ("max_tokens", "stop_sequence", "end_turn"))


def tools():
    ask = {"model": "any", "max_tokens": 200, "tools": TOOLS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
           "messages": [{"role": "user", "content": "Is it raining in Oslo?"}]}
    r = client.messages.create(**ask)
    same("stop reason", r.stop_reason, "tool_use")
    call = next(b for b in r.content if b.type == "tool_use")
    true("input", "city" in call.input)
    with client.messages.stream(**ask) as stream:
        final = stream.get_final_message()
    true("streamed input", "city" in next(b for b in final.content if b.type == "tool_use").input)
    r = client.messages.create(
        model="any", max_tokens=4, tools=TOOLS,
        messages=ask["messages"] + [
            {"role": "assistant", "content": [b.model_dump() for b in r.content]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "yes"}]},
        ],
    )
    true("answer to a result", r.usage.output_tokens > 0)


def forms():
    r = client.messages.create(
        model="any", max_tokens=200, messages=[{"role": "user", "content": "Where is the Eiffel tower?"}],
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    )
    true("schema", "city" in json.loads(r.content[0].text))


def count():
    n = client.messages.count_tokens(model="any", messages=MESSAGES).input_tokens
    r = client.messages.create(model="any", max_tokens=1, messages=MESSAGES)
    same("count", n, r.usage.input_tokens + r.usage.cache_read_input_tokens)


def errors():
    wrong = "invalid_request_error"
    for change, text, kind in (
        ({"messages": [{"role": "user", "content": "hello " * 5000}]}, "prompt is too long", wrong),
        ({"extra_body": {"temperature": 9}}, "temperature", wrong),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}]}]}, "reads text only", wrong),
    ):
        try:
            client.messages.create(**{"model": "any", "max_tokens": 4, "messages": MESSAGES, **change})
        except anthropic.BadRequestError as e:
            same("type", e.body["error"]["type"], kind)
            true(text, text in e.body["error"]["message"])
        else:
            raise SystemExit(f"no error with {text}")


run("anthropic for Python", [messages, blocks, tools, forms, count, errors])
