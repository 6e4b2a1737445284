package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"conclave/cmd/conclave/hall"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/project"
	"conclave/engine/scenario"
)

// sayPRD warns of a prd.md from which agents learn nothing. A resumed run has a
// copy of its own.
func sayPRD(c *hall.CLI, w *order) {
	t := w.trials[0] // they all have the same
	if t.input.Resume {
		return
	}
	file := w.from.PRD()
	parsed, _ := scenario.ParseProject(t.input.PRD) // it was checked when it was loaded
	switch {
	case strings.TrimSpace(t.input.PRD) == "":
		c.Warnf("%s is missing or empty: agents are told neither what the application is nor where; write its Application Type and Base URL there", file)
	case strings.Contains(t.input.PRD, project.Unfilled):
		c.Warnf("%s has the address %s, as it was made: agents do not know where the application is; write its Base URL there", file, project.Unfilled)
	case parsed.Summary(true) == "":
		c.Warnf("agents are told nothing of %s: it has none of the sections Application Type, Base URL, Tech Stack and Credentials", file)
	}
}

// sayExposed warns that credentials go into the workflow's input, for want of a store.
func sayExposed(c *hall.CLI, w *order) {
	if parsed, _ := scenario.ParseProject(w.trials[0].input.PRD); len(parsed.Secrets()) > 0 {
		c.Warnf("without --bucket, %s is in the input of the workflow, with its credentials, for everybody who may read that", w.from.PRD())
	}
}

// storePRD puts prd.md where the run looks for it, and nowhere else: the input of a
// workflow is in its history.
func (t *trial) storePRD(ctx context.Context, conn *hall.Connection) error {
	if conn.Store == nil || t.input.PRD == "" {
		return nil
	}
	key := acts.PRDKey(t.slug, t.id)
	storing, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	if err := conn.Store.Put(storing, key, strings.NewReader(t.input.PRD)); err != nil {
		return fmt.Errorf("put prd.md where run %s of scenario %s looks for it, %s: %w", t.id, t.slug, conn.Store.URL(key), err)
	}
	t.input.PRD, t.input.PRDHash = "", acts.PRDHash(t.input.PRD)
	return nil
}

// unstarted takes back what is there of a run that could not be started. One of a
// command that was interrupted may have been.
func (t *trial) unstarted(ctx context.Context, conn *hall.Connection, from *project.Project) error {
	if ctx.Err() != nil || t.input.Resume {
		return nil
	}
	var err error
	if t.input.PRDHash != "" {
		err = conn.Store.Delete(ctx, acts.PRDKey(t.slug, t.id))
	}
	t.document, t.run = nil, scenario.Run{}
	return errors.Join(err, from.Forget(t.slug, t.id))
}
