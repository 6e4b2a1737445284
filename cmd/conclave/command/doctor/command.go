package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/text"
)

// Versions are the versions of this program and its parts.
type Versions struct {
	Conclave string // conclave's version with commit and platform, on one line
	SDK      string // version of Temporal's SDK
}

// flags are the flags of doctor besides the common ones.
type flags struct {
	skip    []string
	timeout time.Duration
}

// Command returns `conclave doctor`.
func Command(c *cli.CLI, v Versions) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that sessions need, and print remedies",
		Long: `Check everything that sessions need, one check after the other, and print a remedy for
each fault:

  versions  of this program, and of the Temporal server
  temporal  the connection, the namespace, and the workers on the task queue
  bucket    reading, writing and conditional writes, with one object that is deleted again
  clock     the difference between this machine's clock and the bucket's
  models    one small call to every model of the team, as ` + "`conclave models check`" + ` makes it
  sandbox   the attacks of ` + "`conclave sandbox check`" + `, which take about half a minute

Without an address it checks the local stack, and starts it for its own duration unless
one runs. On a cluster, --bucket names the bucket of the workers. To check the host of a
worker, run doctor there, with the worker's environment and --worker-config.

The calls of models are charged like any others; --skip models makes none.

Exit codes: 0 all is well, 1 there is something to mend, 4 interrupted.`,
		Example: `  conclave doctor
  conclave doctor --skip models,sandbox
  conclave doctor --address temporal.example.com:7233 --bucket sessions --worker-config worker.yaml
  conclave doctor --json | jq -r '.checks[] | select(.ok | not) | .name + ": " + .remedy'`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runChecks(cmd.Context(), c, v, f) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&f.skip, "skip", nil, "leave these `CHECKS` out: "+strings.Join(checkNames(), ", "))
	teams.WorkerConfigFlag(c, set)
	set.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long one model may take; a local server may have to load it first")
	return cmd
}

// check is the outcome of one check, also as JSON.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"` // empty if there is nothing to mend
}

// report is the JSON output of doctor.
type report struct {
	Checks []check `json:"checks"`
}

// runChecks prints each check as soon as it ends, because a model may take minutes to reply.
func runChecks(ctx context.Context, c *cli.CLI, v Versions, f flags) error {
	for _, name := range f.skip {
		if !slices.Contains(checkNames(), name) {
			return fmt.Errorf("--skip: there is no check %q; there are %s", name, strings.Join(checkNames(), ", "))
		}
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout is %s; it takes a positive duration", f.timeout)
	}
	p, err := openPatient(ctx, c, v, f)
	if err != nil {
		return err
	}
	defer p.close()
	var r report
	for _, examine := range table {
		if slices.Contains(f.skip, examine.name) {
			continue
		}
		found := examine.check(p, ctx)
		if ctx.Err() != nil {
			return cli.Exitf(cli.ExitInterrupted, "interrupted: not everything was checked")
		}
		found.Name = examine.name
		r.Checks = append(r.Checks, found)
		if !c.Scripted() {
			if err := c.Print(found.String()); err != nil {
				return err
			}
		}
	}
	return showReport(c, r)
}

// String formats a check for people, with its remedy on a separate line.
func (k check) String() string {
	mark := "✓"
	if !k.OK {
		mark = "✗"
	}
	const indent = "\n            "
	s := fmt.Sprintf("%s %-8s  %s", mark, k.Name, strings.ReplaceAll(k.Detail, "\n", indent))
	if k.Remedy != "" {
		s += indent + "→ " + strings.ReplaceAll(k.Remedy, "\n", indent+"  ")
	}
	return text.Terminal(s) + "\n"
}

// showReport prints the total, or all checks as JSON, and returns the exit code.
func showReport(c *cli.CLI, r report) error {
	faults := 0
	for _, k := range r.Checks {
		if !k.OK {
			faults++
		}
	}
	var err error
	switch {
	case c.Scripted():
		r.Checks = append([]check{}, r.Checks...)
		err = c.PrintJSON(r)
	case faults == 0:
		err = c.Print("\nAll is well.\n")
	default:
		err = c.Print(fmt.Sprintf("\n%s to mend.\n", cli.Plural(faults, "thing")))
	}
	if err == nil && faults > 0 {
		err = cli.Exit(cli.ExitUsage)
	}
	return err
}
