// Package wire has the JSON bodies of the three protocols in which programs ask language models:
// Chat Completions and Responses of OpenAI, and Messages of Anthropic. It has the fields that
// conclave reads or writes; a reader that needs others decodes them itself.
//
//   - chat.go: requests, replies and chunks of Chat Completions.
//   - responses.go: the same of Responses, with the items of a conversation.
//   - messages.go: the same of Messages, with the blocks of a message.
//   - content.go: the content of a message, read alike from all three: its text and its
//     attachments.
//
// Start with Content in content.go, which all three share.
package wire
