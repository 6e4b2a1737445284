package worker

import (
	"context"
	"os"
	"slices"
	"time"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/redact"
	"conclave/engine/scratch"
	"conclave/engine/step"
)

// Local provides models and tools to steps that run outside a worker, as in `conclave step`.
type Local struct {
	scratch *scratch.Dir
	models  Models
	tools   *Tools
}

// OpenLocal creates a temporary directory for workspaces. The caller must close the Local.
func OpenLocal(m Models, t *Tools) (*Local, error) {
	s, err := scratch.Open("", scratch.Worker)
	if err != nil {
		return nil, err
	}
	return &Local{scratch: s, models: m, tools: t}, nil
}

// Ports returns the ports for a step of an agent, except the store. It returns the error of
// Models.Model.
func (l *Local) Ports(a config.Agent) (step.Ports, error) {
	model, err := l.models.Model(a)
	if err != nil {
		return step.Ports{}, err
	}
	none, unread := l.models.NoCalls(a)
	return step.Ports{
		Model: model, Window: l.models.Window(a), NoCalls: none, UnreadCalls: unread, Now: time.Now, Scratch: l.scratch.Path,
		Tools: func(ctx context.Context, workspace string) (step.Tools, error) {
			return l.tools.Open(ctx, a, workspace, activities.Sharing{})
		},
		Repeatable: l.tools.repeatable,
		Redact:     redact.New(redact.Environment(slices.Concat(os.Environ(), l.tools.secrets()))).Bytes,
	}, nil
}

// SharedServers returns the names of the agent's MCP servers with scope session. Local steps do not
// share them: each step starts its own.
func (l *Local) SharedServers(a config.Agent) []string {
	servers, err := l.tools.serversOf(a)
	if err != nil {
		return nil // Open reports the error
	}
	var names []string
	for _, s := range servers {
		if s.Shared {
			names = append(names, s.Name)
		}
	}
	return names
}

// Close removes remaining workspaces and the HOMEs of MCP servers.
func (l *Local) Close() {
	l.scratch.Close()
	l.tools.release()
}
