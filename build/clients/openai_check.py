"""Checks the server with OpenAI's Python package."""

import asyncio
import json

import openai

from check import QUESTION, SCHEMA, URL, run, same, true

client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
# A white PNG of 2 by 2 pixels.
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAADklEQVR4nGP4DwYMEAoAU7oL9ZisIGcAAAAASUVORK5CYII="
MESSAGES = [{"role": "user", "content": QUESTION}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]


def models():
    names = [m.id for m in client.models.list()]
    same("models", len(names), 1)
    same("model", client.models.retrieve(names[0]).id, names[0])
    try:
        client.models.retrieve("nope")
    except openai.NotFoundError as e:
        same("code", e.code, "model_not_found")
    else:
        raise SystemExit("a model that is not there was described")


def chat():
    r = client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=16, temperature=0)
    whole = r.choices[0].message.content
    same("finish", r.choices[0].finish_reason, "length")
    same("tokens", r.usage.completion_tokens, 16)
    text, usage, roles = "", None, []
    for chunk in client.chat.completions.create(
        model="any", messages=MESSAGES, max_tokens=16, temperature=0, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            roles += [choice.delta.role] if choice.delta.role else []
    same("streamed", text, whole)
    same("roles", roles, ["assistant"])
    same("usage", usage.completion_tokens, 16)


def paris():
    """The demo model's answer is right, and the same both times."""
    ask = {"model": "any", "temperature": 0, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    answers = [client.chat.completions.create(**ask).choices[0].message.content for _ in range(2)]
    true("Paris", "Paris" in answers[0])
    same("again", answers[1], answers[0])


def choices():
    r = client.chat.completions.create(
        model="any", messages=MESSAGES, max_tokens=4, n=2, seed=1, temperature=1, logprobs=True, top_logprobs=2
    )
    same("choices", [c.index for c in r.choices], [0, 1])
    same("logprobs", len(r.choices[1].logprobs.content), 4)
    same("alternatives", len(r.choices[0].logprobs.content[0].top_logprobs), 2)


def forms():
    r = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": [{"type": "text", "text": "Where is the Eiffel tower?"}]}],
        response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}},
    )
    true("schema", "city" in json.loads(r.choices[0].message.content))


def tools():
    r = client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Is it raining in Oslo?"}], tools=TOOLS,
        tool_choice="required", parallel_tool_calls=False,
    )
    same("finish", r.choices[0].finish_reason, "tool_calls")
    call = r.choices[0].message.tool_calls[0]
    same("function", call.function.name, "weather")
    true("arguments", "city" in json.loads(call.function.arguments))
    streamed = {}
    for chunk in client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Is it raining in Oslo?"}], tools=TOOLS, stream=True,
        tool_choice={"type": "function", "function": {"name": "weather"}},
    ):
        for d in chunk.choices[0].delta.tool_calls or []:
            streamed[d.index] = streamed.get(d.index, "") + (d.function.arguments or "")
    for arguments in streamed.values():
        json.loads(arguments)
    true("streamed calls", len(streamed) > 0)
    r = client.chat.completions.create(
        model="any", max_tokens=4, tools=TOOLS,
        messages=[
            {"role": "user", "content": "Is it raining in Oslo?"},
            {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
            {"role": "tool", "tool_call_id": call.id, "content": "yes"},
        ],
    )
    true("answer to a result", r.usage.prompt_tokens > 0)


def completions():
    r = client.completions.create(model="any", prompt=["One, two,", "Red,"], max_tokens=3, temperature=0, logprobs=1)
    same("choices", len(r.choices), 2)
    text = "".join(
        c.choices[0].text
        for c in client.completions.create(model="any", prompt="One, two,", max_tokens=3, temperature=0, stream=True)
    )
    same("streamed", text, r.choices[0].text)


def responses():
    r = client.responses.create(model="any", input=QUESTION, max_output_tokens=16, temperature=0)
    same("status", r.status, "incomplete")
    text, last = "", None
    with client.responses.stream(model="any", input=QUESTION, max_output_tokens=16, temperature=0) as events:
        for event in events:
            last = event.type
            if event.type == "response.output_text.delta":
                text += event.delta
    same("streamed", text, r.output_text)
    same("last event", last, "response.incomplete")
    r = client.responses.create(
        model="any", input="Is it raining in Oslo?", tool_choice="required",
        tools=[{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}],
    )
    true("call", any(o.type == "function_call" and "city" in json.loads(o.arguments) for o in r.output))


def embeddings():
    r = client.embeddings.create(model="any", input=["The sea.", "A lake."])  # the client requests base64 by default
    plain = client.embeddings.create(model="any", input="The sea.", encoding_format="float")
    same("rows", len(r.data), 2)
    true("bytes and numbers", max(abs(a - b) for a, b in zip(r.data[0].embedding, plain.data[0].embedding)) < 1e-7)


def errors():
    for change, kind, code, param in (
        ({"messages": [{"role": "user", "content": "hello " * 5000}]}, openai.BadRequestError, "context_length_exceeded", None),
        ({"temperature": 9}, openai.BadRequestError, None, "temperature"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
         openai.BadRequestError, None, "messages[0].content[0].image_url.url"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}]},
         openai.BadRequestError, "unsupported_content", None),
    ):
        for stream in (False, True):
            try:
                client.chat.completions.create(**{"model": "any", "messages": MESSAGES, "stream": stream, **change})
            except kind as e:
                same("code", e.code, code)
                same("param", e.param, param)
                true("body", "message" in e.body)
            else:
                raise SystemExit(f"no error with {change}")


def together():
    async def ask(many):
        one = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none")
        return await asyncio.gather(
            *(one.chat.completions.create(model="any", messages=MESSAGES, max_tokens=8, temperature=0) for _ in range(many))
        )

    answers = {r.choices[0].message.content for r in asyncio.run(ask(6))}
    same("answers of six clients", len(answers), 1)


def hang_up():
    stream = client.chat.completions.create(model="any", messages=MESSAGES, stream=True)
    next(iter(stream))
    stream.close()


run("openai for Python", [models, chat, paris, choices, forms, tools, completions, responses, embeddings, errors, together, hang_up])
