// Package chat answers the requests of programs that ask language models with sessions, in three
// protocols: OpenAI's Chat Completions and Responses, and Anthropic's Messages. To their clients
// each team is a model.
//
//   - request.go has what a client asks, whatever its protocol: the last user message is the
//     query, earlier turns are the history, system messages the instructions. A parameter without
//     a meaning for a team is named in a header, a wrong one is refused. documents.go has its
//     attachments.
//   - form.go reads the form that the answer is to have, and the caller's tools: text, data of a
//     schema, or one call.
//   - handler.go starts or joins the session and answers when it ends.
//   - reply.go cuts the answer as the request wants it; stream.go sends server-sent events while
//     the session runs.
//   - completions.go, responses.go and messages.go are the protocols: each reads a body and
//     writes a reply or its events. Their JSON is in package wire.
//
// Start with Handler.answerIn in handler.go.
package chat
