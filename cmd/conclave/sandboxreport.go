package main

import (
	"fmt"
	"strings"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/cmd/conclave/progress"
)

// sandboxReport is what `sandbox check --json` prints.
type sandboxReport struct {
	Level     sandbox.Level   `json:"level"` // that is wanted
	Host      sandboxHost     `json:"host"`
	Attacks   []attack.Result `json:"attacks"` // none if the host does not give the level
	Stopped   int             `json:"stopped"`
	Open      int             `json:"open"`
	Known     int             `json:"known"` // of those that are open, those that the level does not promise to stop
	NotTried  int             `json:"not_tried"`
	NoVerdict int             `json:"no_verdict"`
}

// sandboxHost is what this host gives.
type sandboxHost struct {
	Level       sandbox.Level `json:"level"`
	Missing     []string      `json:"missing"`
	LandlockABI int           `json:"landlock_abi"`
	Cgroup      string        `json:"cgroup"` // empty if a watchdog does what control groups would
}

func describeHost(h sandbox.Host) sandboxHost {
	missing := h.Missing
	if missing == nil {
		missing = []string{}
	}
	return sandboxHost{Level: h.Level, Missing: missing, LandlockABI: h.Landlock, Cgroup: h.Cgroup}
}

func (r *sandboxReport) count() {
	for _, a := range r.Attacks {
		switch a.Outcome {
		case attack.Stopped:
			r.Stopped++
		case attack.Open:
			r.Open++
			if !a.Failed() {
				r.Known++
			}
		case attack.NotTried:
			r.NotTried++
		case attack.Unknown:
			r.NoVerdict++
		}
	}
}

// failed are the attacks that the level should have stopped.
func (r *sandboxReport) failed() []string {
	var names []string
	for _, a := range r.Attacks {
		if a.Failed() {
			names = append(names, a.Name)
		}
	}
	return names
}

// showHost says what the host gives, to a person.
func (c *cli) showHost(r sandboxReport) error {
	if !c.people() {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This host gives the sandbox level %s.\n", r.Host.Level)
	for _, m := range r.Host.Missing {
		fmt.Fprintf(&b, "  full lacks: %s\n", m)
	}
	landlock := "none"
	if r.Host.LandlockABI > 0 {
		landlock = fmt.Sprintf("version %d of its interface", r.Host.LandlockABI)
	}
	limits := "watched by the worker (no control group v2 is delegated to it)"
	if r.Host.Cgroup != "" {
		limits = "kept by control groups, in " + r.Host.Cgroup
	}
	fmt.Fprintf(&b, "  Landlock:  %s\n  limits:    %s\n", landlock, limits)
	_, err := fmt.Fprintln(c.stdout, progress.Plain(b.String()))
	return unprinted(err)
}

// showAttack prints one result, when it is there.
func (c *cli) showAttack(a attack.Result) {
	if c.json {
		return
	}
	verdict := string(a.Outcome)
	if a.Outcome == attack.Open {
		verdict = "OPEN"
		if !a.Failed() {
			verdict = "open (known)"
		}
	}
	if a.Outcome != attack.Stopped {
		a.What += ": " + a.Detail
	}
	// What cannot be printed now is missed when the total is printed.
	fmt.Fprintln(c.stdout, progress.Plain(fmt.Sprintf("%-12s  %-19s  %s", verdict, a.Name, a.What)))
}

// showTotal prints the last line, or everything as JSON.
func (c *cli) showTotal(r sandboxReport) error {
	if !c.people() {
		return c.printJSON(r)
	}
	parts := []string{fmt.Sprintf("%d stopped", r.Stopped)}
	if r.Open > 0 {
		parts = append(parts, fmt.Sprintf("%d open (%d of them known)", r.Open, r.Known))
	}
	if r.NotTried > 0 {
		parts = append(parts, fmt.Sprintf("%d not tried", r.NotTried))
	}
	if r.NoVerdict > 0 {
		parts = append(parts, fmt.Sprintf("%d without a verdict", r.NoVerdict))
	}
	noun := "attacks"
	if len(r.Attacks) == 1 {
		noun = "attack"
	}
	_, err := fmt.Fprintf(c.stdout, "\n%d %s at level %s: %s\n", len(r.Attacks), noun, r.Level, strings.Join(parts, ", "))
	return unprinted(err)
}
