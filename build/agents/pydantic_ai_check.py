"""pydantic-ai: a tool and a typed answer, with each of its models and output modes."""
import os

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

url = os.environ["GODWIT_URL"]


class Weather(BaseModel):
    city: str
    degrees: int


def check(model, question, output):
    calls = []
    agent = Agent(model, output_type=output)

    @agent.tool_plain
    def weather(city: str) -> str:
        calls.append(city)
        return "21 degrees"

    result = agent.run_sync(question).output
    assert result == Weather(city="Oslo", degrees=21), result
    assert calls == ["Oslo"], calls
    print(type(model).__name__, question, "passed")


openai = OpenAIProvider(base_url=url + "/v1", api_key="local")
for model in OpenAIChatModel("small", provider=openai), OpenAIResponsesModel("small", provider=openai):
    check(model, "ASK tool", Weather)
    check(model, "ASK native", NativeOutput(Weather))
    check(model, "ASK prompted", PromptedOutput(Weather))
# The library refuses NativeOutput for Claude models that it does not recognise.
model = AnthropicModel("small", provider=AnthropicProvider(base_url=url, api_key="local"))
check(model, "ASK tool", Weather)
check(model, "ASK prompted", PromptedOutput(Weather))
