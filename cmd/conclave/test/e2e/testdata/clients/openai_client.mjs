// A team as a model, with OpenAI's client for Node.js: node openai_client.mjs BASE_URL
import assert from "node:assert/strict";
import OpenAI, { ConflictError, NotFoundError } from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "any", maxRetries: 2 });
const messages = [{ role: "user", content: "What is the answer, asks Node?" }];
const headers = { "Idempotency-Key": "node" };
const ask = (more) => client.chat.completions.create({ model: "conclave", messages, ...more }, { headers });

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["conclave", "conclave/single"]);

// A chat, whose repetition has the same session.
const first = await ask();
assert.equal(first.choices[0].message.content, "The answer is 42.");
assert.equal(first.usage.total_tokens, 240);
const { response } = await ask().withResponse();
assert.equal("conclave-" + response.headers.get("X-Conclave-Session"), first.id);
assert.match(response.headers.get("Link"), /\/sessions\//);

// A stream, with the progress before the answer and the usage last.
let content = "";
let reasoning = "";
let usage;
for await (const chunk of await ask({ stream: true, stream_options: { include_usage: true } })) {
  usage = chunk.usage ?? usage;
  content += chunk.choices[0]?.delta.content ?? "";
  reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
}
assert.equal(content, "The answer is 42.");
assert.match(reasoning, /agent_a answered/);
assert.equal(usage.total_tokens, 240);

// The caller's tools, which the client's own loop runs.
const looked = [];
const runner = client.chat.completions.runTools({
  model: "conclave",
  stream: true,
  messages: [{ role: "user", content: "What is at the door, asks Node?" }],
  tools: [
    {
      type: "function",
      function: {
        name: "look",
        description: "Looks.",
        parameters: { type: "object", properties: { at: { type: "string" } } },
        parse: JSON.parse,
        function: ({ at }) => {
          looked.push(at);
          return "a cat";
        },
      },
    },
  ],
});
assert.equal(await runner.finalContent(), "It is a cat.");
assert.deepEqual(looked, ["door"]);

// An answer as data, streamed.
const schema = { type: "object", properties: { choice: { enum: ["tabs", "spaces"] }, risks: { type: "array", items: { type: "string" } } }, required: ["choice", "risks"], additionalProperties: false };
const decided = await client.chat.completions
  .stream({ model: "conclave", messages: [{ role: "user", content: "Decide, asks Node." }], response_format: { type: "json_schema", json_schema: { name: "decision", strict: true, schema } } })
  .finalContent();
assert.deepEqual(JSON.parse(decided), { choice: "tabs", risks: [] });

// A connection that breaks: the client sends the request again and gets the answer of the same session.
const broken = await client.chat.completions.create({ model: "conclave", messages: [{ role: "user", content: "Retried, Node?" }] });
assert.equal(broken.choices[0].message.content, "The answer is 42.");

// Errors have their classes.
await assert.rejects(client.chat.completions.create({ model: "gpt-5.2", messages }), NotFoundError);
await assert.rejects(ask({ messages: [...messages, ...messages] }), ConflictError);
