"""openai-agents: a tool and a typed answer, over chat completions and responses."""
import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

calls = []


class Weather(BaseModel):
    city: str
    degrees: int


@function_tool
def weather(city: str) -> str:
    """Returns the weather of a city."""
    calls.append(city)
    return f"21 degrees in {city}"


async def main():
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=os.environ["GODWIT_URL"] + "/v1", api_key="local")
    for kind in OpenAIChatCompletionsModel, OpenAIResponsesModel:
        for question, want in ("ASK one", ["Oslo"]), ("ASK two", ["Oslo", "Rome"]):
            for stream in False, True:
                calls.clear()
                agent = Agent(name="a", instructions="You report the weather.", model=kind(model="small", openai_client=client),
                              tools=[weather], output_type=Weather)
                if stream:
                    run = Runner.run_streamed(agent, question)
                    async for _ in run.stream_events():
                        pass
                else:
                    run = await Runner.run(agent, question)
                assert run.final_output == Weather(city="Oslo", degrees=21), run.final_output
                assert calls == want, calls
                print(kind.__name__, question, "streamed" if stream else "whole", "passed")


asyncio.run(main())
