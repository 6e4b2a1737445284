package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
	"conclave/engine/team"
)

// record rebuilds the state of a session from the store after its workflow run was cut off.
type record struct {
	store  artifact.Store
	layout artifact.Layout
	book   team.Book

	last time.Time // the newest claim or commit
	lost coordination.Lost

	events   map[string]coordination.Event // events of committed steps on the ledger, by agent and step
	lacking  []committed
	rejected []committed
}

// committed is a committed step and the time of its commit.
type committed struct {
	coordination.Recorded
	at time.Time
}

// read reads the agents' steps, then the ledger.
func (r *record) read(ctx context.Context, agents []string) (coordination.Lost, error) {
	r.events = map[string]coordination.Event{}
	for _, agent := range agents {
		if err := r.readAgent(ctx, agent); err != nil {
			return coordination.Lost{}, err
		}
	}
	for _, e := range r.book.Entries {
		r.lost.Ledger = append(r.lost.Ledger, coordination.Recorded{Accepted: e.Accepted, Event: r.events[stepKey(e.Agent, e.Step)]})
	}
	byTime := func(x, y committed) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.Agent, y.Agent)) }
	slices.SortFunc(r.lacking, byTime)
	for _, c := range r.lacking {
		r.lost.Lacking = append(r.lost.Lacking, c.Recorded)
	}
	slices.SortFunc(r.rejected, byTime)
	for _, c := range r.rejected {
		r.lost.Rejected = append(r.lost.Rejected, coordination.StepOf{Agent: c.Agent, End: coordination.End{Step: c.Step}})
	}
	var err error
	r.lost.Events, err = r.countEvents(ctx)
	return r.lost, err
}

func stepKey(agent string, number int) string { return agent + "/" + strconv.Itoa(number) }

// readAgent reads the steps of an agent, in order.
func (r *record) readAgent(ctx context.Context, agent string) error {
	numbers, evaluations, err := r.steps(ctx, agent)
	if err == nil {
		err = r.readEvaluations(ctx, agent, evaluations)
	}
	if err != nil {
		return err
	}
	recorded, last := map[int]bool{}, 0
	for _, e := range r.book.Entries {
		if e.Agent == agent && e.Action != coordination.Say {
			recorded[e.Step] = true
			last = max(last, e.Step)
		}
	}
	var open *coordination.OpenStep
	for _, number := range numbers {
		commit, err := artifact.ReadJSON[artifact.Commit](ctx, r.store, r.layout.Step(agent, number, "action.json"))
		switch {
		case err == nil:
			if err = r.succeed(ctx, open, number); err == nil {
				err = r.addCommit(ctx, agent, number, commit, recorded[number], number > last)
			}
			open = nil
		case errors.Is(err, artifact.ErrNotFound):
			open, err = r.unfinished(ctx, agent, number, open)
		}
		if err != nil {
			return fmt.Errorf("reading step %d of %s: %w", number, agent, err)
		}
	}
	if open != nil {
		r.lost.Open = append(r.lost.Open, *open)
	}
	return nil
}

// steps returns an agent's claimed step numbers and the directories of the evaluations of its
// answers, each sorted.
func (r *record) steps(ctx context.Context, agent string) (numbers []int, evaluations []string, err error) {
	prefix := r.layout.Agent(agent, "")
	for key, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return nil, nil, fmt.Errorf("listing the steps of %s: %w", agent, err)
		}
		name, found := strings.CutSuffix(strings.TrimPrefix(key, prefix), "/step.json")
		number, err := strconv.Atoi(name)
		switch {
		case !found:
		case err == nil:
			numbers = append(numbers, number)
		case strings.Contains(name+"/", "/evaluator/"):
			evaluations = append(evaluations, prefix+name+"/")
		}
	}
	slices.Sort(numbers)
	slices.Sort(evaluations)
	return numbers, evaluations, nil
}

// readEvaluations reads the evaluations of an agent's answers. If one has no outcome, the answer is
// evaluated again, and only the usage of the first evaluation counts.
func (r *record) readEvaluations(ctx context.Context, agent string, dirs []string) error {
	for _, dir := range dirs {
		t, err := step.ReadTranscript(ctx, r.store, r.layout, dir)
		if err != nil {
			return fmt.Errorf("reading an evaluation of %s: %w", agent, err)
		}
		answer, _, _ := strings.Cut(strings.TrimPrefix(dir, r.layout.Agent(agent, "")), "/")
		number, err := strconv.Atoi(answer)
		if err != nil {
			continue
		}
		if t.Commit != nil {
			outcome, err := team.ReadOutcome(*t.Commit)
			if err == nil && outcome.Critique != nil {
				e := coordination.EvaluationOf{Agent: agent, Critique: *outcome.Critique, Usage: t.Commit.Usage}
				e.Step = number
				r.lost.Evaluated = append(r.lost.Evaluated, e)
				continue
			}
		}
		r.lost.Ended = append(r.lost.Ended, coordination.StepOf{Agent: agent, End: coordination.End{Usage: t.Usage()}})
	}
	return nil
}

