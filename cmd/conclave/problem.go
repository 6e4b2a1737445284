package main

import (
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
)

// notFound puts the failure to find a session into words about sessions.
func (c *cli) notFound(err error, id string, p *place) error {
	var missing *serviceerror.NotFound
	if !errors.As(err, &missing) {
		return fmt.Errorf("look up session %s: %w", id, err)
	}
	return end(exitUsage, "there is no session %s %s, and no pipeline run; `%s` and `%s` show those there are",
		id, p.where(), c.again("list", ""), c.again("pipeline list", ""))
}

// noFiles says that the place's store has no such session.
func (c *cli) noFiles(p *place, id string) error {
	return end(exitUsage, "there is no session %s in %s; `%s` shows those there are, and a session has files once it is prepared",
		id, p.store.URL("sessions/"), c.again("list", ""))
}

// where names the place in messages.
func (p *place) where() string {
	if p.cluster {
		return "at " + p.options.HostPort + " in the namespace " + p.options.Namespace
	}
	return "in " + p.dataDir
}
