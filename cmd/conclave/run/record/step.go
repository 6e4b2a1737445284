package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/engine/session/quality"
	"conclave/engine/step"
	"conclave/engine/text"
)

// stepReader reads one step.
type stepReader struct {
	r         *Reader
	p         *Step
	problems  []string
	committed artifact.Commit // zero without a commit
}

func (s *stepReader) readStep(ctx context.Context) error {
	for _, read := range []func(context.Context) error{s.readClaim, s.readCommit, s.readOutcome, s.readFiles, s.readJudgements, s.readTranscript} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readDocument decodes a document of the step, if there is one.
func (s *stepReader) readDocument(ctx context.Context, name string, into any) (bool, error) {
	data, err := s.r.getFile(ctx, s.p.Dir+name)
	if err != nil || data == nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		s.problems = append(s.problems, fmt.Sprintf("%s is left out: %v", s.p.Dir+name, err))
		return false, nil
	}
	return true, nil
}

func (s *stepReader) readClaim(ctx context.Context) error {
	var claim artifact.Claim
	_, err := s.readDocument(ctx, "step.json", &claim)
	s.p.Started, s.p.Shown, s.p.Seen, s.p.Query = claim.StartedAt, claim.Labels, claim.SeenSteps, claim.Query
	return err
}

func (s *stepReader) readCommit(ctx context.Context) error {
	var c artifact.Commit
	found, err := s.readDocument(ctx, "action.json", &c)
	if err != nil || !found {
		return err
	}
	p := s.p
	p.Over, p.Action, p.Ended, p.Usage = true, c.Kind, c.Timestamp, c.Usage
	p.Seen, p.Heard, p.heardKnown = c.SeenSteps, c.Heard, true
	s.committed = c
	if p.Started.IsZero() {
		p.Started = c.StartedAt
	}
	return nil
}

// readOutcome reads the document of the step's action. Steps of other programs have no commit.
func (s *stepReader) readOutcome(ctx context.Context) error {
	for _, document := range []struct {
		of   coordination.Action
		read func(context.Context) (found bool, at time.Time, err error)
	}{{coordination.NewAnswer, s.readAnswer}, {coordination.Vote, s.readVote}, {coordination.Stop, s.readStop}} {
		if s.p.Action != "" && s.p.Action != string(document.of) {
			continue
		}
		found, at, err := document.read(ctx)
		if err != nil {
			return err
		}
		if !found {
			s.p.partial = s.p.Action != ""
			continue
		}
		s.p.Action, s.p.Over = string(document.of), true
		if s.p.Ended.IsZero() {
			s.p.Ended = at
		}
		return nil
	}
	return nil
}

func (s *stepReader) readAnswer(ctx context.Context) (bool, time.Time, error) {
	var a artifact.Answer
	found, err := s.readDocument(ctx, "answer.json", &a)
	if found {
		s.p.Answer = &Answer{Label: a.Label, Text: a.Answer, Data: a.Data, Final: coordination.IsFinal(a.Label)}
	}
	return found, a.Timestamp, err
}

func (s *stepReader) readVote(ctx context.Context) (bool, time.Time, error) {
	var v artifact.Vote
	found, err := s.readDocument(ctx, "vote.json", &v)
	if found {
		s.p.Vote = &Vote{Vote: v}
		if s.p.Seen == nil || !s.p.heardKnown {
			s.p.Seen = v.SeenSteps
		}
	}
	return found, v.Timestamp, err
}

func (s *stepReader) readStop(ctx context.Context) (bool, time.Time, error) {
	var d struct {
		Summary, Status string
		Timestamp       time.Time
	}
	found, err := s.readDocument(ctx, "stop.json", &d)
	if found {
		s.p.Stop = &Stop{Summary: d.Summary, Status: d.Status}
	}
	return found, d.Timestamp, err
}

// readFiles reads the list of an answer's files. Other programs write files without a manifest.
func (s *stepReader) readFiles(ctx context.Context) error {
	if s.p.Answer == nil {
		return nil
	}
	var m struct {
		Files   []artifact.File `json:"files"`
		Removed []string        `json:"removed"`
	}
	found, err := s.readDocument(ctx, "workspace.json", &m)
	s.p.partial = s.p.partial || s.committed.Manifest != "" && !found
	if err != nil || found || s.committed.Manifest != "" {
		s.p.Answer.Files, s.p.Answer.Removed = m.Files, m.Removed
		if s.r.base != nil && found {
			s.p.Answer.subtractBase(s.r.base)
		}
		return err
	}
	prefix := s.r.Layout.File(s.p.Dir + "workspace/")
	for object, err := range s.r.Store.Objects(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("list the files of %s: %w", s.p.Dir, err)
		}
		name := unescapeName(strings.TrimPrefix(object.Key, prefix))
		s.p.Answer.Files = append(s.p.Answer.Files, artifact.File{Path: name, Size: object.Size})
	}
	return nil
}

// subtractBase keeps the files that differ from those of a base.
func (a *Answer) subtractBase(base map[string]artifact.File) {
	kept := map[string]bool{}
	for _, f := range a.Files {
		kept[f.Path] = true
	}
	a.Files = slices.DeleteFunc(a.Files, func(f artifact.File) bool { return base[f.Path] == f })
	for _, path := range slices.Sorted(maps.Keys(base)) {
		if !kept[path] {
			a.Removed = append(a.Removed, path)
		}
	}
}

