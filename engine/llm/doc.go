// Package llm holds the words conclave uses to talk to language models:
// messages, tool calls, replies and usage. It knows no provider, no team and
// no transport; adapters under activities/ translate it to a wire format.
package llm
