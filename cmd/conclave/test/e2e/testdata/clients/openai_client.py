"""A team as a model, with OpenAI's client for Python: python openai_client.py BASE_URL"""

import json
import sys
from typing import Literal

from openai import ConflictError, NotFoundError, OpenAI, pydantic_function_tool
from pydantic import BaseModel

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=2)
question = [{"role": "user", "content": "What is the answer, asks Python?"}]
key = {"Idempotency-Key": "python"}

assert [m.id for m in client.models.list().data] == ["conclave", "conclave/single"]
assert client.models.retrieve("conclave").owned_by == "conclave"

# A chat, whose repetition has the same session.
first = client.chat.completions.create(model="conclave", messages=question, extra_headers=key)
assert first.choices[0].message.content == "The answer is 42.", first
assert first.usage.total_tokens == 240, first.usage
raw = client.chat.completions.with_raw_response.create(model="conclave", messages=question, extra_headers=key)
assert "conclave-" + raw.headers["X-Conclave-Session"] == first.id == raw.parse().id

# A stream, with the progress before the answer and the usage last.
content, reasoning, usage = "", "", None
for chunk in client.chat.completions.create(
    model="conclave", messages=question, extra_headers=key, stream=True, stream_options={"include_usage": True}
):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        content += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning_content", None) or ""
assert content == "The answer is 42." and "agent_a answered" in reasoning, (content, reasoning)
assert usage.total_tokens == 240, usage

# The caller's tools, in a stream and then not.
tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}]
messages = [{"role": "user", "content": "What is at the door, asks Python?"}]
with client.chat.completions.stream(model="conclave", messages=messages, tools=tools) as stream:
    reply = stream.get_final_completion().choices[0]
assert reply.finish_reason == "tool_calls", reply
[call] = reply.message.tool_calls
assert (call.function.name, call.function.arguments) == ("look", '{"at":"door"}'), call
messages += [reply.message, {"role": "tool", "tool_call_id": call.id, "content": "a cat"}]
assert client.chat.completions.create(model="conclave", messages=messages, tools=tools).choices[0].message.content == "It is a cat."

# An answer as data: as text in two protocols, as a call that is named or required.
class Decision(BaseModel):
    choice: Literal["tabs", "spaces"]
    risks: list[str]


asked = {"model": "conclave", "messages": [{"role": "user", "content": "Decide, asks Python."}]}
decided = Decision(choice="tabs", risks=[])
assert client.chat.completions.parse(**asked, response_format=Decision).choices[0].message.parsed == decided
assert client.responses.parse(model="conclave", input="Decide, asks Python.", text_format=Decision).output_parsed == decided
whole = client.chat.completions.create(**asked, response_format={"type": "json_object"}).choices[0].message.content
assert json.loads(whole)["choice"] == "tabs", whole
forced = {"tools": [pydantic_function_tool(Decision)], "tool_choice": {"type": "function", "function": {"name": "Decision"}}}
for choice in (forced, {**forced, "tool_choice": "required"}):
    [made] = client.chat.completions.parse(**asked, **choice).choices[0].message.tool_calls
    assert made.function.parsed_arguments == decided, made

# The call ended its session, so its result asks a new one.
asked["messages"] += [{"role": "assistant", "tool_calls": [made.to_dict()]}, {"role": "tool", "tool_call_id": made.id, "content": "It is done."}]
assert client.chat.completions.create(**asked).choices[0].message.content == "The answer is 42."

# A connection that breaks: the client sends the request again and gets the answer of the same session.
broken = client.chat.completions.create(model="conclave", messages=[{"role": "user", "content": "Retried, Python?"}])
assert broken.choices[0].message.content == "The answer is 42.", broken

# Errors have their classes, and are not sent again.
for wrong, request in (
    (NotFoundError, {"model": "gpt-5.2", "messages": question}),
    (ConflictError, {"model": "conclave", "messages": question[:1] * 2, "extra_headers": key}),
):
    try:
        client.chat.completions.create(**request)
        raise AssertionError(wrong)
    except wrong as refused:
        assert refused.code in ("model_not_found", "idempotency_conflict"), refused
