package main

import (
	"context"
	"errors"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/settings"
)

// whose says who runs the steps of a team's sessions.
type whose int

const (
	inThisProcess whose = iota // for the one session of a command
	ofAnyProcess               // of this machine
	ofAWorker                  // in this process, for whatever sessions there are
)

// equip refuses a team whose tools need what is not there, before anything is
// started. MCP servers that are only named may be those of a worker in another
// process, and sessions of a worker wait for one that has the variables.
func (c *cli) equip(ctx context.Context, team config.Team, w whose) error {
	if c.tools == nil {
		c.tools = worker.NewTools(settings.Default())
	}
	err := c.tools.Check(ctx, team)
	var unconfined *activities.NoSandboxError
	var unset *activities.MissingKeyError
	switch {
	case w == ofAnyProcess && !errors.As(err, &unconfined), w == ofAWorker && errors.As(err, &unset):
		return nil
	}
	return err
}
