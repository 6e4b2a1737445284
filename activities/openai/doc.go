// Package openai is a model behind the Chat Completions API: OpenAI itself, or
// any server that speaks it (Ollama, vLLM, llama.cpp, OpenRouter, Gemini's and
// Anthropic's compatible endpoints).
//
// It translates between engine/llm and the wire, checks that what came back is
// a usable reply, retries for a short while, and classifies what it cannot cure
// as an *llm.Error. It knows nothing of agents or sessions, asks for no streams
// (but reads one from a server that always streams), and reads no environment: a
// key goes to the base URL it was configured with and nowhere else, redirects
// included.
//
// Start with Client.Generate in client.go; request.go and reply.go are the two
// directions of the translation, stream.go puts a stream together for reply.go,
// failure.go is the classification, retry.go the waiting.
package openai
