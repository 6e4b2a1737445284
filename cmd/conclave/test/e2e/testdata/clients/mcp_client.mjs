// A team as a tool, with the TypeScript client of the Model Context Protocol, on standard input and
// output with the directory ROOT, then over HTTP: node mcp_client.mjs BASE_URL ROOT COMMAND [ARGUMENT ...]
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, root, command, ...args] = process.argv.slice(2);
const connect = async (transport) => {
  const client = new Client({ name: "test", version: "1" }, { capabilities: { roots: {} } });
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: pathToFileURL(root).href }] }));
  await client.connect(transport);
  return client;
};
const call = async (client, name, input, options) => {
  const result = await client.callTool({ name, arguments: input }, undefined, options);
  return { ...result.structuredContent, text: result.content[0].text, refused: result.isError };
};

const local = await connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const tools = (await local.listTools()).tools.map((tool) => tool.name).sort();
assert.deepEqual(tools, ["ask_team", "decide_now", "say", "session_diff", "session_result", "session_status"]);

// The team works on the client's root, and reports its progress.
const reported = [];
const answer = await call(local, "ask_team", { question: "Mend the file.", base: "." }, { onprogress: (p) => reported.push(p.message) });
assert.equal(answer.text, "The answer is 42.");
assert.equal(answer.status, "consensus");
assert(reported.some((line) => line.includes("agent_a answered")), reported.join("\n"));
const diff = await call(local, "session_diff", { session_id: answer.session_id });
assert.match(diff.patch, /^-broken\n\+mended$/m);
const file = await local.readResource({ uri: `conclave://${answer.session_id}/files/agent1.1/a.txt` });
assert.equal(file.contents[0].text, "mended\n");
await local.close();

// Over HTTP: a handle at once, with which the answer is fetched; no directory of the server is read.
const remote = await connect(new StreamableHTTPClientTransport(new URL(url + "/mcp")));
const handle = await call(remote, "ask_team", { question: "What is the answer, asks MCP?", wait_seconds: 0 });
assert.match(handle.session_id, /./);
const fetched = await call(remote, "session_result", { session_id: handle.session_id });
assert.equal(fetched.text, "The answer is 42.");
assert.equal((await call(remote, "session_result", { session_id: answer.session_id })).text, "The answer is 42.");
const never = await call(remote, "session_result", { session_id: "never-given" });
assert(never.refused && never.text.includes("there is no session"), never.text);
const outside = await call(remote, "ask_team", { question: "q", base: "." });
assert(outside.refused && outside.text.includes("conclave upload"), outside.text);
const link = await remote.readResource({ uri: `conclave://${handle.session_id}/answer` });
assert.equal(link.contents[0].text, "The answer is 42.");
await remote.close();
