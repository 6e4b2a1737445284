package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

// Step is one launch of a pipeline's step.
type Step struct {
	Layout  artifact.Layout
	Launch  pipeline.Launch
	Token   string    // execution token
	Attempt int       // counts the executions of the launch
	Spent   llm.Usage // usage of earlier attempts

	// Agent is the ID of the agent that provides the step's model and tools, or "" if the
	// step has no agent.
	Agent string

	Prompt       string   // prompt of the definition
	Destinations []string // destinations of the definition
	Request      string   // request of the run

	StopAtFailure bool     // whether the definition's on_tool_error is fail
	Patterns      []string // text_matches of every rule of the definition, empty for none

	// Team is the status of a session step's team, or "" for other steps.
	Team string

	Contexts []step.Context // further material, by name

	// Messages returns the number of human messages. It is nil if messages do not reach a
	// running step.
	Messages func(ctx context.Context) (int, error)
}

// Spec reads the texts that the launch shows and builds the step from them.
func (s Step) Spec(ctx context.Context, store artifact.Store) (step.Spec, error) {
	o := &opened{Step: s, store: store}
	if err := o.load(ctx); err != nil {
		return step.Spec{}, err
	}
	number, err := s.committed(ctx, store)
	if err == nil && number == 0 {
		number, err = s.reserve(ctx, store)
	}
	if err != nil {
		return step.Spec{}, err
	}
	return step.Spec{
		Layout: s.Layout, Token: s.Token, Agent: s.owner(), Dir: s.dir, After: number - 1,
		Attempt:       step.Attempt{Number: s.Attempt, Spent: s.Spent, ResumeFrom: s.Launch.ResumeFrom, Uncounted: s.Launch.Uncounted},
		Shown:         step.Shown{Seen: map[string]int{}, Files: s.Launch.Workspace, Context: s.Contexts},
		MaxModelCalls: max(200, 2*s.Launch.Most), // the rules end the step before; summaries count here alone
		Open:          o.open, Seal: o.seal(ctx), Witnessed: o.witnessed,
		Documents: func(number int, c artifact.Commit) ([]step.Document, error) { return s.documents(store, number, c) },
	}, nil
}

// Place returns the part of the Spec that locates the step's records. It needs Layout, Launch
// and Token.
func (s Step) Place(ctx context.Context, store artifact.Store) (step.Spec, error) {
	spec := step.Spec{Layout: s.Layout, Token: s.Token, Agent: s.Agent, Dir: s.dir, After: s.Launch.After, Shown: step.Shown{Files: s.Launch.Workspace}}
	for n := s.Launch.After + 1; n <= s.Launch.After+maxNumbers; n++ {
		claim, err := artifact.ReadJSON[artifact.Claim](ctx, store, s.claimKey(n))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return spec, nil
		case err != nil:
			return spec, fmt.Errorf("reading the claim of the number %d: %w", n, err)
		case claim.Token == s.Token:
			spec.After = n - 1
			return spec, nil
		}
	}
	return spec, nil
}

func (s Step) claimKey(number int) string { return claimKey(s.Layout, number) }

func claimKey(layout artifact.Layout, number int) string {
	return layout.File(fmt.Sprintf("claims/%03d.json", number))
}

// Claimant returns the execution token of the step that claimed a number, or
// artifact.ErrNotFound.
func Claimant(ctx context.Context, store artifact.Store, layout artifact.Layout, number int) (string, error) {
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, store, claimKey(layout, number))
	return claim.Token, err
}

// Question reads the texts that the launch of a session step shows, and returns the question
// for its team.
func (s Step) Question(ctx context.Context, store artifact.Store) (string, error) {
	o := &opened{Step: s, store: store}
	if err := o.load(ctx); err != nil {
		return "", err
	}
	var err error
	o.task.Messages, err = readMessages(ctx, store, s.Layout, 0, s.Launch.Messages)
	return o.task.question(), err
}

func (s Step) dir(number int) string { return s.Layout.PipelineStep(number, s.Launch.Step, "") }

// maxNumbers bounds the taken numbers that reserve skips. After a workflow reset, the numbers
// of the earlier execution are taken.
const maxNumbers = 10_000

