package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/text"
	"conclave/workflows"
)

// pruneRuns looks for unused files twice: before as if all chosen runs were gone, and after for those that are.
func pruneRuns(ctx context.Context, inv *inventory, f pruneFlags) error {
	chosen, stay := f.chooseRuns(inv.runs, inv.conn.Cluster)
	var going []*endedRun
	for _, r := range chosen {
		going = append(going, r.withSessions()...)
	}
	unused := func(going []*endedRun) ([]leftover, error) {
		return inv.findLeftovers(ctx, going, time.Duration(f.olderThan))
	}
	files, err := unused(going)
	if err != nil {
		return fmt.Errorf("find unused files of the data directory: %w", err)
	}
	r := newReport(chosen, stay, files)
	r.DryRun = !f.yes
	if r.Bases, err = inv.sweepBases(ctx, going, true); err != nil {
		return fmt.Errorf("find unused bases: %w", err)
	}
	r.Bytes += r.Bases.Bytes
	c := inv.conn.CLI
	if !c.Scripted() {
		if err := r.printTable(c); err != nil {
			return err
		}
	}
	if r.DryRun {
		if c.Scripted() {
			return c.PrintJSON(r)
		}
		if !r.isEmpty() {
			c.Infof("nothing was removed; `%s` removes it", f.commandLine(c))
		}
		return nil
	}
	return carryOut(ctx, inv, chosen, unused, r, f.commandLine(c))
}

func deleteRun(ctx context.Context, inv *inventory, id string, yes bool) error {
	c := inv.conn.CLI
	r, err := inv.findRun(ctx, id)
	if err != nil {
		return err
	}
	if r.isOpen() {
		status := workflows.Running
		if r.status == workflows.Paused || r.status == workflows.Parked {
			status = r.status
		}
		return fmt.Errorf("%s has not ended: it is %s; `%s` ends it, then delete it", r, status, c.CommandLine("cancel", r.workflow))
	}
	if r.parent != nil {
		return fmt.Errorf("%s is a step of %s, which needs it; `%s` removes both", r, r.parent, c.CommandLine("delete", r.parent.ID))
	}
	chosen, stay := spareContinued([]*endedRun{r}, inv.runs)
	if len(stay) > 0 {
		return fmt.Errorf("%s is needed: %s; delete that one first", r, stay[0].Reason)
	}
	rep := newReport(chosen, nil, nil)
	if !yes && !c.CanConfirm() {
		return errors.New("nothing was removed: there is no terminal to ask on; give --yes")
	}
	if !yes {
		agreed, err := c.Confirm(fmt.Sprintf("remove %s (%s, %s)?", r, r.status, text.Size(rep.Bytes)))
		if err != nil || !agreed {
			return cmp.Or(err, errors.New("nothing was removed"))
		}
	}
	return carryOut(ctx, inv, chosen, noLeftovers, rep, c.CommandLine("delete --yes", id))
}

