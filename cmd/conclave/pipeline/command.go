package pipeline

import (
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/llm"
)

// Command returns `conclave pipeline`.
func Command(c *hall.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Step graphs with jump and call: run, validate, list",
		Long: `Run a pipeline: a graph of named steps, each an agent, a list of tool calls, or a
whole team. Rules of the file choose the next step, or the agent does: it jumps to
another step, or calls one and continues when that returns.

A run has an ID, with which watch, status, result, say, pause, resume, retry, cancel,
pull and transcript work as they do for a session.`,
		Example: `  conclave pipeline validate pipeline.yaml --graph
  conclave pipeline run --offline pipeline.yaml "A script that greets the world"
  conclave pipeline validate pipeline.yaml --graph --run 20261121-153012-k3f9
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
		Long: `Run the pipeline in FILE and print the text of its last step. REQUEST opens the prompt
of every step.

Without an address it runs on this machine, as ` + "`conclave run`" + ` does: Ctrl-C stops
watching, and the run continues with the next run, watch, dev or worker on the same
data directory. With an address it is started on that cluster and followed.

At a terminal a step that fails finally parks the run, which waits for retry or cancel,
unless the file has on_step_failure. A run that a failed step has ended
can be continued with ` + "`conclave retry ID`" + ` as well.

A session step without a team gets the one of --config, else the one that
` + "`conclave run`" + ` would use.

Exit codes: 0 the last step completed, or used up its model calls (max_iterations);
1 wrong usage or configuration and nothing started, 2 a step failed finally, or the
run was cancelled; 4 interrupted.`,
		Example: `  conclave pipeline run --offline pipeline.yaml "A script that greets the world"
  conclave pipeline run --session-id release-42 pipeline.yaml "Write the release notes"
  conclave pipeline run --automation pipeline.yaml "…" | tail -n 1 | jq -r .final`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := flags.request.Read(cmd.Context(), args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, flags, args[0], request)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	flags.request = hall.NewQuery(c, "REQUEST", f)
	cmd.Args = flags.request.Arguments("FILE")
	flags.material.Add(f)
	f.StringVar(&flags.id, "session-id", "", "`ID` of the run (default a new one)")
	f.StringVar(&flags.id, "id", "", "the former name of --session-id")
	_ = f.MarkHidden("id") // fails for unknown flags only
	team.WorkerConfigFlag(c, f)
	f.BoolVar(&flags.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
	return cmd
}

func listCommand(c *hall.CLI) *cobra.Command {
	list := &runs.List{Kind: Kind(), Titles: [2]string{"RUN", "REQUEST"}, JSON: func(r runs.Listed) any {
		return listed{ID: r.ID, Status: r.Shown(), Request: r.Query, CreatedAt: r.Started, Seconds: r.Seconds(), Usage: r.Usage}
	}}
	return list.Add(c, &cobra.Command{
		Use:   "list",
		Short: "Runs of pipelines, newest first",
		Long: `List the newest runs of pipelines of the local data directory, or of a cluster's
namespace, with their duration and cost. Runs that wait for a person are shown as
paused or parked; with --json they are running. It never runs a step.`,
		Example: `  conclave pipeline list
  conclave pipeline list --status error --since 7d`,
	})
}

// listed is a run in the JSON output of list.
type listed struct {
	ID        string     `json:"id"`
	Status    string     `json:"status"`
	Request   string     `json:"request"` // shortened text
	CreatedAt time.Time  `json:"created_at"`
	Seconds   float64    `json:"duration_seconds"`
	Usage     *llm.Usage `json:"usage"` // null if it is unknown
}
