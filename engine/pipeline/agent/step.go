package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

// Step is one launch of a segment.
type Step struct {
	Layout artifact.Layout
	Launch pipeline.Launch
	Token  string

	// Attempt counts the executions of the launch, and Spent is what the earlier
	// ones used.
	Attempt int
	Spent   llm.Usage

	// Agent is whose model and tools the segment uses; empty for none.
	Agent string

	// Prompt, Destinations and Request are those of the definition and of the run.
	Prompt       string
	Destinations []string
	Request      string

	// Messages tells how many human messages there are by now; nil where nothing
	// reaches a running segment.
	Messages func(ctx context.Context) (int, error)
}

// Spec reads what the launch shows and builds the step from it.
func (s Step) Spec(ctx context.Context, store artifact.Store) (step.Spec, error) {
	o := &opened{Step: s, store: store}
	if err := o.load(ctx); err != nil {
		return step.Spec{}, err
	}
	number, err := s.reserve(ctx, store)
	if err != nil {
		return step.Spec{}, err
	}
	return step.Spec{
		Layout: s.Layout, Token: s.Token, Dir: s.dir, After: number - 1,
		Attempt: step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom},
		Shown:   step.Shown{Seen: map[string]int{}, Files: s.Launch.Workspace},
		Open:    o.open, Seal: o.seal(ctx), Witnessed: o.witnessed,
		Documents: func(number int, c artifact.Commit) ([]step.Document, error) { return s.project(store, number, c) },
		Abandoned: s.abandoned,
	}, nil
}

func (s Step) dir(number int) string { return s.Layout.Segment(number, s.Launch.Step, "") }

// opened is a segment with the texts that it begins with.
type opened struct {
	Step
	store artifact.Store
	task  Task
	rules *Rules // once it is open
}

// load reads everything that the launch shows.
func (o *opened) load(ctx context.Context) error {
	l := o.Launch
	o.task = Task{
		Prompt: o.Prompt, Request: o.Request, Destinations: o.Destinations, Deepest: l.Deepest, Used: l.Used, Most: l.Most, Frame: Frame(o.Token),
		Omitted: l.Omitted,
	}
	var err error
	if o.task.History, err = Texts(ctx, o.store, o.Layout, l.History); err != nil {
		return err
	}
	if l.Return != nil {
		o.task.Return, err = o.returned(ctx, *l.Return)
	}
	return err
}

// Texts reads what earlier segments said.
func Texts(ctx context.Context, store artifact.Store, layout artifact.Layout, refs []pipeline.Ref) ([]Told, error) {
	var told []Told
	for _, ref := range refs {
		c, err := ReadCommit(ctx, store, layout, ref)
		if err != nil {
			return nil, fmt.Errorf("reading the text of step %s: %w", ref.Step, err)
		}
		told = append(told, Told{Step: ref.Step, Text: c.Text})
	}
	return told, nil
}

// returned reads what a caller goes on with.
func (o *opened) returned(ctx context.Context, r pipeline.Return) (*Returned, error) {
	data, err := o.store.Get(ctx, o.Layout.Blob(r.Messages))
	if err != nil {
		return nil, fmt.Errorf("reading the conversation of the caller: %w", err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != r.Messages {
		return nil, fmt.Errorf("reading the conversation of the caller: %w", artifact.ErrCorrupt)
	}
	var kept caller
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("reading the conversation of the caller: %w", err)
	}
	var called Commit
	// A caller whose model calls were used up ended without a segment. Whoever else
	// returns has committed.
	if r.Called.Number > 0 {
		if called, err = ReadCommit(ctx, o.store, o.Layout, r.Called); err != nil {
			return nil, fmt.Errorf("reading what the step called came to: %w", err)
		}
	}
	return &Returned{Messages: kept.Messages, Heard: kept.Heard, Status: r.Status, Text: called.Text}, nil
}

// caller is the blob of a suspended caller.
type caller struct {
	Messages []llm.Message `json:"messages"`
	Heard    int           `json:"heard"`
}

// open makes the rules. What earlier attempts did, they learn from the journal.
func (o *opened) open(ordinary []llm.Tool, _ func(context.Context, step.Peer) error) (loop.Rules, []llm.Message, error) {
	task := o.task
	for _, tool := range ordinary {
		task.Tools = append(task.Tools, tool.Name)
	}
	if o.Launch.Kind == pipeline.Agent { // nobody else listens
		task.Hear = o.hear
	}
	o.rules = NewRules(task)
	return o.rules, task.Opening(), nil
}

// hear reads what people said after the message with the given number: before the
// launch, and since.
func (o *opened) hear(ctx context.Context, after int) ([]Message, error) {
	there := o.Launch.Messages
	if o.Messages != nil {
		rung, err := o.Messages(ctx)
		if err != nil {
			return nil, err
		}
		there = max(there, rung)
	}
	return ReadMessages(ctx, o.store, o.Layout, after, there)
}

// witnessed is the last human message that the step was told.
func (o *opened) witnessed() (map[string]int, int) {
	if o.rules == nil {
		return map[string]int{}, 0
	}
	return map[string]int{}, o.rules.Heard()
}

// Frame delimits texts of others in what the launch with the given token is told:
// nobody who wrote one could know it.
func Frame(token string) string {
	sum := sha256.Sum256([]byte("segment " + token))
	return "=====" + hex.EncodeToString(sum[:6]) + "====="
}
