// Package chat implements OpenAI's Chat Completions API with sessions. To its clients each team is a model.
//
//   - request.go reads a request: the last user message is the query, earlier turns are
//     the history, system messages the instructions.
//   - handler.go starts or joins the session and answers when it ends.
//   - stream.go sends server-sent events while the session runs.
//   - wire.go has the JSON bodies, and the tools of callers with their results. Other parameters
//     of a request are ignored, such as temperature, or refused.
//
// Start with Handler.completeChat in handler.go.
package chat
