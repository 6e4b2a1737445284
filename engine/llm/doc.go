// Package llm has the vocabulary of language models: messages, tool calls, replies, usage
// and errors, and the built-in tools of agents. Adapters under activities/ translate it to a
// wire format.
//
//   - message.go: messages, tools, requests and replies; usage.go: usage and errors.
//   - schema.go checks the arguments of a call against the schema of its tool.
//   - data.go reads JSON Schemas for data, such as answers, and data that fit them; json.go refuses
//     JSON that programs read differently, check.go names the faults of data, and compare.go finds
//     the fields in which data differ.
//   - files.json and run_command.json describe the built-in tools. activities/tools
//     implements them; engine/config checks the configured calls of pipelines by
//     CheckArguments before anything runs.
//
// Start with Message and Request in message.go.
package llm
