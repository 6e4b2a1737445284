package record

import (
	"context"
	"maps"
	"slices"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/check"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
	"conclave/engine/team/evaluator"
)

// Broken returns the checks that fail on the newest answer of every agent on which they have
// run. They do not count.
func (s *Session) Broken() []check.Result {
	newest := map[string]*Step{}
	for _, p := range s.Answers() {
		if !p.Answer.Final {
			newest[p.Agent] = p
		}
	}
	var failed []check.Result
	passed := map[string]bool{}
	for _, agent := range slices.Sorted(maps.Keys(newest)) {
		for _, c := range newest[agent].Checks {
			switch {
			case c.Passed:
				passed[c.Check] = true
			case !slices.ContainsFunc(failed, func(f check.Result) bool { return f.Check == c.Check }):
				failed = append(failed, c)
			}
		}
	}
	return slices.DeleteFunc(failed, func(c check.Result) bool { return passed[c.Check] })
}

// Evaluation is the evaluation of an answer.
type Evaluation struct {
	evaluator.Rating
	Packet  string               // text in Markdown
	Tasks   *evaluator.NextTasks // tasks for the next version; nil without a plan
	Started time.Time
	Ended   time.Time
	Usage   llm.Usage
}

// Ceiling returns how close the approach is to its best result, or "" if the evaluation does not
// say.
func (e *Evaluation) Ceiling() coordination.CeilingStatus {
	if e.Tasks == nil {
		return ""
	}
	return e.Tasks.Assessment.Ceiling.CeilingStatus
}

// judgements reads the outcomes of checks and the evaluation of an answer, which are written
// after the answer's step.
func (s *stepReader) judgements(ctx context.Context) error {
	if s.p.Answer == nil {
		return nil
	}
	s.p.Checks = nil
	if _, err := s.read(ctx, "checks.json", &s.p.Checks); err != nil {
		return err
	}
	var e Evaluation
	found, err := s.read(ctx, "evaluator/verdict.json", &e.Rating)
	if err != nil || !found {
		return err
	}
	packet, err := s.r.get(ctx, s.p.Dir+"evaluator/critique_packet.md")
	if err != nil {
		return err
	}
	e.Packet = string(packet)
	var tasks evaluator.NextTasks
	if found, err = s.read(ctx, "evaluator/next_tasks.json", &tasks); err != nil {
		return err
	}
	if found {
		e.Tasks = &tasks
	}
	var c artifact.Commit
	if _, err := s.read(ctx, "evaluator/action.json", &c); err != nil {
		return err
	}
	e.Started, e.Ended, e.Usage = c.StartedAt, c.Timestamp, c.Usage
	s.p.Evaluation = &e
	return nil
}

// judged counts the events about an answer that announce outcomes of checks or an evaluation.
func judged(about []coordination.Entry) int {
	n := 0
	for _, e := range about {
		if e.Kind == coordination.EntryChecked || e.Kind == coordination.EntryCritiqued {
			n++
		}
	}
	return n
}

// EvaluationTranscript reads the transcript of the evaluation of a step's answer. The
// evaluation may still be running.
func (r *Reader) EvaluationTranscript(ctx context.Context, p *Step) (step.Transcript, error) {
	return step.ReadTranscript(ctx, r.store, r.layout, r.layout.File(p.Dir+"evaluator/"))
}
