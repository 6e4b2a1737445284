// Package llm has the vocabulary of language models: messages, tool calls, replies, usage
// and errors, and the built-in tools of agents. Adapters under activities/ translate it to a
// wire format.
//
//   - message.go: messages, tools, requests and replies; usage.go: usage and errors.
//   - schema.go checks the arguments of a call against the schema of its tool.
//   - files.json and run_command.json describe the built-in tools. activities/tools
//     implements them; engine/config checks the configured calls of pipelines by
//     CheckArguments before anything runs.
//
// Start with Message and Request in message.go.
package llm
