package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"conclave/cmd/conclave/progress"
	pipelineflow "conclave/workflows/pipeline"
)

// listedPipeline is one run of `pipeline list --json`.
type listedPipeline struct {
	ID        string    `json:"id"`
	Status    string    `json:"status"`
	Request   string    `json:"request"` // cut
	CreatedAt time.Time `json:"created_at"`
}

func (c *cli) listPipelines(ctx context.Context) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	return c.at(ctx, t, func(p *place) error {
		runs, err := listKind(ctx, p, pipelineflow.Type)
		if err != nil {
			return fmt.Errorf("list the runs of pipelines %s: %w", p.where(), err)
		}
		if !c.people() {
			all := []listedPipeline{}
			for _, r := range runs {
				all = append(all, listedPipeline{ID: r.SessionID, Status: pipelineStatusOf(known{status: r.Status}), Request: r.Query, CreatedAt: r.CreatedAt})
			}
			return c.printJSON(all)
		}
		if len(runs) == 0 {
			c.say("no runs of pipelines %s", p.where())
			return nil
		}
		return c.printPipelines(runs)
	})
}

func (c *cli) printPipelines(runs []listed) error {
	const gist = 60
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tSTATUS\tCREATED\tREQUEST")
	for _, r := range runs {
		status := pipelineStatusOf(known{status: r.Status})
		fmt.Fprintln(table, strings.Join([]string{
			progress.Line(r.SessionID), progress.Line(cmp.Or(r.held, status)),
			r.CreatedAt.Local().Format("2006-01-02 15:04:05"), progress.Cut(progress.Line(r.Query), gist),
		}, "\t"))
	}
	return unprinted(table.Flush())
}
