package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"conclave/engine/approval"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Effect is effects/<hash>.json: the claim of a call that must not happen twice. It is created before the call runs.
type Effect struct {
	Token   string `json:"token"`           // of the launch that journaled the reply with the call
	Step    int    `json:"step"`            // of the launch that ran it
	Call    string `json:"call"`            // the places of the reply and of the call in it
	Again   string `json:"again,omitempty"` // the question whose answer lets the call run once more
	Tool    string `json:"tool"`
	Digest  string `json:"digest"`  // of its arguments
	Attempt int    `json:"attempt"` // of the launch
	Writer  string `json:"writer"`  // unique to the attempt
}

// ended is effects/<hash>.done.json: an effect that has ended, with its output.
type ended struct {
	Effect
	Output loop.Output `json:"output"`
}

// hash identifies the call, however often its step is continued.
func (e Effect) hash() string {
	return artifact.SumOf([]byte(fmt.Sprintf("%s\x00%s\x00%s\x00%s\x00%s", e.Token, e.Call, e.Again, e.Tool, e.Digest)))
}

func (e Effect) key(l artifact.Layout, suffix string) string {
	return l.File("effects/" + e.hash() + suffix + ".json")
}

// Results of calls that have not run as the model expects.
const (
	// outcomeUnknown is the result of a call that may have run and must not run twice.
	outcomeUnknown = "The step was interrupted while this call ran, or just before. Whether it took effect is not known: find out before you call it again."

	// outcomeKept precedes the output of a call that ran in an interrupted attempt.
	outcomeKept = "The step was interrupted after this call. Files that the call changed in the workspace may be as they were before. Its result was:\n"
)

// Answers to a question about an unknown effect, in the order of their options.
var unknownOptions = []string{"run it (again)", "skip it", "let the agent look"}

// runAt applies the rules to a call, and makes it happen at most once unless it is repeatable.
func (t fencedTools) runAt(ctx context.Context, at loop.Place, call llm.ToolCall) (loop.Output, *loop.Question, error) {
	arguments := string(t.ports.redactText([]byte(call.Arguments)))
	readOnly := slices.ContainsFunc(t.Tools(), func(tool llm.Tool) bool { return tool.Name == call.Name && tool.ReadOnly })
	e := Effect{
		Token: t.origin, Step: t.result.Step, Call: strconv.Itoa(at.Reply) + "/" + strconv.Itoa(at.Index), Tool: call.Name,
		Digest: artifact.SumOf([]byte(llm.Compact(arguments))), Attempt: t.spec.Attempt.Number, Writer: t.journal.writer,
	}
	asked := at.Question != nil && at.Question.Effect == e.hash()
	if output, question := t.admit(at, call, readOnly, e, asked); output != nil || question != nil || at.Probe {
		return valueOr(output), question, nil
	}
	if readOnly || t.ports.Tools.Repeatable(call.Name) {
		output, err := t.Run(ctx, call)
		return output, nil, err
	}
	if asked && at.Question.Kind == loop.AskUnknown {
		e.Again = at.QuestionID
	}
	return t.runOnce(ctx, e, call)
}

func valueOr(output *loop.Output) loop.Output {
	if output == nil {
		return loop.Output{}
	}
	return *output
}

