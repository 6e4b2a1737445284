package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/engine/step"
	"conclave/workflows/drive"
)

// Pipeline is the record of a pipeline's run.
type Pipeline struct {
	ID      string
	Request string
	Status  string
	Reason  string
	Parked  string
	Paused  bool
	Step    string // running or next; empty if there is neither
	Created time.Time
	Usage   llm.Usage
	Visits  []Visit
	Final   string
	Nodes   []string // names of the graph's steps, in configured order

	store  artifact.Store
	layout artifact.Layout
}

// Content reads at most limit bytes of a file in the directory of a visit.
func (p *Pipeline) Content(ctx context.Context, dir string, f artifact.File, limit int64) ([]byte, error) {
	return readContent(ctx, p.store, p.layout, dir, f, limit)
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
func (p *Pipeline) Running() bool { return p.Status == drive.Running }

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
	var docs pipelineDocuments
	if err := docs.read(ctx, store, layout); err != nil {
		return nil, err
	}
	p := docs.pipeline()
	p.store, p.layout = store, layout
	trace := docs.result.Trace
	if len(trace) < len(docs.status.Trace) {
		trace = docs.status.Trace
	}
	for _, entry := range trace {
		v := Visit{TraceEntry: entry, Text: entry.Text}
		if entry.Number > 0 {
			v.read(ctx, store, layout)
		}
		if entry.Team != "" {
			v.Session = teamSession(ctx, store, p.ID, v)
		}
		p.Visits = append(p.Visits, v)
	}
	return p, nil
}

// pipelineDocuments are the documents at the top of a run's directory.
type pipelineDocuments struct {
	claim struct {
		artifact.Owner
		Request   string    `json:"request"`
		CreatedAt time.Time `json:"created_at"`
	}
	status struct {
		ID      string  `json:"id"`
		Request string  `json:"request"`
		Status  string  `json:"status"`
		Reason  string  `json:"reason"`
		Parked  *string `json:"parked"`
		pipeline.View
	}
	result struct {
		Trace []pipeline.TraceEntry `json:"trace"`
		Final string                `json:"final"`
	}
	config struct {
		Steps []struct {
			Name string `json:"name"`
		} `json:"steps"`
	}
}

// read reads the documents that exist. Without pipeline.json it returns ErrNone.
func (d *pipelineDocuments) read(ctx context.Context, store artifact.Store, layout artifact.Layout) error {
	found := false
	for name, into := range map[string]any{"pipeline.json": &d.claim, "status.json": &d.status, "result.json": &d.result, "config.json": &d.config} {
		data, err := store.Get(ctx, layout.File(name))
		if errors.Is(err, artifact.ErrNotFound) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		found = found || name == "pipeline.json"
	}
	if !found {
		return ErrNone
	}
	return nil
}

// pipeline returns the run without its visits.
func (d *pipelineDocuments) pipeline() *Pipeline {
	p := &Pipeline{
		ID: d.claim.WorkflowID, Request: d.claim.Request, Status: d.status.Status, Reason: d.status.Reason, Created: d.claim.CreatedAt,
		Usage: d.status.Usage, Final: d.result.Final, Paused: d.status.Paused, Step: d.status.Step,
	}
	if d.status.ID != "" {
		p.ID, p.Request = d.status.ID, d.status.Request
	}
	if d.status.Parked != nil {
		p.Parked = *d.status.Parked
	}
	for _, s := range d.config.Steps {
		p.Nodes = append(p.Nodes, s.Name)
	}
	return p
}

// teamSession returns the ID of the session that decided a visit, or "" if the store has no
// such session. The workflow derives the ID from those of run, step and launch.
func teamSession(ctx context.Context, store artifact.Store, run string, v Visit) string {
	token := v.Transcript.Claim.Token
	id := run + "-" + v.Step + "-" + token[strings.LastIndex(token, "-")+1:]
	if there, err := store.Exists(ctx, artifact.InBucket(id).File("session.json")); err != nil || !there {
		return ""
	}
	return id
}

// read reads the documents of a step and ignores missing ones, because a step may have none.
func (v *Visit) read(ctx context.Context, store artifact.Store, layout artifact.Layout) {
	prefix := layout.PipelineStep(v.Number, v.Step, "")
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
