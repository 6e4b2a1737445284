// Package openai implements a model behind the Chat Completions API: OpenAI itself, or any
// compatible server (Ollama, vLLM, llama.cpp, OpenRouter and others).
//
// It returns a reply only when it is complete, and sends the key only to the configured base URL. It reads
// streams itself, because the SDK's reader and accumulator do not handle tool calls without an index,
// arguments that are objects, the usage of Moonshot and Groq, and errors outside data lines.
//
// Start with Client.Generate in client.go, which also has the limits of one HTTP request. request.go,
// with the parts that servers refuse, and reply.go are the two directions of the translation;
// stream.go and streamcall.go assemble a stream for reply.go; failure.go classifies errors, retry.go
// waits, and outage.go sends one request at a time to a server that is away.
package openai
