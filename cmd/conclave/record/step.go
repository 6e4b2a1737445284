package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
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

func (s *stepReader) run(ctx context.Context) error {
	for _, read := range []func(context.Context) error{s.claim, s.commit, s.outcome, s.files, s.judgements, s.transcript} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read decodes a document of the step, if there is one.
func (s *stepReader) read(ctx context.Context, name string, into any) (bool, error) {
	data, err := s.r.get(ctx, s.p.Dir+name)
	if err != nil || data == nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		s.problems = append(s.problems, fmt.Sprintf("%s is left out: %v", s.p.Dir+name, err))
		return false, nil
	}
	return true, nil
}

func (s *stepReader) claim(ctx context.Context) error {
	var claim artifact.Claim
	_, err := s.read(ctx, "step.json", &claim)
	s.p.Started, s.p.Shown, s.p.Seen, s.p.Query = claim.StartedAt, claim.Labels, claim.SeenSteps, claim.Query
	return err
}

func (s *stepReader) commit(ctx context.Context) error {
	var c artifact.Commit
	found, err := s.read(ctx, "action.json", &c)
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

// outcome reads the document of the step's action. Steps of other programs have no commit.
func (s *stepReader) outcome(ctx context.Context) error {
	for _, kind := range []coordination.Action{coordination.NewAnswer, coordination.Vote, coordination.Stop} {
		if s.p.Action != "" && s.p.Action != string(kind) {
			continue
		}
		var found bool
		var at time.Time
		var err error
		switch kind {
		case coordination.NewAnswer:
			found, at, err = s.answer(ctx)
		case coordination.Vote:
			found, at, err = s.vote(ctx)
		default:
			found, at, err = s.stop(ctx)
		}
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		s.p.Action, s.p.Over = string(kind), true
		if s.p.Ended.IsZero() {
			s.p.Ended = at
		}
		return nil
	}
	switch coordination.Action(s.p.Action) {
	case coordination.NewAnswer, coordination.Vote, coordination.Stop:
		s.p.partial = true
	}
	return nil
}

func (s *stepReader) answer(ctx context.Context) (bool, time.Time, error) {
	var a artifact.Answer
	found, err := s.read(ctx, "answer.json", &a)
	if found {
		s.p.Answer = &Answer{Label: a.Label, Text: a.Answer, Final: coordination.IsFinal(a.Label)}
	}
	return found, a.Timestamp, err
}

func (s *stepReader) vote(ctx context.Context) (bool, time.Time, error) {
	var v struct {
		artifact.Vote
		Confidence *float64 `json:"confidence"`
	}
	found, err := s.read(ctx, "vote.json", &v)
	if found {
		s.p.Vote = &Vote{Target: v.Target, TargetLabel: v.TargetLabel, Reason: v.Reason, Confidence: v.Confidence}
		if s.p.Seen == nil || !s.p.heardKnown {
			s.p.Seen = v.SeenSteps
		}
	}
	return found, v.Timestamp, err
}

func (s *stepReader) stop(ctx context.Context) (bool, time.Time, error) {
	var d struct {
		Summary, Status string
		Timestamp       time.Time
	}
	found, err := s.read(ctx, "stop.json", &d)
	if found {
		s.p.Stop = &Stop{Summary: d.Summary, Status: d.Status}
	}
	return found, d.Timestamp, err
}

// files reads the list of an answer's files. Other programs write files without a manifest.
func (s *stepReader) files(ctx context.Context) error {
	if s.p.Answer == nil {
		return nil
	}
	var m struct {
		Files   []artifact.File `json:"files"`
		Removed []string        `json:"removed"`
	}
	found, err := s.read(ctx, "workspace.json", &m)
	s.p.partial = s.p.partial || s.committed.Manifest != "" && !found
	if err != nil || found || s.committed.Manifest != "" {
		s.p.Answer.Files, s.p.Answer.Removed = m.Files, m.Removed
		return err
	}
	prefix := s.r.layout.File(s.p.Dir + "workspace/")
	for object, err := range s.r.store.Objects(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("list the files of %s: %w", s.p.Dir, err)
		}
		name := unescape(strings.TrimPrefix(object.Key, prefix))
		s.p.Answer.Files = append(s.p.Answer.Files, artifact.File{Path: name, Size: object.Size})
	}
	return nil
}

// transcript reads the rejections of a step. For a step without an action it also sets the usage
// and the end.
func (s *stepReader) transcript(ctx context.Context) error {
	p := s.p
	data, err := step.ReadCommitted(ctx, s.r.store, s.r.layout, s.r.layout.File(p.Dir), s.committed)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("read %s: %w", s.r.store.URL(s.r.layout.File(p.Dir+"transcript.jsonl")), err)
	}
	acted := p.Over
	p.partial = p.partial || p.heardKnown && data == nil
	p.Over = p.Over || data != nil
	if !p.Over {
		return s.journal(ctx)
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
	s.summarize(t)
	if !acted {
		return s.failure(ctx)
	}
	return nil
}

// journal reads the transcript of a running step.
func (s *stepReader) journal(ctx context.Context) error {
	key := s.r.layout.File(s.p.Dir)
	t, err := step.ReadTranscript(ctx, s.r.store, s.r.layout, key)
	if err != nil {
		return nil //nolint:nilerr // a step of another program, or one that ended in between, has no journal
	}
	s.summarize(t)
	s.p.Ended = time.Time{}
	return s.failure(ctx)
}

// failure reads the error of the agent's last step.
func (s *stepReader) failure(ctx context.Context) error {
	var last artifact.LastAction
	data, err := s.r.get(ctx, "agents/"+strings.Split(s.p.Dir, "/")[1]+"/last_action.json")
	if err != nil || data == nil || json.Unmarshal(data, &last) != nil || last.StepNumber != s.p.Number {
		return err
	}
	if s.p.Error = last.Error; last.Error != nil || last.Action == "none" {
		s.p.Ended, s.p.Usage = last.Timestamp, last.Cost
	}
	return nil
}

func (s *stepReader) summarize(t step.Transcript) {
	for _, l := range t.Lines {
		if l.Kind == loop.Rejection {
			s.p.Rejections = append(s.p.Rejections, Rejection{Code: l.Reason, Text: told(l.Messages)})
		}
	}
	if s.p.Action == "" && len(t.Lines) > 0 {
		s.p.Usage, s.p.Ended = t.Usage(), t.Lines[len(t.Lines)-1].Time
	}
}

// told returns the beginning of the message that rejected a reply.
func told(messages []llm.Message) string {
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
	return step.ReadTranscript(ctx, r.store, r.layout, r.layout.File(p.Dir))
}

// Content reads at most limit bytes of a file of the answer in the directory of a step.
func (r *Reader) Content(ctx context.Context, dir string, f artifact.File, limit int64) ([]byte, error) {
	return readContent(ctx, r.store, r.layout, dir, f, limit)
}