// readTranscript reads the rejections of a step. For a step without an action it also sets the usage
// and the end.
func (s *stepReader) readTranscript(ctx context.Context) error {
	p := s.p
	data, err := step.ReadCommitted(ctx, s.r.Store, s.r.Layout, s.r.Layout.File(p.Dir), s.committed)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("read %s: %w", s.r.Store.URL(s.r.Layout.File(p.Dir+"transcript.jsonl")), err)
	}
	acted := p.Over
	p.partial = p.partial || p.heardKnown && data == nil
	p.Over = p.Over || data != nil
	if !p.Over {
		return s.readJournal(ctx)
	}
	var t step.Transcript
	for line := range bytes.Lines(data) {
		if acted && !bytes.Contains(line, []byte(`"`+loop.Rejection+`"`)) {
			continue
		}
		var l step.Line
		if json.Unmarshal(line, &l) == nil {
			t.Lines = append(t.Lines, l)
		}
	}
	p.Over = acted || !t.AwaitsCommit()
	s.summarizeLines(t)
	if !acted {
		return s.readFailure(ctx)
	}
	return nil
}

func (s *stepReader) readJournal(ctx context.Context) error {
	key := s.r.Layout.File(s.p.Dir)
	t, err := step.ReadTranscript(ctx, s.r.Store, s.r.Layout, key)
	if err != nil {
		return nil //nolint:nilerr // a step of another program, or one that ended in between, has no journal
	}
	s.summarizeLines(t)
	s.p.Ended = time.Time{}
	return s.readFailure(ctx)
}

// readFailure reads the error of the step. In a session it is known of an agent's last step only.
func (s *stepReader) readFailure(ctx context.Context) error {
	name, inSession := path.Join(s.p.Dir, "last_action.json"), s.r.Kind == Sessions
	if inSession {
		name = path.Join(s.p.Dir, "../last_action.json")
	}
	var last artifact.LastAction
	data, err := s.r.getFile(ctx, name)
	if err != nil || data == nil || json.Unmarshal(data, &last) != nil || inSession && last.StepNumber != s.p.Number {
		return err
	}
	if s.p.Error = last.Error; last.Error != nil || last.Action == "none" {
		s.p.Ended, s.p.Usage = last.Timestamp, last.Cost
	}
	return nil
}

func (s *stepReader) summarizeLines(t step.Transcript) {
	for _, l := range t.Lines {
		if l.Kind == loop.Rejection {
			s.p.Rejections = append(s.p.Rejections, Rejection{Code: l.Reason, Text: rejectionText(l.Messages)})
		}
	}
	if s.p.Action == "" && len(t.Lines) > 0 {
		s.p.Usage, s.p.Ended = t.Usage(), t.Lines[len(t.Lines)-1].Time
	}
}

func rejectionText(messages []llm.Message) string {
	const enough = 400
	for _, m := range messages {
		if m.Content != "" {
			return text.Truncate(text.OneLine(m.Content), enough)
		}
	}
	return ""
}

// Transcript reads the transcript of a step, which may still be running.
func (r *Reader) Transcript(ctx context.Context, p *Step) (step.Transcript, error) {
	return step.ReadTranscript(ctx, r.Store, r.Layout, r.Layout.File(p.Dir))
}

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

// Evaluations is the directory of an answer's evaluation, within the directory of its step.
const Evaluations = "evaluator/"

// Evaluation is the evaluation of an answer.
type Evaluation struct {
	quality.Rating
	Packet  string             // text in Markdown
	Tasks   *quality.NextTasks // tasks for the next version; nil without a plan
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

// readJudgements reads the outcomes of checks and the evaluation of an answer, which are written
// after the answer's step.
func (s *stepReader) readJudgements(ctx context.Context) error {
	if s.p.Answer == nil {
		return nil
	}
	s.p.Checks = nil
	if _, err := s.readDocument(ctx, "checks.json", &s.p.Checks); err != nil {
		return err
	}
	var e Evaluation
	found, err := s.readDocument(ctx, Evaluations+"verdict.json", &e.Rating)
	if err != nil || !found {
		return err
	}
	packet, err := s.r.getFile(ctx, s.p.Dir+Evaluations+"critique_packet.md")
	if err != nil {
		return err
	}
	e.Packet = string(packet)
	var tasks quality.NextTasks
	if found, err = s.readDocument(ctx, Evaluations+"next_tasks.json", &tasks); err != nil {
		return err
	}
	if found {
		e.Tasks = &tasks
	}
	var c artifact.Commit
	if _, err := s.readDocument(ctx, Evaluations+"action.json", &c); err != nil {
		return err
	}
	e.Started, e.Ended, e.Usage = c.StartedAt, c.Timestamp, c.Usage
	s.p.Evaluation = &e
	return nil
}

func countJudgements(about []coordination.Entry) int {
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
	return step.ReadTranscript(ctx, r.Store, r.Layout, r.Layout.File(p.Dir+Evaluations))
}
