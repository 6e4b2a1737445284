package pipeline

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
)

// Command is `conclave pipeline`.
func Command(c *hall.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Step graphs with jump and call: run, validate, list",
		Long: `Run a pipeline: a graph of named steps, each of them an agent, a list of tool calls,
or a whole team. A step leads on by a rule of the file, or an agent decides itself
where to go: it jumps to another step, or calls one and goes on when that returns.

A run has an ID, and watch, status, result, say, pause, resume, retry, cancel, pull
and transcript work with it as they do with that of a session.`,
		Example: `  conclave pipeline validate pipeline.yaml --graph
  conclave pipeline run --offline pipeline.yaml "A script that greets the world"
  conclave pipeline list`,
		RunE: hall.Group,
	}
	cmd.AddCommand(runCommand(c), validateCommand(c), listCommand(c))
	return cmd
}

func runCommand(c *hall.CLI) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] FILE REQUEST",
		Short: "Run a pipeline and print its final text",
		Long: `Run the pipeline in FILE and print the text of the step that it ends with. REQUEST
is the first thing that every step is told.

Without an address it runs on this machine, as ` + "`conclave run`" + ` does: Ctrl-C stops
looking, and the run goes on with the next run, watch, dev or worker on the same
data directory. With an address it is started on that cluster and followed.

A session step that names no team has the one of --config, else the one that
` + "`conclave run`" + ` would use.

Exit codes: 0 the last step completed, or used its model calls up (max_iterations);
1 wrong usage or configuration and nothing started, 2 a step failed for good, or the
run was cancelled; 4 interrupted.`,
		Example: `  conclave pipeline run --offline pipeline.yaml "A script that greets the world"
  conclave pipeline run --id release-42 pipeline.yaml "Write the release notes"
  conclave pipeline run --automation pipeline.yaml "…" | tail -n 1 | jq -r .final`,
		Args: hall.Arguments("FILE", "REQUEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), c, flags, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&flags.id, "id", "", "`ID` of the run (default a new one)")
	f.BoolVar(&flags.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
	return cmd
}

func validateCommand(c *hall.CLI) *cobra.Command {
	graph := false
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a pipeline, or draw it with --graph",
		Long: `Check the file of a pipeline, without starting anything. All problems are printed,
with their places; steps that no run comes to are warned about. Whether keys are set,
and named teams and servers are there, is checked by ` + "`pipeline run`" + `.

With --graph the graph is printed for Mermaid: solid arrows are rules, dotted ones
are where agents may jump to and what they may call.`,
		Example: `  conclave pipeline validate pipeline.yaml
  conclave pipeline validate --graph pipeline.yaml > pipeline.mmd`,
		Args: hall.Arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return validate(c, args[0], graph) },
	}
	cmd.Flags().BoolVar(&graph, "graph", false, "print the graph for Mermaid")
	return cmd
}

func listCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Runs of pipelines, newest first",
		Long: `List the runs of pipelines of the local data directory, or of a cluster's namespace,
newest first. One that waits for a person is paused or parked here, with --json it
is running. It never runs a step.`,
		Example: "  conclave pipeline list",
		Args:    hall.Arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return list(cmd.Context(), c) },
	}
}

// listed is a run in the output of list for programs.
type listed struct {
	ID        string    `json:"id"`
	Status    string    `json:"status"`
	Request   string    `json:"request"` // shortened
	CreatedAt time.Time `json:"created_at"`
}

func list(ctx context.Context, c *hall.CLI) error {
	return runs.PrintList(ctx, c, Kind(), [2]string{"RUN", "REQUEST"}, func(r runs.Listed) any {
		return listed{ID: r.ID, Status: r.Status, Request: r.Query, CreatedAt: r.CreatedAt}
	})
}
