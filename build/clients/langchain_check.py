"""Checks the server with LangChain's chat model for OpenAI."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field

from check import QUESTION, URL, run, same, true

model = ChatOpenAI(model="any", base_url=URL + "/v1", api_key="none", temperature=0, max_tokens=64, max_retries=0)


class Place(BaseModel):
    city: str = Field(max_length=20)


@tool
def weather(city: str) -> str:
    """Tells the weather of a city."""
    return "rain"


def chat():
    whole = model.invoke([SystemMessage("You are a bird."), HumanMessage(QUESTION)])
    text = "".join(c.content for c in model.stream([SystemMessage("You are a bird."), HumanMessage(QUESTION)]))
    same("streamed", text, whole.content)
    true("usage", whole.usage_metadata["output_tokens"] > 0)


def forms():
    place = model.with_structured_output(Place, method="json_schema").invoke("Where is the Eiffel tower?")
    true("schema", len(place.city) <= 20)


def tools():
    answer = model.bind_tools([weather], tool_choice="weather", parallel_tool_calls=False).invoke("Is it raining in Oslo?")
    call = answer.tool_calls[0]
    same("function", call["name"], "weather")
    result = model.bind_tools([weather]).invoke(
        [HumanMessage("Is it raining in Oslo?"), AIMessage("", tool_calls=[call]), ToolMessage("yes", tool_call_id=call["id"])]
    )
    true("answer to a result", result.usage_metadata["output_tokens"] > 0)


def embeddings():
    e = OpenAIEmbeddings(model="any", base_url=URL + "/v1", api_key="none", check_embedding_ctx_length=False)
    same("rows", len(e.embed_documents(["The sea.", "A lake."])), 2)


run("LangChain", [chat, forms, tools, embeddings])
