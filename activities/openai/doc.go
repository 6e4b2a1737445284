// Package openai is a model behind the Chat Completions API: OpenAI itself, or
// any server that speaks it (Ollama, vLLM, llama.cpp, OpenRouter, Gemini's and
// Anthropic's compatible endpoints).
//
// It translates between engine/llm and the wire, assembles streams, validates
// replies, retries for a short while, and classifies other failures as
// *llm.Error. It delivers a reply only when it is complete, and reads no
// environment: a key goes to the base URL it was configured with and nowhere else,
// redirects included.
//
// It reads streams itself, because the SDK's reader and accumulator do not handle
// tool calls without an index, arguments that are objects, usage in the places of
// Moonshot and Groq, and errors outside of data lines.
//
// Start with Client.Generate in client.go, which also makes the HTTP request
// under the limits of watchdog.go. request.go and reply.go are the two directions
// of the translation; stream.go and streamcall.go assemble a stream for reply.go;
// failure.go and errorbody.go classify errors, refusals.go retries without the
// parts of a request that a server refuses, and retry.go waits.
package openai
