package loop_test

// written is a reply in a format that occurs in practice, and the public thread that shows it.
// Tools and arguments are those of this package.
type written struct{ name, thread, content string }

var accepted = []written{
	{
		"bare", "https://github.com/ollama/ollama/issues/12174",
		`{"name": "new_answer", "arguments": {"content": "Two."}}`,
	},
	{
		"bare, compact", "https://github.com/Gitlawb/openclaude/pull/1076",
		`{"name":"run_command","arguments":{"command":"ls"}}`,
	},
	{
		"bare, indented", "https://github.com/Gitlawb/openclaude/issues/557",
		"{\n  \"name\": \"write_file\",\n  \"arguments\": {\n    \"path\": \"moons.txt\",\n    \"content\": \"Phobos, Deimos\"\n  }\n}",
	},
	{
		"bare, with a second argument", "https://github.com/nicedreamzapp/claude-code-local/pull/43",
		"{\n  \"name\": \"run_command\",\n  \"arguments\": {\n    \"command\": \"ls /data\",\n    \"timeout_seconds\": 5\n  }\n}",
	},
	{
		"bare, between blank lines", "https://github.com/mark3labs/mcphost/issues/12",
		"\n\n  {\"name\": \"list_files\", \"arguments\": {\"path\": \".\"}}   \n",
	},
	{
		"bare, an array among the arguments", "https://github.com/openai/codex/issues/2229",
		`{"name": "run_command", "arguments": {"command": ["ls"]}}`,
	},
	{
		"bare, instead of an answer", "https://github.com/Gitlawb/openclaude/issues/433",
		"{\n  \"name\": \"search_files\",\n  \"arguments\": {\n    \"pattern\": \"moon\"\n  }\n}",
	},
	{
		"bare, of a file tool", "https://github.com/jundot/omlx/issues/2565",
		`{"name": "read_file", "arguments": {"path": "test.txt"}}`,
	},
	{
		"bare, for an editor", "https://github.com/ollama/ollama-vscode/pull/20",
		`{"name":"edit_file","arguments":{"path":"a.go","old_string":"x","new_string":"y"}}`,
	},
	{
		"bare, of a model with tags for others", "https://github.com/jyjeanne/crustly/pull/39",
		`{"name": "vote", "arguments": {"agent_id": "agent2", "reason": "It is right."}}`,
	},
	{
		"bare, from an open model", "https://github.com/Fast-Editor/Lynkr/pull/38",
		`{"name": "list_files", "arguments": {"glob": "*.md"}}`,
	},
	{
		"bare, nested arguments", "https://github.com/webbrain-one/webbrain/pull/2682",
		`{"name":"mcp__web__click","arguments":{"text":"Save","meta":{"source":"dialog"}}}`,
	},
	{
		"bare, braces in a string", "https://github.com/webbrain-one/webbrain/pull/2682",
		`{"name":"mcp__web__click","arguments":{"text":"Save {draft}","meta":{}}}`,
	},
	{
		"bare, reported as a template error", "https://github.com/vllm-project/vllm/pull/47878",
		`{"name": "new_answer", "arguments": {"content": "A \"quoted\" moon\nand a line"}}`,
	},
	{
		"two, after one another", "https://github.com/sgomez/ollama-ai-provider/pull/11",
		"{\n  \"name\": \"read_file\",\n  \"arguments\": {\n    \"path\": \"a\"\n  }\n} {\n  \"name\": \"list_files\",\n  \"arguments\": {\n    \"path\": \"b\"\n  }\n}",
	},
	{
		"two, on lines of their own", "https://github.com/waybarrios/vllm-mlx/pull/15",
		"{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n{\"name\": \"list_files\", \"arguments\": {}}",
	},
	{
		"an array of two", "https://github.com/mistralai/mistral-common/issues/73",
		`[{"name": "read_file", "arguments": {"path": "notes.md"}}, {"name": "read_file", "arguments": {"path": "more.md"}}]`,
	},
	{
		"an array of one", "https://github.com/ml-explore/mlx-lm/issues/1374",
		`[{"name": "run_command", "arguments": {"command": "expr 2 + 3"}}]`,
	},
	{
		"an array over lines", "https://github.com/webbrain-one/webbrain/pull/2682",
		"[\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}},\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent2\", \"reason\": \"It is right.\"}}\n]",
	},
	{
		"an array, bare", "https://github.com/waybarrios/vllm-mlx/pull/15",
		`[{"name": "new_answer", "arguments": {"content": "Two."}}]`,
	},
	{
		"a fence", "https://github.com/Gitlawb/openclaude/pull/1076",
		"```json\n{\"name\":\"run_command\",\"arguments\":{\"command\":\"ls\"}}\n```",
	},
	{
		"a fence without a language", "https://github.com/jyjeanne/crustly/pull/39",
		"```\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent2\", \"reason\": \"It is right.\"}}\n```",
	},
	{
		"a fence around a file", "https://github.com/aaif-goose/goose/pull/9664",
		"```json\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"src/spike.txt\", \"content\": \"hello\"}}\n```",
	},
	{
		"a fence, indented", "https://github.com/Nano-Collective/nanocoder/pull/493",
		"```json\n{\n  \"name\": \"write_file\",\n  \"arguments\": {\"path\": \"a.txt\", \"content\": \"x\"}\n}\n```",
	},
	{
		"a fence around tags", "https://github.com/vllm-project/vllm/pull/32931",
		"```xml\n<tools>\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"Two.\"}}\n</tools>\n```",
	},
	{
		"a fence, the last bracket missing", "https://github.com/Tiziano-AI/pi-continue/pull/21",
		"```json\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"Two.\"}\n```",
	},
	{
		"arguments as a string", "https://github.com/aaif-goose/goose/pull/9664",
		`{"name": "read_file", "arguments": "{\"path\": \"notes.md\"}"}`,
	},
	{
		"parameters", "https://github.com/aaif-goose/goose/pull/9664",
		`{"name": "read_file", "parameters": {"path": "notes.md"}}`,
	},
	{
		"parameters in a tag", "https://github.com/InternLM/lmdeploy/pull/2737",
		`<tool_call>{"name": "read_file", "parameters": {"path": "notes.md"}}</tool_call>`,
	},
	{
		"a function object", "https://github.com/Gitlawb/openclaude/pull/1076",
		`{"type":"function","function":{"name":"run_command","arguments":{"command":"ls"}}}`,
	},
	{
		"a tag", "https://github.com/aaif-goose/goose/pull/9664",
		`<tool_call>{"name": "new_answer", "arguments": {"content": "Two."}}</tool_call>`,
	},
	{
		"a tag over lines", "https://github.com/ROCm/ATOM/pull/1427",
		"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n</tool_call>",
	},
	{
		"two tags", "https://github.com/ROCm/ATOM/pull/1427",
		"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"list_files\", \"arguments\": {}}\n</tool_call>",
	},
	{
		"a tag, no arguments", "https://github.com/ROCm/ATOM/pull/1427",
		`<tool_call>{"name": "submit", "arguments": {}}</tool_call>`,
	},
	{
		"a tag, not closed", "https://github.com/ROCm/ATOM/pull/1427",
		"<tool_call>\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"Two.\"}}",
	},
	{
		"an envelope, not closed", "https://github.com/jundot/omlx/issues/3153",
		"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n<tool_call>\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent2\", \"reason\": \"It is right.\"}}",
	},
	{
		"a tag, on one line", "https://github.com/nextcloud/llm2/pull/68",
		`<tool_call>{"name": "vote", "arguments": {"agent_id": "agent1", "reason": "so"} }</tool_call>`,
	},
	{
		"a tag with two calls", "https://github.com/ollama/ollama/issues/11621",
		"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n{\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}\n</tool_call>",
	},
	{
		"a tag as the template has it", "https://github.com/InternLM/lmdeploy/issues/3840",
		"<tool_call>\n{\"name\": \"list_files\", \"arguments\": {\"path\": \".\"}}\n</tool_call>",
	},
	{
		"tools tags", "https://github.com/vllm-project/vllm/pull/32931",
		"<tools>\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"Two.\"}}\n</tools>",
	},
	{
		"two tools tags", "https://github.com/vllm-project/vllm/pull/32931",
		"<tools>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n</tools>\n<tools>\n{\"name\": \"list_files\", \"arguments\": {}}\n</tools>",
	},
	{
		"the opening tag missing", "https://github.com/ollama/ollama/issues/16686",
		"{\"name\": \"new_answer\", \"arguments\": {\"content\": \"Two.\"}}\n</tool_call>",
	},
	{
		"a closing tag left over", "https://github.com/ollama/ollama/pull/18461",
		`{"name": "list_files", "arguments": {}}</tool_call>`,
	},
	{
		"the last brace missing", "https://github.com/farion1231/cc-switch/issues/3065",
		`{"name": "run_command", "arguments": {"command": "npm install", "timeout_seconds": 120000}`,
	},
	{
		"brackets missing after a list", "https://github.com/ollama/ollama/pull/17565",
		`{"name": "mcp__files__read", "arguments": {"files": [{"path": "assets.json", "start_line": 1}]`,
	},
	{
		"the last bracket of an array missing", "https://github.com/Arthur-Ficial/apfel/pull/188",
		`[{"name": "read_file", "arguments": {"path": "notes.md"}}`,
	},
	{
		"thinking before it", "https://github.com/Open-Historia/open-historia/pull/354",
		"<think>\nThe file has it, {\"name\": \"x\"}.\n</think>\n\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}",
	},
	{
		"thinking on one line before it", "https://github.com/nesquena/hermes-webui/pull/2213",
		`<think>Two moons.</think>{"name": "new_answer", "arguments": {"content": "Two."}}`,
	},
	{
		"curly quotes", "https://github.com/Open-Historia/open-historia/pull/354",
		`{“name”: “read_file”, “arguments”: {“path”: “a”}}`,
	},
}

