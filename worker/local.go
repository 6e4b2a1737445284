package worker

import (
	"context"
	"os"
	"slices"
	"time"

	"conclave/engine/config"
	"conclave/engine/redact"
	"conclave/engine/step"
)

// Local is what a step needs of this process where no worker runs it: the same
// models, tools and secrets that a worker's steps have.
type Local struct {
	scratch *scratch
	models  Models
	tools   *Tools
}

// OpenLocal makes a place for workspaces in the system's temporary directory and
// clears away those of processes that are gone. The caller closes it.
func OpenLocal(m Models, t *Tools) (*Local, error) {
	s, err := openScratch("")
	if err != nil {
		return nil, err
	}
	return &Local{scratch: s, models: m, tools: t}, nil
}

// Ports are those of a step of the agent, but for the store. The error is that of
// Models.Model.
func (l *Local) Ports(a config.Agent) (step.Ports, error) {
	model, err := l.models.Model(a)
	if err != nil {
		return step.Ports{}, err
	}
	return step.Ports{
		Model: model, Window: l.models.Window(a), Now: time.Now, Scratch: l.scratch.dir,
		Tools: func(ctx context.Context, workspace string) (step.Tools, error) {
			return l.tools.Open(ctx, a, workspace)
		},
		Repeatable: l.tools.repeatable,
		Redact:     redact.New(redact.Environment(slices.Concat(os.Environ(), l.tools.secrets()))).Bytes,
	}, nil
}

// Scratch is the directory in which the workspaces lie.
func (l *Local) Scratch() string { return l.scratch.dir }

// Close removes what is left of the workspaces.
func (l *Local) Close() { l.scratch.close() }
