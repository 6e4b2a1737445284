package loop

import (
	"context"
	"encoding/json"

	"conclave/engine/llm"
)

// Rules is what makes a step a team member's, a pipeline's or a scenario's.
// Offer and Judge are pure: the same conversation gives the same answers, so
// that a restored step is judged as it was before.
type Rules interface {
	// Offer returns the tools that the rules themselves answer. They are offered
	// beside the ordinary tools.
	Offer() []llm.Tool

	// Judge decides what a reply means.
	Judge(reply llm.Message) Verdict

	// Updates returns what the model is to be told at this safe point, nil for
	// nothing. The messages are journaled before the model sees them.
	Updates(ctx context.Context) ([]llm.Message, error)
}

// Verdict is the judgement of one reply.
//
// Tool calls without an entry in Told are ordinary: they are run, in order,
// also when the reply is rejected or ends the step. With neither Action nor
// Rejected the loop goes on.
type Verdict struct {
	// Action ends the step.
	Action *Action

	// Rejected, a stable code, counts the reply as a failed attempt.
	Rejected string

	// Told are the results that the rules give to tool calls, by call ID.
	Told map[string]string

	// Say is told as a user message to a reply that made no tool call.
	Say string
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

// Tools are the ordinary tools of a step. Run returns what the model is told,
// failures of the tool included; an error is a fault of the machinery and ends
// the attempt.
type Tools interface {
	Tools() []llm.Tool
	Run(ctx context.Context, call llm.ToolCall) (string, error)
}

// Journal makes an entry durable before the loop goes on.
type Journal interface {
	Append(ctx context.Context, e Entry) error
}
