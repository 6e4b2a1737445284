// Package chat answers requests in the form of OpenAI's Chat Completions API with sessions:
// to its clients a team is a model.
//
//   - request.go reads a request: the last user message is the query, earlier turns are
//     the history, system messages the instructions.
//   - handler.go starts or joins the session and answers when it ends.
//   - stream.go answers in server-sent events while it runs.
//   - wire.go has the JSON bodies. Other parameters of a request are ignored, such as
//     temperature, or refused.
package chat
