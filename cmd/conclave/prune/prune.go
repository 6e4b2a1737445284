package prune

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"conclave/cmd/conclave/hall"
	"conclave/engine/text"
)

// prune shows or removes the runs selected by the flags.
func prune(ctx context.Context, inv *inventory, f flags) error {
	selected := f.filter(inv)
	chosen, stay := selected.choose(inv.runs)
	var going []*run
	for _, r := range chosen {
		going = append(going, r.members()...)
	}
	files, err := inv.leftovers(ctx, going, selected)
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
		if !r.empty() {
			c.Infof("nothing was removed; `%s` removes it", f.line(c))
		}
		return nil
	}
	return carryOut(ctx, inv, chosen, func(removed []*run) ([]leftover, error) { return inv.leftovers(ctx, removed, selected) }, r, f.line(c))
}

// deleteOne removes one run.
func deleteOne(ctx context.Context, inv *inventory, id string, yes bool) error {
	c := inv.conn.CLI
	r, err := inv.find(id)
	if err != nil {
		return err
	}
	if r.isOpen() {
		return fmt.Errorf("%s has not ended: it is %s; `%s` ends it, then delete it", r, r.openStatus(), c.CommandLine("cancel", r.workflow))
	}
	if r.parent != nil {
		return fmt.Errorf("%s is a step of %s, which needs it; `%s` removes both", r, r.parent, c.CommandLine("delete", r.parent.id))
	}
	chosen, stay := spare([]*run{r}, inv.runs)
	if len(stay) > 0 {
		return fmt.Errorf("%s is needed: %s; delete that one first", r, stay[0].reason)
	}
	rep := newReport(chosen, nil, nil)
	if !yes {
		if err := confirm(c, fmt.Sprintf("remove %s (%s, %s)?", r, r.status, size(rep.Bytes))); err != nil {
			return err
		}
	}
	return carryOut(ctx, inv, chosen, nothing, rep, c.CommandLine("delete --yes", id))
}

// find returns the run with an ID. The ID may be that of the run or its workflow; a
// scenario's run is also found without the slug.
func (inv *inventory) find(id string) (*run, error) {
	var found []*run
	for _, r := range inv.runs {
		_, scenarioRun, _ := strings.Cut(r.id, "/")
		if r.id == id || r.workflow == id || r.kind == scenarios && scenarioRun == id {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, inv.conn.NoRun(id)
	}
	var names []string
	for _, r := range found {
		names = append(names, r.String())
	}
	return nil, fmt.Errorf("the ID %s is that of several: %s; name a scenario's run as SLUG/RUN_ID", id, strings.Join(names, ", "))
}

// confirm asks a person and returns an error unless the answer is yes.
func confirm(c *hall.CLI, question string) error {
	in, ok := c.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || c.Scripted() {
		return errors.New("nothing was removed: there is no terminal to ask on; give --yes")
	}
	fmt.Fprintf(c.Stderr, "%s [y/N] ", text.Terminal(question))
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer is no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was removed")
	}
	return nil
}

// nothing returns no leftovers, so that the files of the data directory are kept.
func nothing([]*run) ([]leftover, error) { return nil, nil }

// carryOut removes the chosen runs, then the files that are no longer used, and prints
// the result. Again is the command line that removes the remaining runs after an
// interrupt.
func carryOut(ctx context.Context, inv *inventory, chosen []*run, leftovers func([]*run) ([]leftover, error), r *report, again string) error {
	c := inv.conn.CLI
	removed, failed := removeRuns(ctx, inv.conn, chosen)
	if ctx.Err() != nil {
		return hall.Exitf(hall.ExitInterrupted, "interrupted: `%s` removes the rest", again)
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
	r.Leftovers = []reportedFile{}
	for _, f := range files {
		one := reportedFile{Name: f.name, Bytes: f.bytes}
		if err := os.Remove(filepath.Join(inv.conn.Target.DataDir, f.name)); err != nil {
			one.Error, problems = err.Error(), problems+1
			c.Warnf("remove %s: %v", f.name, err)
		} else {
			r.Bytes += f.bytes
		}
		r.Leftovers = append(r.Leftovers, one)
	}
	return r.finish(c, problems, again)
}

// removers is the maximum number of runs removed at the same time.
const removers = 4

// removeRuns removes runs with their sessions. It returns the failures by kind and ID.
func removeRuns(ctx context.Context, conn *hall.Connection, chosen []*run) (removed []*run, failed map[string]error) {
	var mutex sync.Mutex
	failed = map[string]error{}
	printed := time.Now()
	group := errgroup.Group{}
	group.SetLimit(removers)
	for _, top := range chosen {
		group.Go(func() error {
			var err error
			for _, m := range top.members() {
				if err == nil { // a pipeline's run goes after its sessions, or not at all
					err = remove(ctx, conn, m)
				}
				mutex.Lock()
				if err != nil {
					failed[m.kind.name+" "+m.id] = err
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