// findRun returns the run with an ID, which may be that of its workflow. A scenario's run is also
// found without the slug, if only one scenario has it.
func (inv *inventory) findRun(ctx context.Context, id string) (*endedRun, error) {
	var found []*endedRun
	var names []string
	for _, kind := range record.Kinds {
		for _, r := range inv.runs {
			_, scenarioRun, _ := strings.Cut(r.ID, "/")
			switch {
			case r.Kind == kind && (r.ID == id || r.workflow == id):
				return r, nil
			case r.Kind == kind && scenarioRun == id:
				found, names = append(found, r), append(names, r.ID)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, inv.conn.NoRun(ctx, id)
	case 1:
		return found[0], nil
	}
	slices.Sort(names)
	return nil, fmt.Errorf("several scenarios have a run %s; name one of %s", id, strings.Join(names, ", "))
}

func noLeftovers([]*endedRun) ([]leftover, error) { return nil, nil }

// carryOut removes the chosen runs, then the files that are no longer used, and prints the result. Again is
// the command line that removes the remaining runs after an interrupt.
func carryOut(ctx context.Context, inv *inventory, chosen []*endedRun, leftovers func([]*endedRun) ([]leftover, error), r *pruneReport, again string) error {
	c := inv.conn.CLI
	removed, failed := removeRuns(ctx, inv.conn, chosen)
	if ctx.Err() != nil {
		return cli.Exitf(cli.ExitInterrupted, "interrupted: `%s` removes the rest", again)
	}
	problems := len(failed)
	for i := range r.Runs {
		if err := failed[r.Runs[i].Kind+" "+r.Runs[i].ID]; err != nil {
			r.Runs[i].Error = err.Error()
			r.Bytes -= r.Runs[i].Bytes
			c.Warnf("remove %s %s: %v", r.Runs[i].Kind, r.Runs[i].ID, err)
		}
	}
	problems += r.finishBases(ctx, inv, removed)
	files, err := leftovers(removed) // a run that could not be removed keeps its team
	if err != nil {
		problems++
		c.Warnf("find unused files of the data directory: %v", err)
	}
	for _, f := range r.Leftovers {
		r.Bytes -= f.Bytes
	}
	r.Leftovers = append([]leftover{}, files...)
	for i, f := range files {
		if err := os.Remove(filepath.Join(inv.conn.Target.DataDir, f.Name)); err != nil {
			r.Leftovers[i].Error, problems = err.Error(), problems+1
			c.Warnf("remove %s: %v", f.Name, err)
			continue
		}
		r.Bytes += f.Bytes
	}
	return r.printOutcome(c, problems, again)
}

// maxRemovals is the maximum number of runs removed at the same time.
const maxRemovals = 4

// removeRuns removes runs with their sessions. It returns the failures by kind and ID.
func removeRuns(ctx context.Context, conn *cli.Connection, chosen []*endedRun) (removed []*endedRun, failed map[string]error) {
	var mutex sync.Mutex
	failed = map[string]error{}
	printed := time.Now()
	group := errgroup.Group{}
	group.SetLimit(maxRemovals)
	for _, top := range chosen {
		group.Go(func() error {
			var err error
			for _, m := range top.withSessions() {
				if err == nil { // a pipeline's run goes after its sessions, or not at all
					err = removeRun(ctx, conn, m)
				}
				mutex.Lock()
				if err != nil {
					failed[m.Kind.Name+" "+m.ID] = err
				} else {
					removed = append(removed, m)
				}
				if !conn.Scripted() && time.Since(printed) > time.Second {
					printed = time.Now()
					conn.Infof("%d removed", len(removed))
				}
				mutex.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // failures are collected elsewhere
	awaitGone(ctx, conn, removed)
	return removed, failed
}

// pruneReport is the JSON output of prune and delete.
type pruneReport struct {
	DryRun    bool          `json:"dry_run"`
	Runs      []reported    `json:"runs"` // runs, the newest first
	Leftovers []leftover    `json:"leftovers"`
	Kept      []kept        `json:"kept"`
	Bases     reportedBases `json:"bases"`
	Bytes     int64         `json:"bytes"` // bytes that are or would be freed
}

// reported is a run that is or would be removed.
type reported struct {
	Kind      string     `json:"kind"` // session, pipeline or scenario
	ID        string     `json:"id"`
	PartOf    string     `json:"part_of,omitempty"` // the pipeline run that it is a step of
	Status    string     `json:"status"`
	Query     string     `json:"query"` // shortened text
	EndedAt   *time.Time `json:"ended_at"`
	Objects   int        `json:"objects"`
	Histories int        `json:"histories"`
	Bytes     int64      `json:"bytes"`
	Error     string     `json:"error,omitempty"` // why it could not be removed
}

// kept is a run that was selected but must be kept.
type kept struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func keepRun(r *endedRun, format string, args ...any) kept {
	return kept{Kind: r.Kind.Name, ID: r.ID, Reason: fmt.Sprintf(format, args...)}
}

// maxQuery is the length, in bytes, to which the JSON output truncates a query. A memo has the same limit.
const maxQuery = 200

func newReport(chosen []*endedRun, stay []kept, files []leftover) *pruneReport {
	r := &pruneReport{Runs: []reported{}, Leftovers: append([]leftover{}, files...), Kept: append([]kept{}, stay...)}
	for _, top := range chosen {
		for _, m := range append([]*endedRun{top}, top.children...) {
			one := reported{
				Kind: m.Kind.Name, ID: m.ID, Status: m.status, Query: text.Truncate(m.query, maxQuery),
				Objects: m.objects, Histories: len(m.closed), Bytes: m.bytes,
			}
			if m != top {
				one.PartOf = top.ID
			}
			if !m.ended.IsZero() {
				ended := m.ended.UTC().Truncate(time.Millisecond)
				one.EndedAt = &ended
			}
			r.Runs = append(r.Runs, one)
			r.Bytes += m.bytes
		}
	}
	for _, f := range files {
		r.Bytes += f.Bytes
	}
	return r
}

func (r *pruneReport) printTable(c *cli.CLI) error {
	const maxShown = 50
	var b strings.Builder
	if len(r.Runs) > 0 {
		fmt.Fprintln(&b, "KIND\tID\tSTATUS\tENDED\tSIZE\tQUERY")
	}
	for _, one := range r.Runs {
		ended := "-"
		if one.EndedAt != nil {
			ended = one.EndedAt.Local().Format("2006-01-02 15:04")
		}
		kind := one.Kind
		if one.PartOf != "" {
			kind = "  └ " + kind
		}
		fmt.Fprintln(&b, strings.Join([]string{
			kind, cli.Line(one.ID), cli.Line(one.Status), ended, text.Size(one.Bytes), text.Truncate(cli.Line(one.Query), maxShown),
		}, "\t"))
	}
	for _, k := range r.Kept {
		c.Infof("kept: %s %s: %s", k.Kind, k.ID, k.Reason)
	}
	return c.Print(cli.Table(b.String()) + r.formatTotals() + "\n")
}

func (r *pruneReport) formatTotals() string {
	if r.isEmpty() {
		return "nothing to remove"
	}
	sum := cli.Plural(len(r.Runs), "run")
	teams := 0
	for _, f := range r.Leftovers {
		if strings.HasPrefix(f.Name, "teams") {
			teams++
		}
	}
	if teams > 0 {
		sum += ", " + cli.Plural(teams, "unused team")
	}
	if logs := len(r.Leftovers) - teams; logs > 0 {
		sum += ", " + cli.Plural(logs, "old log")
	}
	if r.Bases.Objects > 0 {
		sum += ", unused bases"
	}
	return sum + ": " + text.Size(r.Bytes)
}

func (r *pruneReport) isEmpty() bool { return len(r.Runs)+len(r.Leftovers)+r.Bases.Objects == 0 }

// printOutcome prints the result of a removal. Its error has the exit code.
func (r *pruneReport) printOutcome(c *cli.CLI, problems int, again string) error {
	if c.Scripted() {
		if err := c.PrintJSON(r); err != nil {
			return err
		}
		if problems > 0 {
			return cli.Exit(cli.ExitNoAnswer)
		}
		return nil
	}
	if problems > 0 {
		return cli.Exitf(cli.ExitNoAnswer, "%d could not be removed, %s freed; `%s` tries again", problems, text.Size(r.Bytes), again)
	}
	if !r.isEmpty() {
		c.Infof("removed, %s freed", text.Size(r.Bytes))
	}
	return nil
}