// admit returns the output of a call that must not run, or the question that comes before it; nil for both if it may
// run. No answer allows a call that the rules refuse.
func (t fencedTools) admit(at loop.Place, call llm.ToolCall, readOnly bool, e Effect, asked bool) (*loop.Output, *loop.Question) {
	d := t.ports.Gate.Decide(approval.Call{Tool: call.Name, Arguments: call.Arguments, ReadOnly: readOnly})
	why := d.Place
	if d.Rule != nil && d.Rule.Reason != "" {
		why += ": " + d.Rule.Reason
	}
	if d.Command != "" {
		why += " (" + string(t.ports.redactText([]byte(d.Command))) + ")"
	}
	refuse := func(text string) (*loop.Output, *loop.Question) { return &loop.Output{Text: text, Failed: true}, nil }
	switch {
	case d.Do == approval.Deny:
		return refuse("Not run: the rules do not allow this call, " + why + ".")
	case asked && at.Answer.Look:
		return refuse(outcomeUnknown)
	case asked && !at.Answer.Allow && at.Question.Kind == loop.AskUnknown:
		return refuse(at.Answer.By + " decided not to run this call once more after the interruption. " + outcomeUnknown)
	case asked && !at.Answer.Allow:
		return refuse("Not run: " + at.Answer.By + " did not allow this call. " + at.Answer.Text)
	case asked, d.Do == approval.Allow:
		return nil, nil
	case t.ports.Caller.Person.ID == nil:
		return refuse("Not run: a person has to allow this call, " + why + ", and nobody can be asked in this step. Do without it.")
	}
	return nil, &loop.Question{Kind: loop.AskApproval, Text: "May this call of " + call.Name + " run?", Why: why, Effect: e.hash()}
}

// runOnce runs a call unless it has run, or may have. In the latter case a person is asked if possible.
func (t fencedTools) runOnce(ctx context.Context, e Effect, call llm.ToolCall) (loop.Output, *loop.Question, error) {
	if err := t.journal.admitCall(ctx); err != nil { // the reply is on record before its effect
		return loop.Output{}, nil, err
	}
	mine, err := t.reserve(ctx, e)
	if err != nil {
		return loop.Output{}, nil, err
	}
	if !mine {
		return t.findEffect(ctx, e)
	}
	output, err := t.Run(ctx, call)
	if err != nil {
		return loop.Output{}, nil, err
	}
	// The effect has happened, whether or not the attempt may go on.
	recording, stop := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer stop()
	err = artifact.CreateJSON(recording, t.ports.Store, e.key(t.spec.Layout, ".done"), ended{e, output})
	if err != nil && !errors.Is(err, artifact.ErrExists) {
		return loop.Output{}, nil, fmt.Errorf("record the end of a call of %s: %w", e.Tool, err)
	}
	return output, nil, nil
}

// reserve claims an effect, and reports whether this attempt holds the claim.
func (t fencedTools) reserve(ctx context.Context, e Effect) (bool, error) {
	key := e.key(t.spec.Layout, "")
	err := artifact.CreateJSON(ctx, t.ports.Store, key, e)
	if !errors.Is(err, artifact.ErrExists) {
		if err != nil {
			err = fmt.Errorf("claim a call of %s: %w", e.Tool, err)
		}
		return err == nil, err
	}
	existing, err := artifact.ReadJSON[Effect](ctx, t.ports.Store, key)
	if err != nil {
		return false, fmt.Errorf("read the claim of a call of %s: %w", e.Tool, err)
	}
	return existing.Writer == e.Writer, nil // it was written, and its response was lost
}

// findEffect returns the output of a call that has ended in an earlier attempt, or the consequence of its unknown end.
func (t fencedTools) findEffect(ctx context.Context, e Effect) (loop.Output, *loop.Question, error) {
	done, err := artifact.ReadJSON[ended](ctx, t.ports.Store, e.key(t.spec.Layout, ".done"))
	switch {
	case err == nil:
		done.Output.Text = outcomeKept + done.Output.Text
		return done.Output, nil, nil
	case !errors.Is(err, artifact.ErrNotFound):
		return loop.Output{}, nil, fmt.Errorf("look for the end of a call of %s: %w", e.Tool, err)
	case t.ports.Caller.Person.ID == nil:
		return loop.Output{Text: outcomeUnknown, Failed: true}, nil, nil
	}
	e.Again = "" // the question is about the call
	return loop.Output{}, &loop.Question{
		Kind: loop.AskUnknown, Text: "A call of " + e.Tool + " may have happened: the step was interrupted while it ran, or just before. Run it, skip it, or let the agent look?",
		Options: unknownOptions, Effect: e.hash(),
	}, nil
}