// reserve claims the first free number above that of the newest step, or finds the one that
// an earlier attempt claimed. Directories are named after both the number and the step, so
// without this claim two steps could have the same number.
func (s Step) reserve(ctx context.Context, store artifact.Store) (int, error) {
	for n := s.Launch.After + 1; n <= s.Launch.After+maxNumbers; n++ {
		key := s.claimKey(n)
		err := artifact.CreateJSON(ctx, store, key, artifact.Claim{Token: s.Token})
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, artifact.ErrExists) {
			return 0, fmt.Errorf("reserving the number %d: %w", n, err)
		}
		claim, err := artifact.ReadJSON[artifact.Claim](ctx, store, key)
		if err != nil {
			return 0, fmt.Errorf("reading the claim of the number %d: %w", n, err)
		}
		if claim.Token == s.Token {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no free number after %d tries", maxNumbers)
}

// committed returns the number of the step to resume if that step has a commit that the
// workflow does not know, and otherwise 0.
func (s Step) committed(ctx context.Context, store artifact.Store) (int, error) {
	if s.Launch.ResumeFrom == "" {
		return 0, nil
	}
	resumed := s
	resumed.Token = s.Launch.ResumeFrom
	spec, err := resumed.Place(ctx, store)
	if err != nil {
		return 0, err
	}
	there, err := store.Exists(ctx, s.dir(spec.After+1)+"action.json")
	if err != nil || !there {
		return 0, err
	}
	return spec.After + 1, nil
}

// opened is a step with its loaded task.
type opened struct {
	Step
	store artifact.Store
	task  task
	rules *rules // nil before open
}

// load reads the texts that the launch shows.
func (o *opened) load(ctx context.Context) error {
	l := o.Launch
	o.task = task{
		Kind: l.Kind, Prompt: o.Prompt, Request: o.Request, Destinations: o.Destinations, Deepest: l.Deepest, Closed: l.Closed, Used: l.Used, Most: l.Most, Omitted: l.Omitted,
		CostUSD: l.CostUSD, StopAtFailure: o.StopAtFailure, Frame: delimiter(o.Token),
	}
	for _, ref := range l.History {
		if ref.Textless {
			o.task.History = append(o.task.History, earlier{Step: ref.Step, Note: ref.Note})
			continue
		}
		c, err := ReadCommit(ctx, o.store, o.Layout, ref)
		if err != nil {
			return fmt.Errorf("reading the text of step %s: %w", ref.Step, err)
		}
		o.task.History = append(o.task.History, earlier{Step: ref.Step, Text: c.Text, Note: ref.Note})
	}
	if l.Return == nil {
		return nil
	}
	var err error
	o.task.Return, err = o.returned(ctx, *l.Return)
	return err
}

// delimiter derives the line between quoted texts from the execution token, which their
// authors cannot know.
func delimiter(token string) string {
	return "=====" + artifact.SumOf([]byte("segment " + token))[:12] + "====="
}

// returned reads the conversation of a caller and the result of its call.
func (o *opened) returned(ctx context.Context, r pipeline.Return) (*returned, error) {
	data, err := o.store.Get(ctx, o.Layout.Blob(r.Messages))
	var saved caller
	if err == nil {
		if artifact.SumOf(data) != r.Messages {
			err = artifact.ErrCorrupt
		} else {
			err = json.Unmarshal(data, &saved)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the conversation of the caller: %w", err)
	}
	var called pipeline.Ended
	if r.Called.Number > 0 { // else a caller without iterations, which ended without a launch
		if called, err = ReadCommit(ctx, o.store, o.Layout, r.Called); err != nil {
			return nil, fmt.Errorf("reading the result of the called step: %w", err)
		}
	}
	return &returned{Messages: saved.Messages, Heard: saved.Heard, Status: r.Status, Text: called.Text}, nil
}

// open builds the rules. The loop then passes them the journal of earlier attempts.
func (o *opened) open(access step.Access) (loop.Rules, []llm.Message, error) {
	task := o.task
	for _, tool := range access.Tools {
		task.Tools = append(task.Tools, tool.Name)
	}
	if o.Launch.Kind == pipeline.Agent { // tools and teams read no messages here
		task.News = o.news
	}
	o.rules = newRules(task)
	return o.rules, task.opening(), nil
}

// news reads the human messages after a number, including those sent after the launch.
func (o *opened) news(ctx context.Context, after int) ([]step.Message, error) {
	last := o.Launch.Messages
	if o.Messages != nil {
		announced, err := o.Messages(ctx)
		if err != nil {
			return nil, err
		}
		last = max(last, announced)
	}
	return readMessages(ctx, o.store, o.Layout, after, last)
}

// readMessages reads the human messages after the number after, up to last. The
// error is a *step.UnwrittenError while one is not stored.
func readMessages(ctx context.Context, store artifact.Store, layout artifact.Layout, after, last int) ([]step.Message, error) {
	var numbers []int
	for n := after + 1; n <= last; n++ {
		numbers = append(numbers, n)
	}
	return step.ReadMessages(ctx, store, layout, numbers)
}

// Messages returns the texts of the human messages after the number after, up to last.
func Messages(ctx context.Context, store artifact.Store, layout artifact.Layout, after, last int) ([]string, error) {
	messages, err := readMessages(ctx, store, layout, after, last)
	var texts []string
	for _, m := range messages {
		texts = append(texts, m.Text)
	}
	return texts, err
}

// witnessed returns the number of the last human message that the step read.
func (o *opened) witnessed() (map[string]int, int) {
	if o.rules == nil {
		return map[string]int{}, 0
	}
	return map[string]int{}, o.rules.heard
}
