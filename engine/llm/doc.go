// Package llm has the vocabulary of language models: messages, tool calls, replies, usage
// and errors. Adapters under activities/ translate it to a wire format. Start with Message
// and Request in message.go.
package llm
