package loop

import (
	"context"
	"encoding/json"

	"conclave/engine/llm"
)

// Rules is what makes a step a team member's, a pipeline's or a scenario's.
//
// Rules are a fold over the journal's entries: what they offer and how they
// judge depends on nothing but what they were made with and the entries that
// they have learned, so that a restored step is judged as it was before. The
// world enters through Updates and Confirm only, and counts once it is journaled.
type Rules interface {
	// Offer returns the tools that the rules themselves answer. They are offered
	// beside the ordinary tools. It may change as entries are learned.
	Offer() []llm.Tool

	// Judge decides what a reply means. It is pure, given what was learned; the
	// last entry learned is that of the reply itself.
	Judge(reply llm.Message) Ruling

	// Updates returns what is new at this safe point, before a model call. It is
	// journaled, and learned, before the model sees it.
	Updates(ctx context.Context) (Update, error)

	// Confirm is asked once more before an accepted action counts, when the
	// ordinary calls of its reply have been run. An update turns the action down:
	// it is journaled in the action's place, and the loop goes on.
	Confirm(ctx context.Context, a Action) (Update, error)

	// Learn is told every entry that was journaled, in order, once: those of the
	// attempt as they are written, and before them those restored from earlier
	// attempts. Its error ends the attempt.
	Learn(ctx context.Context, e Entry) error
}

// Update is news brought by the rules. The zero Update says that there is none.
type Update struct {
	// Messages are what the model is told; of Confirm there must be some where
	// the reply made no tool call.
	Messages []llm.Message

	// Note is the rules' own memory of it, opaque to the loop.
	Note json.RawMessage
}

func (u Update) empty() bool { return len(u.Messages) == 0 && len(u.Note) == 0 }

// Ruling is the judgement of one reply.
//
// Tool calls without an entry in Told are ordinary: they are run, in order,
// also when the reply is rejected or ends the step. With neither Action nor
// Rejected the loop goes on.
type Ruling struct {
	// Action ends the step, once it is confirmed.
	Action *Action

	// Rejected, a stable code, counts the reply as a failed attempt. There is no
	// Action beside it.
	Rejected string

	// Told are the results that the rules give to tool calls, by call ID.
	Told map[string]string

	// Say is told as a user message to a reply that made no tool call.
	Say string

	// Withdrawn takes the place of everything in Told, and of Say, when Confirm
	// turns the action down.
	Withdrawn string

	// Note is the rules' own memory of the judgement. It is journaled with the
	// results or the rejection, and not at all if Confirm turns the action down.
	Note json.RawMessage
}

// Action is how a step ends. Payload is the JSON of what the rules made of the
// reply; it goes into the step's commit as it is.
type Action struct {
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

// Model answers requests. Its errors are *llm.Error where the provider said why.
type Model interface {
	Generate(ctx context.Context, req llm.Request) (llm.Reply, error)
}

// Tools are the ordinary tools of a step. Which there are may change between two
// calls. Run returns what the model is told, failures of the tool included; an
// error is a fault of the machinery and ends the attempt.
type Tools interface {
	Tools() []llm.Tool
	Run(ctx context.Context, call llm.ToolCall) (Output, error)
}

// Output is what a tool call came to. Images are told in a user message after the
// results of all calls of the reply.
type Output struct {
	Text   string
	Images []llm.Image
}

// Journal makes an entry durable before the loop goes on.
type Journal interface {
	Append(ctx context.Context, e Entry) error
}