// addCommit adds a committed step. A step on the ledger becomes the event of its entry, and a newer
// action becomes one that the ledger lacks; of any other only the usage is added.
func (r *record) addCommit(ctx context.Context, agent string, number int, c artifact.Commit, recorded, newest bool) error {
	if c.Timestamp.After(r.last) {
		r.last = c.Timestamp
	}
	outcome, err := team.ReadOutcome(c)
	if err != nil {
		return err
	}
	end := coordination.End{Step: number, Usage: c.Usage}
	event, err := r.eventOf(ctx, c, outcome, &end)
	if err != nil {
		return err
	}
	made := committed{at: c.Timestamp, Recorded: coordination.Recorded{
		Accepted: coordination.Accepted{Agent: agent, Step: number, Action: outcome.Action}, Event: event,
	}}
	switch {
	case event != nil && recorded:
		r.events[stepKey(agent, number)] = event
		return nil
	case event != nil && newest:
		r.lacking = append(r.lacking, made)
		return nil
	case outcome.Action == coordination.RestartTeam:
		r.rejected = append(r.rejected, made)
	}
	r.lost.Ended = append(r.lost.Ended, coordination.StepOf{Agent: agent, End: end})
	return nil
}

// eventOf returns the event of a committed action, or nil if it does not belong to a round of a team.
// It adds the usage of the judge of equality to the end.
func (r *record) eventOf(ctx context.Context, c artifact.Commit, o team.Outcome, end *coordination.End) (coordination.Event, error) {
	switch o.Action {
	case coordination.NewAnswer:
		var answer team.Answer
		if err := json.Unmarshal(c.Payload, &answer); err != nil || coordination.IsFinal(answer.Label) {
			return nil, err
		}
		class, err := team.ReadClass(ctx, r.store, r.layout, o.Digest)
		if err != nil {
			return nil, err
		}
		if class.Token == c.Token { // the judge was asked about this answer
			end.Usage = end.Usage.Add(class.Usage)
		}
		return coordination.Answered{End: *end, Seen: o.Seen, Heard: o.Heard, Digest: class.Apply(o.Digest)}, nil
	case coordination.Vote:
		return coordination.Voted{
			End: *end, Target: o.Target, TargetLabel: o.TargetLabel, Reason: o.Reason, Seen: o.Seen, Heard: o.Heard, Confidence: o.Confidence,
		}, nil
	case coordination.Stop:
		return coordination.Stopped{End: *end, Status: o.Status, Summary: o.Summary, Seen: o.Seen, Heard: o.Heard}, nil
	}
	return nil, nil
}

// succeed ends an open step after which the agent has made the step with a later number. It counts
// the usage of the open step, unless that of the later step includes it.
func (r *record) succeed(ctx context.Context, open *coordination.OpenStep, number int) error {
	if open == nil || open.Usage.ModelCalls == 0 {
		return nil
	}
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, r.store, r.layout.Step(open.Agent, number, "step.json"))
	if err == nil && !continues(claim, open) {
		r.lost.Ended = append(r.lost.Ended, coordination.StepOf{Agent: open.Agent, End: coordination.End{Step: open.Step, Usage: open.Usage}})
	}
	return err
}

// continues reports whether a step resumed the open step, so that its usage includes that of the
// open step.
func continues(claim artifact.Claim, open *coordination.OpenStep) bool {
	return claim.Uncounted && claim.ResumeFrom == open.Token
}

// unfinished reads a step without an action. before is the agent's open step before it, or nil. It
// returns the new open step: this one if it has a journal, and otherwise the one before.
func (r *record) unfinished(ctx context.Context, agent string, number int, before *coordination.OpenStep) (*coordination.OpenStep, error) {
	t, err := step.ReadTranscript(ctx, r.store, r.layout, r.layout.Step(agent, number, ""))
	if err != nil {
		return nil, err
	}
	if t.Claim.StartedAt.After(r.last) {
		r.last = t.Claim.StartedAt
	}
	journal, err := r.store.Exists(ctx, r.layout.Journal(t.Claim.Token, 1))
	if err != nil {
		return nil, err
	}
	ended := coordination.StepOf{Agent: agent, End: coordination.End{Step: number}}
	open := &coordination.OpenStep{Agent: agent, Step: number, Token: t.Claim.Token, Usage: t.Usage(), Seen: coordination.SeenOf(t.Claim.SeenSteps)}
	switch {
	case !journal || t.Over:
		ended.Usage, open.Usage = open.Usage, llm.Usage{}
	case before != nil && continues(t.Claim, before):
		open.Usage, before.Usage = open.Usage.Add(before.Usage), llm.Usage{}
	}
	r.lost.Ended = append(r.lost.Ended, ended)
	if !journal {
		return before, nil
	}
	return open, r.succeed(ctx, before, number)
}

// countEvents returns the number of the last event on record.
func (r *record) countEvents(ctx context.Context) (int, error) {
	data, err := r.store.Get(ctx, r.layout.File("events.jsonl"))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return 0, err
	}
	return bytes.Count(data, []byte("\n")), nil
}
