package prune

import (
	"fmt"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/text"
)

// report is the JSON output of prune and delete.
type report struct {
	DryRun    bool           `json:"dry_run"`
	Runs      []reported     `json:"runs"`      // runs, the newest first
	Leftovers []reportedFile `json:"leftovers"` // leftovers of the data directory
	Kept      []reportedKept `json:"kept"`      // selected runs that are still needed
	Bases     reportedBases  `json:"bases"`
	Bytes     int64          `json:"bytes"` // bytes that are or would be freed
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

type reportedFile struct {
	Name  string `json:"name"` // name below the data directory
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"`
}

type reportedKept struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// maxQuery is the length, in bytes, to which the JSON output truncates a query. A memo has the same
// limit.
const maxQuery = 200

func newReport(chosen []*run, stay []kept, files []leftover) *report {
	r := &report{Runs: []reported{}, Leftovers: []reportedFile{}, Kept: []reportedKept{}}
	for _, top := range chosen {
		for _, m := range append([]*run{top}, top.children...) {
			one := reported{
				Kind: m.kind.name, ID: m.id, Status: m.status, Query: text.Truncate(m.query, maxQuery),
				Objects: m.objects, Histories: len(m.closed), Bytes: m.bytes,
			}
			if m != top {
				one.PartOf = top.id
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
		r.Leftovers = append(r.Leftovers, reportedFile{Name: f.name, Bytes: f.bytes})
		r.Bytes += f.bytes
	}
	for _, k := range stay {
		r.Kept = append(r.Kept, reportedKept{Kind: k.run.kind.name, ID: k.run.id, Reason: k.reason})
	}
	return r
}

// printTable prints the selected runs and the totals.
func (r *report) printTable(c *hall.CLI) error {
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
			kind, progress.Line(one.ID), progress.Line(one.Status), ended, size(one.Bytes), text.Truncate(progress.Line(one.Query), maxShown),
		}, "\t"))
	}
	for _, k := range r.Kept {
		c.Infof("kept: %s %s: %s", k.Kind, k.ID, k.Reason)
	}
	return c.Print(hall.Table(b.String()) + r.sum() + "\n")
}

// sum returns the totals on one line.
func (r *report) sum() string {
	if r.empty() {
		return "nothing to remove"
	}
	sum := progress.Plural(len(r.Runs), "run")
	teams := 0
	for _, f := range r.Leftovers {
		if strings.HasPrefix(f.Name, "teams") {
			teams++
		}
	}
	if teams > 0 {
		sum += ", " + progress.Plural(teams, "unused team")
	}
	if logs := len(r.Leftovers) - teams; logs > 0 {
		sum += ", " + progress.Plural(logs, "old log")
	}
	if r.Bases.Objects > 0 {
		sum += ", unused bases"
	}
	return sum + ": " + size(r.Bytes)
}

func (r *report) empty() bool { return len(r.Runs)+len(r.Leftovers)+r.Bases.Objects == 0 }

// finish prints the result of a removal. Its error has the exit code.
func (r *report) finish(c *hall.CLI, problems int, again string) error {
	if c.Scripted() {
		if err := c.PrintJSON(r); err != nil {
			return err
		}
		if problems > 0 {
			return hall.Exit(hall.ExitNoAnswer)
		}
		return nil
	}
	if problems > 0 {
		return hall.Exitf(hall.ExitNoAnswer, "%d could not be removed, %s freed; `%s` tries again", problems, size(r.Bytes), again)
	}
	if !r.empty() {
		c.Infof("removed, %s freed", size(r.Bytes))
	}
	return nil
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
}
