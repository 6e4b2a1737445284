package main

import (
	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// maxParked is how much is shown of what a parked session waits for, in bytes:
// every failed agent has a row of its own.
const maxParked = 300

// holds says what a person is waited for in a session that has not ended, and
// which command lets it go on.
func (c *cli) holds(s workflows.State, workflow string) []progress.Hold {
	if s.Status != workflows.Running || s.Phase == coordination.PhaseDone {
		return nil
	}
	var holds []progress.Hold
	if s.Paused {
		holds = append(holds, progress.Hold{Why: "paused by a person", Release: "`" + c.again("resume", workflow) + "` goes on"})
	}
	if s.Parked != nil {
		holds = append(holds, progress.Hold{
			Why:     "parked: " + progress.Cut(*s.Parked, maxParked),
			Release: "`" + c.again("retry", workflow) + "` runs what failed again, finish decides without it",
		})
	}
	return holds
}

// revote reports whether the round of s repeats a vote that was split.
func revote(s workflows.State, events []coordination.Entry) bool {
	for _, e := range events {
		if e.Kind == coordination.EntryRevote && e.Round == s.Round && s.Status == workflows.Running {
			return true
		}
	}
	return false
}