var refused = []written{
	{
		"data with a name, in a fence", "https://github.com/ahwurm/localharness/issues/105",
		"```json\n{\"name\": \"my-app\", \"version\": \"1.0.0\"}\n```",
	},
	{
		"people, in a fence", "https://github.com/ahwurm/localharness/issues/105",
		"```json\n[{\"name\": \"alice\", \"age\": 30}]\n```",
	},
	{
		"an expression, in a fence", "https://github.com/ahwurm/localharness/issues/105",
		"```json\n{\"expr\": \"sum(a, b)\"}\n```",
	},
	{
		"a name alone", "https://github.com/itayinbarr/little-coder/issues/96",
		`{"name": "read_file"}`,
	},
	{
		"an array of names", "https://github.com/itayinbarr/little-coder/issues/96",
		`[{"name": "read_file", "label": "Read"}, {"name": "vote", "label": "Vote"}]`,
	},
	{
		"a sentence before it", "https://github.com/webbrain-one/webbrain/pull/2682",
		"I will read it now.\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}",
	},
	{
		"quoted within a sentence", "https://github.com/webbrain-one/webbrain/pull/2682",
		`I would not send {"name": "read_file", "arguments": {"path": "notes.md"}} to anybody.`,
	},
	{
		"a choice of two", "https://github.com/webbrain-one/webbrain/pull/2682",
		"Either\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\nor\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent2\", \"reason\": \"It is right.\"}}",
	},
	{
		"a refusal after it", "https://github.com/webbrain-one/webbrain/pull/2682",
		"{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\nI refuse to run this.",
	},
	{
		"a line of a log", "https://github.com/Open-Orca-AI/openorca/issues/98",
		`12:01 info got {"name": "read_file", "arguments": {"path": "x"}} from client`,
	},
	{
		"a manual", "https://github.com/Open-Orca-AI/openorca/issues/98",
		"# Usage\n\nSend this:\n\n```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n```",
	},
	{
		"an example that was asked for", "https://github.com/diegosouzapw/OmniRoute/issues/9343",
		`Here is the JSON that you asked for: {"name": "read_file", "arguments": {"path": "notes.md"}}`,
	},
	{
		"an example, explained below", "https://github.com/diegosouzapw/OmniRoute/issues/9343",
		"{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n\nThis is only an example.",
	},
	{
		"an unknown tool", "https://github.com/Gitlawb/openclaude/issues/433",
		`{"name": "repository_structure", "arguments": {"path": "."}}`,
	},
	{
		"arguments left out", "https://github.com/Gitlawb/openclaude/issues/433",
		"{\n  \"name\": \"read_file\",\n  \"arguments\": {...}\n}",
	},
	{
		"a description of the request", "https://github.com/Gitlawb/openclaude/issues/433",
		"The correct request would look like this: call read_file with the path.",
	},
	{
		"a command and its success", "https://github.com/Gitlawb/openclaude/issues/557",
		"```bash\necho \"Phobos\" > moons.txt\n```\nFile moons.txt created successfully.",
	},
	{
		"quotes without an escape", "https://github.com/Gitlawb/openclaude/issues/287",
		`{"name": "write_file", "arguments": {"path": "index.html", "content": "<html lang="en">"}}`,
	},
	{
		"tags that a text speaks of", "https://github.com/nesquena/hermes-webui/pull/2213",
		"The parser looks for `<tool_call>` and `</tool_call>`.",
	},
	{
		"a pattern in a document", "https://github.com/agentscope-ai/QwenPaw/issues/4066",
		"Models write:\n\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n</tool_call>\n\nClients parse it.",
	},
	{
		"a pattern in a code block", "https://github.com/agentscope-ai/QwenPaw/issues/4066",
		"```python\nparse('<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}</tool_call>')\n```",
	},
	{
		"a Python call in a tag", "https://github.com/Augustas11/macprovider/pull/160",
		"<tool_call>\nread_file(path=\"notes.md\")\n</tool_call>",
	},
	{
		"a Python list", "https://github.com/jundot/omlx/pull/1596",
		`<|tool_call_start|>[read_file(path='notes.md')]<|tool_call_end|>`,
	},
	{
		"name and ARGS", "https://github.com/ml-explore/mlx-lm/pull/1448",
		`read_file[ARGS]{"path": "notes.md"}`,
	},
	{
		"a token before the list", "https://github.com/ml-explore/mlx-lm/issues/1374",
		`[TOOL_CALLS] [{"name": "read_file", "arguments": {"path": "notes.md"}}]`,
	},
	{
		"a call in brackets", "https://github.com/waybarrios/vllm-mlx/pull/15",
		`[Calling tool: read_file({"path": "notes.md"})]`,
	},
	{
		"XML parameters", "https://github.com/theroyallab/tabbyAPI/pull/378",
		"<tool_call>\n<function=read_file>\n<parameter=path>\nREADME.md\n</parameter>\n</function>\n</tool_call>",
	},
	{
		"XML parameters after a sentence", "https://github.com/ollama/ollama/issues/16686",
		"I will list them.\n\n<function=list_files>\n<parameter=glob>\n*.md\n</parameter>\n</function>\n</tool_call>",
	},
	{
		"XML parameters on one line", "https://github.com/0xBakeer/inference-atlas/pull/32",
		`<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call>`,
	},
	{
		"closing tags alone", "https://github.com/QwenLM/qwen-code/issues/10700",
		`</parameter></invoke>`,
	},
	{
		"attributes", "https://github.com/dreadnode/rigging/issues/3",
		"<tool-calls>\n   <tool-call tool=\"files\" function=\"read_file\">\n      <parameter name=\"path\" value=\"a\" />\n   </tool-call>",
	},
	{
		"an invoke element", "https://github.com/tinyhumansai/opencompany/pull/2093",
		`<invoke name="read_file"><parameter name="path">a</parameter></invoke>`,
	},
	{
		"keys and values", "https://github.com/JustVugg/colibri/pull/505",
		`<tool_call>read_file<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>`,
	},
	{
		"a description for a name", "https://github.com/ollama/ollama/pull/18461",
		`<tool_call>{"name": "Read a file of the workspace", "arguments": {"path": "a"}}</tool_call>`,
	},
	{
		"a syntax of its own", "https://github.com/ollama/ollama/pull/17565",
		`call:read_file{path:<|"|>notes.md<|"|>}`,
	},
	{
		"no name, cut off", "https://github.com/cline/cline/issues/13001",
		`{"commands": ["npm install", "npm test"`,
	},
	{
		"cut off in a string", "https://github.com/MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/55",
		`{"name": "new_answer", "arguments": {"content": "The moons of Mars are Pho`,
	},
	{
		"cut off in a file", "https://github.com/GCWing/OpenBitFun/pull/643",
		`{"name": "write_file", "arguments": {"path": "a.md", "content": "# Moons\n`,
	},
	{
		"cut off after a comma", "https://github.com/GCWing/OpenBitFun/pull/643",
		`{"name": "write_file", "arguments": {"path": "a.md",`,
	},
	{
		"cut off after a colon", "https://github.com/GCWing/OpenBitFun/pull/643",
		`{"name": "write_file", "arguments": {"path": "a.md", "content":`,
	},
	{
		"cut off in a tag", "https://github.com/jyjeanne/crustly/pull/55",
		"<tool_call>\n{\"name\": \"read_file\", \"argum",
	},
	{
		"malformed in a tag", "https://github.com/jyjeanne/crustly/pull/55",
		"<tool_call>\n{\"name\": \"read_file\", \"arguments\": {path: a}}\n</tool_call>",
	},
	{
		"no arguments at all", "https://github.com/mattmezza/humux/issues/77",
		`{"name": "write_file", "input": {}}`,
	},
	{
		"an empty string for arguments", "https://github.com/brave/brave-browser/issues/56601",
		`{"name": "submit", "arguments": ""}`,
	},
	{
		"a brace missing in the middle", "https://github.com/ranxianglei/billion-context-pi/issues/253",
		`[{"name": "read_file", "arguments": {"path": "a"}]`,
	},
	{
		"a name given twice", "https://github.com/vllm-project/vllm/pull/48864",
		`{"name": "read_file", "name": "run_command", "arguments": {"path": "a"}}`,
	},
	{
		"a list under tool_calls", "https://github.com/Arthur-Ficial/apfel/pull/188",
		`{"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}]}`,
	},
	{
		"a list under tool_calls, in a fence", "https://github.com/Extra-Chill/data-machine/pull/2316",
		"```json\n{\"tool_calls\": [{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}]}\n```",
	},
	{
		"an alias", "https://github.com/Nano-Collective/nanocoder/pull/493",
		`{"name": "create_file", "arguments": {"file_path": "a", "contents": "x"}}`,
	},
	{
		"thought and action", "https://github.com/crewAIInc/crewAI/issues/4064",
		"Thought: I need the file.\nAction: read_file\nAction Input: {\"path\": \"a\"}",
	},
	{
		"an observation made up", "https://github.com/xorbitsai/inference/issues/1099",
		"Action: read_file\nAction Input: {}\nObservation: {\"text\": \"x\"}\nFinal Answer: x",
	},
	{
		"no call at all", "https://github.com/sgl-project/sglang/issues/2877",
		"I do not have access to current data, so I cannot say.",
	},
	{
		"tags in brackets", "https://github.com/QwenLM/Qwen3-Coder/issues/180",
		"[tool_call]\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n[/tool_call]",
	},
	{
		"definitions of the tools", "https://github.com/ollama/ollama/issues/11621",
		"<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"read_file\", \"description\": \"Read.\", \"parameters\": {\"type\": \"object\", \"properties\": {\"path\": {\"type\": \"string\"}}}}}\n</tools>",
	},
	{
		"a definition without a description", "https://github.com/vllm-project/vllm/pull/32931",
		"<tools>\n{\"name\": \"read_file\", \"parameters\": {\"type\": \"object\", \"properties\": {\"path\": {\"type\": \"string\"}}}}\n</tools>",
	},
	{
		"a name without its quote", "https://github.com/nextcloud/llm2/pull/68",
		`<tool_call>{"name: "read_file", "arguments": {"path": "a"} }</tool_call>`,
	},
	{
		"prose around a fence", "https://github.com/aaif-goose/goose/pull/9664",
		"Sure:\n```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n```\nDone.",
	},
	{
		"two fences", "https://github.com/jyjeanne/crustly/pull/39",
		"```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.md\"}}\n```\n```json\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent2\", \"reason\": \"It is right.\"}}\n```",
	},
	{
		"a comma too many", "https://github.com/Open-Historia/open-historia/pull/354",
		`{"name": "read_file", "arguments": {"path": "a",}}`,
	},
	{
		"a result", "https://github.com/CatchTheTornado/open-agents-builder/issues/113",
		`{"status": "saved", "result": {"id": 7}}`,
	},
}
