package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/scenario"
	"conclave/engine/step"
	"conclave/workflows"
)

// Pipeline is the record of a pipeline's run.
type Pipeline struct {
	acts.State // content of status.json
	Created    time.Time
	Visits     []Visit
	Final      string
	Nodes      []string // names of the graph's steps, in configured order
	NoShell    string   // content of activities.ShellFile

	Run Run // where its files are
}

// Visit is an entry of the run's trace with the documents in its directory.
type Visit struct {
	pipeline.TraceEntry
	Dir        string // relative to the run
	Text       string
	Started    time.Time
	Ended      time.Time
	Transcript step.Transcript
	Session    string // ID of the team's session that decided the step; empty without one
	Files      []artifact.File
}

// Running reports whether the run has not ended.
func (p *Pipeline) Running() bool { return p.Status == workflows.Running }

// Ended returns the end of the last visit.
func (p *Pipeline) Ended() time.Time {
	var last time.Time
	for _, v := range p.Visits {
		if v.Ended.After(last) {
			last = v.Ended
		}
	}
	return last
}

// ReadPipeline reads a pipeline's run. A missing run is ErrNone.
func ReadPipeline(ctx context.Context, store artifact.Store, layout artifact.Layout) (*Pipeline, error) {
	p := &Pipeline{Run: Run{Kind: Pipelines, Store: store, Layout: layout}}
	if err := p.readDocuments(ctx); err != nil {
		return nil, err
	}
	for _, entry := range p.Trace {
		v := Visit{TraceEntry: entry, Text: entry.Text}
		if entry.Number > 0 {
			v.readStep(ctx, store, layout)
		}
		if entry.Team != "" {
			v.findTeam(ctx, store, p)
		}
		p.Visits = append(p.Visits, v)
	}
	return p, nil
}

// readDocuments reads the documents at the top of the run's directory, which may be missing except
// for the claim.
func (p *Pipeline) readDocuments(ctx context.Context) error {
	var claim struct {
		artifact.Owner
		Request   string    `json:"request"`
		CreatedAt time.Time `json:"created_at"`
	}
	var result acts.Result
	var c Team
	for name, into := range map[string]any{Pipelines.Claim: &claim, Pipelines.Status: &p.State, "result.json": &result, "config.json": &c, activities.ShellFile: &p.NoShell} {
		data, err := p.Run.Store.Get(ctx, p.Run.Layout.File(name))
		if errors.Is(err, artifact.ErrNotFound) && name != Pipelines.Claim {
			continue
		}
		if errors.Is(err, artifact.ErrNotFound) {
			return ErrNone
		}
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	p.ID, p.Request = cmp.Or(p.ID, claim.WorkflowID), cmp.Or(p.Request, claim.Request)
	p.Created, p.Final = claim.CreatedAt, result.Final
	if len(result.Trace) >= len(p.Trace) {
		p.Trace = result.Trace
	}
	for _, s := range c.Steps {
		p.Nodes = append(p.Nodes, s.Name)
	}
	return nil
}

// findTeam finds the session that decided a visit, if the store has it. The workflow derives its ID from
// those of run, step and launch. The visit has begun with its session, or else after the visit before.
func (v *Visit) findTeam(ctx context.Context, store artifact.Store, p *Pipeline) {
	token := v.Transcript.Claim.Token
	id := p.ID + "-" + v.Step + "-" + token[strings.LastIndex(token, "-")+1:]
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, artifact.InBucket(id).File(Sessions.Claim))
	began := session.CreatedAt
	if err == nil {
		v.Session = id
	}
	if n := len(p.Visits); began.IsZero() && n > 0 {
		began = p.Visits[n-1].Ended
	}
	if !began.IsZero() && began.Before(v.Started) {
		v.Started = began
	}
}

// readStep reads the documents of a step and ignores missing ones, because a step may have none.
func (v *Visit) readStep(ctx context.Context, store artifact.Store, layout artifact.Layout) {
	prefix := layout.InBranch(string(v.Branch)).PipelineStep(v.Number, v.Step, "")
	v.Dir = strings.TrimPrefix(prefix, layout.Root())
	if answer, err := artifact.ReadJSON[artifact.Answer](ctx, store, prefix+"answer.json"); err == nil {
		v.Text = answer.Answer
	}
	if m, err := artifact.ReadJSON[artifact.Manifest](ctx, store, prefix+"workspace.json"); err == nil {
		v.Files = m.Files
	}
	if t, err := step.ReadTranscript(ctx, store, layout, prefix); err == nil {
		v.Transcript, v.Started = t, t.Claim.StartedAt
		if t.Commit != nil {
			v.Ended = t.Commit.Timestamp
		}
	}
}

// ReadScenario reads a scenario's run. A missing run is ErrNone.
func ReadScenario(ctx context.Context, store artifact.Store, layout artifact.Layout) (scenario.Run, error) {
	key := layout.File(Scenarios.Status)
	run, err := artifact.ReadJSON[scenario.Run](ctx, store, key)
	if errors.Is(err, artifact.ErrNotFound) || err == nil && run.RunID == "" {
		return run, ErrNone
	}
	if err != nil {
		return run, fmt.Errorf("read %s: %w", store.URL(key), err)
	}
	return run, nil
}

// ReadEvidence returns a file of a scenario's run, or nil if it is missing or too large for a page.
func (r Run) ReadEvidence(ctx context.Context, path string) []byte {
	const most = 8 << 20
	body, err := r.Store.Open(ctx, r.Layout.File(path))
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil || len(data) > most {
		return nil
	}
	return data
}

// Content reads at most limit bytes of a file within the directory of a step. In a bucket the
// content is a blob, in a directory it is a file of the workspace.
func (r Run) Content(ctx context.Context, dir string, f artifact.File, limit int64) ([]byte, error) {
	if problem := f.Reserved(); problem != "" {
		return nil, fmt.Errorf("read %s of %s: %s: %w", f.Path, dir, problem, artifact.ErrNotFound)
	}
	escaped, err := artifact.EscapePath(f.Path)
	if err != nil {
		return nil, err
	}
	body, err := r.Store.Open(ctx, r.Layout.File(dir+"workspace/"+escaped))
	if errors.Is(err, artifact.ErrNotFound) && f.SHA256 != "" {
		body, err = r.Store.Open(ctx, r.Layout.Blob(f.SHA256))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", f.Path, dir, err)
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", f.Path, dir, err)
	}
	return data, nil
}
