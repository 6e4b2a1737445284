// Package openai is a model behind the Chat Completions API: OpenAI itself, or
// any server that speaks it (Ollama, vLLM, llama.cpp, OpenRouter, Gemini's and
// Anthropic's compatible endpoints).
//
// It translates between engine/llm and the wire, puts streams together as they
// come, checks that what came back is a usable reply, retries for a short while,
// and classifies what it cannot cure as an *llm.Error. It knows nothing of agents
// or sessions, shows nobody a reply before it is whole, and reads no environment: a
// key goes to the base URL it was configured with and nowhere else, redirects
// included.
//
// Start with Client.Generate in client.go; call.go is one HTTP request and watch.go
// its bounds; request.go and reply.go are the two directions of the translation;
// event.go and stream.go put a stream together for reply.go; failure.go and
// toolong.go are the classification, manner.go what a server may refuse without
// refusing the request, retry.go the waiting.
package openai
