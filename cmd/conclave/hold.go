package main

import (
	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// maxParked is how much is shown of what a parked session waits for, in bytes:
// every failed agent has a row of its own.
const maxParked = 300

// holds says what a person is waited for in a session that has not ended, and
// which command lets it go on.
func (c *cli) holds(s sessionflow.State, workflow string) []progress.Hold {
	if s.Status != drive.Running || s.Phase == coordination.PhaseDone {
		return nil
	}
	return c.heldBy(workflow, s.Paused, s.Parked, "runs what failed again, finish decides without it")
}

// heldBy are the holds of a workflow that is paused, or parked until it is retried.
func (c *cli) heldBy(workflow string, paused bool, parked *string, retry string) []progress.Hold {
	var holds []progress.Hold
	if paused {
		holds = append(holds, progress.Hold{Why: "paused by a person", Release: "`" + c.again("resume", workflow) + "` goes on"})
	}
	if parked != nil {
		holds = append(holds, progress.Hold{
			Why:     "parked: " + progress.Cut(*parked, maxParked),
			Release: "`" + c.again("retry", workflow) + "` " + retry,
		})
	}
	return holds
}

// revote reports whether the round of s repeats a vote that was split.
func revote(s sessionflow.State, events []coordination.Entry) bool {
	for _, e := range events {
		if e.Kind == coordination.EntryRevote && e.Round == s.Round && s.Status == drive.Running {
			return true
		}
	}
	return false
}
