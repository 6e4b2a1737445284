package workertest

import (
	"context"

	"conclave/activities"
	"conclave/activities/tools"
	"conclave/engine/approval"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/overlay"
	"conclave/engine/loop"
	"conclave/engine/session/check"
	"conclave/engine/step"
)

// Worker implements activities.Equipment and activities.Server for tests; each function replaces one
// method. By default it lacks nothing, has the tools for files, knows no prices, is the only worker, and its
// server accepts everything.
type Worker struct {
	OnModel      func(config.Agent) (loop.Model, error)
	OnPriced     func(config.Agent) bool
	Unconfined   error // result of Confined
	OnOpenTools  func(context.Context, config.Agent, string, activities.Sharing) (step.Tools, error)
	OnLacks      func(context.Context, config.Agent) error
	OnConfine    func(context.Context, check.Confined) (check.Ended, error)
	OnHeartbeat  func(ctx context.Context, taskToken []byte, details ...any) error
	OnBell       func(ctx context.Context, workflowID, runID string) (coordination.Ring, error)
	OnSignal     func(ctx context.Context, workflowID, runID, signal string, arg any) error
	OnAlone      func(context.Context) bool
	OnAttributes func(context.Context) []string
}

var (
	_ activities.Equipment = (*Worker)(nil)
	_ activities.Server    = (*Worker)(nil)
)

// Model implements activities.Equipment.
func (w *Worker) Model(a config.Agent) (loop.Model, error) {
	if w.OnModel == nil {
		return nil, nil
	}
	return w.OnModel(a)
}

// Priced implements activities.Equipment.
func (w *Worker) Priced(a config.Agent) bool { return w.OnPriced != nil && w.OnPriced(a) }

// Window implements activities.Equipment.
func (w *Worker) Window(config.Agent) int { return 0 }

// NoCalls implements activities.Equipment.
func (w *Worker) NoCalls(config.Agent) (none, unread string) { return "", "" }

// OpenTools implements activities.Equipment.
func (w *Worker) OpenTools(ctx context.Context, a config.Agent, dir string, s activities.Sharing) (step.Tools, error) {
	if w.OnOpenTools == nil {
		return tools.Open(ctx, dir, tools.Set{Files: true})
	}
	return w.OnOpenTools(ctx, a, dir, s)
}

// Lacks implements activities.Equipment.
func (w *Worker) Lacks(ctx context.Context, a config.Agent) error {
	if w.OnLacks == nil {
		return nil
	}
	return w.OnLacks(ctx, a)
}

// Repeatable implements activities.Equipment.
func (w *Worker) Repeatable(string) bool { return true }

// Gate implements activities.Equipment, without rules of an operator.
func (w *Worker) Gate(team []approval.Rule) approval.Gate { return approval.NewGate(nil, team, false) }

// Confine implements activities.Equipment.
func (w *Worker) Confine(ctx context.Context, c check.Confined) (check.Ended, error) {
	return w.OnConfine(ctx, c)
}

// Confined implements activities.Equipment.
func (w *Worker) Confined(context.Context) error { return w.Unconfined }

// Overlays implements activities.Equipment.
func (w *Worker) Overlays(context.Context, config.Agent) *overlay.Mounts { return nil }

// SharedDirs implements activities.Equipment.
func (w *Worker) SharedDirs(string) []string { return nil }

// EndShared implements activities.Equipment.
func (w *Worker) EndShared(string) {}

// Heartbeat implements activities.Server.
func (w *Worker) Heartbeat(ctx context.Context, taskToken []byte, details ...any) error {
	if w.OnHeartbeat == nil {
		return nil
	}
	return w.OnHeartbeat(ctx, taskToken, details...)
}

// Pending implements activities.Server.
func (w *Worker) Pending(context.Context, string, string, string) (bool, error) { return true, nil }

// Bell implements activities.Server.
func (w *Worker) Bell(ctx context.Context, workflowID, runID string) (coordination.Ring, error) {
	if w.OnBell == nil {
		return coordination.Ring{}, nil
	}
	return w.OnBell(ctx, workflowID, runID)
}

// Signal implements activities.Server.
func (w *Worker) Signal(ctx context.Context, workflowID, runID, signal string, arg any) error {
	if w.OnSignal == nil {
		return nil
	}
	return w.OnSignal(ctx, workflowID, runID, signal, arg)
}

// Alone implements activities.Server.
func (w *Worker) Alone(ctx context.Context) bool { return w.OnAlone == nil || w.OnAlone(ctx) }

// Attributes implements activities.Server.
func (w *Worker) Attributes(ctx context.Context) []string {
	if w.OnAttributes == nil {
		return nil
	}
	return w.OnAttributes(ctx)
}
