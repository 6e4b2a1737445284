package team

import (
	"context"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/settings"
)

// Runner is the process that runs the steps of a team.
type Runner int

const (
	ThisProcess Runner = iota // this command, for its own session
	AnyProcess                // any worker on this machine
	ThisWorker                // this command, for any session
)

// NewTools makes the tools of a process with the default settings.
func NewTools() *worker.Tools { return worker.NewTools(settings.Default()) }

// CheckTools refuses a team whose tools are not available to its runner. Another
// process may have the MCP servers that a team only names; a worker leaves sessions
// whose variables it lacks to other workers.
func CheckTools(ctx context.Context, tools *worker.Tools, team config.Team, r Runner) error {
	err := tools.Check(ctx, team)
	noSandbox, noKey := activities.Lacks(err, activities.NoSandbox), activities.Lacks(err, activities.MissingKey)
	if r == AnyProcess && !noSandbox || r == ThisWorker && noKey {
		return nil
	}
	return err
}
