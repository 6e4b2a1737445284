package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

// committed is the payload of a step's commit.
type committed struct {
	payload
	Messages   string `json:"messages,omitempty"` // SHA-256 of the blob with a caller's conversation
	Iterations int    `json:"iterations"`         // the step's model calls since its entry

	Team    string `json:"team,omitempty"`    // status of a session step's team
	Matched []int  `json:"matched,omitempty"` // the rules whose patterns match the text
}

// caller is the blob with the conversation of a caller.
type caller struct {
	Messages []llm.Message `json:"messages"`
	Heard    int           `json:"heard"`
}

// seal builds the commit payload of an action. The conversation of a caller is
// stored first, as a blob.
func (o *opened) seal(ctx context.Context) func(loop.Action) (step.Sealed, error) {
	return func(a loop.Action) (step.Sealed, error) {
		var c committed
		if err := json.Unmarshal(a.Payload, &c.payload); err != nil {
			return step.Sealed{}, err
		}
		c.Text = step.Paths{}.Rewrite(c.Text) // the next step has another directory
		c.Iterations, c.Team, c.Matched = o.rules.iterations(), o.Team, matched(o.Patterns, c.Text)
		if a.Kind == kindCall {
			data, err := json.Marshal(caller{Messages: o.rules.conv.Messages, Heard: o.rules.heard})
			if err == nil {
				c.Messages, err = artifact.PutBlob(ctx, o.store, o.Layout, data)
			}
			if err != nil {
				return step.Sealed{}, fmt.Errorf("storing the conversation of the caller: %w", err)
			}
		}
		sealed, err := json.Marshal(c)
		return step.Sealed{Payload: sealed, Workspace: true}, err
	}
}

// matched returns the numbers of the patterns that match a text. An empty pattern matches
// no text.
func matched(patterns []string, text string) []int {
	var numbers []int
	for i, pattern := range patterns {
		re, err := regexp.Compile(pattern) // checked with the definition
		if pattern != "" && err == nil && re.MatchString(text) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// ReadCommit reads a step's committed action, with its full text.
func ReadCommit(ctx context.Context, store artifact.Store, layout artifact.Layout, ref pipeline.Ref) (pipeline.Ended, error) {
	c, err := artifact.ReadJSON[artifact.Commit](ctx, store, layout.PipelineStep(ref.Number, ref.Step, "action.json"))
	if err != nil {
		return pipeline.Ended{}, err
	}
	return Ended(c)
}

// toolFailed is the failure type of a tools step with on_tool_error: fail.
const toolFailed = "ToolFailed"

// Ended converts a commit to its event, with the full text and without a number.
func Ended(c artifact.Commit) (pipeline.Ended, error) {
	var p committed
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return pipeline.Ended{}, fmt.Errorf("reading a committed %s: %w", c.Kind, err)
	}
	e := pipeline.Ended{
		Status: pipeline.Completed, To: p.To, Messages: p.Messages, Iterations: p.Iterations,
		Text: p.Text, Said: p.Text != "" && c.Kind != kindCall, Workspace: c.Manifest, Usage: c.Usage,
		ExitCode: p.ExitCode, Failed: p.Failed, Team: p.Team, Matched: p.Matched,
	}
	switch c.Kind {
	case kindCompleted:
	case kindMaxIterations:
		e.Status = pipeline.MaxIterations
	case kindJump:
		e.Action = pipeline.Jump
	case kindCall:
		e.Status, e.Action = pipeline.CallPending, pipeline.Call
	case kindFailed:
		e.Status, e.Cause = pipeline.Failed, &pipeline.Failure{Type: toolFailed, Message: p.Why}
	default:
		return pipeline.Ended{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return e, nil
}

// documents returns the documents that follow from a commit: answer.json, if the step has a
// text, and last_action.json.
func (s Step) documents(store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	e, err := Ended(c)
	if err != nil {
		return nil, err
	}
	last := c.LastAction(s.owner(), number)
	if c.Manifest != "" {
		path := step.FilesPath(store, s.dir(number)+"workspace")
		last.WorkspacePath = &path
	}
	var documents []step.Document
	if e.Said {
		last.AnswerText = &e.Text
		documents = append(documents, step.Document{
			Key:  s.dir(number) + "answer.json",
			Body: artifact.Answer{AgentID: s.owner(), Answer: e.Text, Timestamp: c.Timestamp, Label: s.Launch.Step},
		})
	}
	return append(documents, step.Document{Key: s.dir(number) + "last_action.json", Body: last, Replace: true}), nil
}

// owner returns the agent's ID, or the step's name if the step has no agent.
func (s Step) owner() string { return cmp.Or(s.Agent, s.Launch.Step) }
