package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/cmd/conclave/trust"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	"conclave/worker"
	"conclave/worker/settings"
)

func validateCommand(c *hall.CLI) *cobra.Command {
	var flags validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a pipeline, or draw it with --graph",
		Long: `Check the file of a pipeline, without starting anything: its keys, the steps that it
names, the arguments of built-in tools, the conditions of rules, and the programs of
its MCP servers on this machine. All problems are printed with their positions;
unreachable steps are warnings. Only ` + "`pipeline run`" + ` checks that keys are set and
that named teams and servers exist.

With --graph the graph is printed for Mermaid: solid arrows are rules, dotted ones are
jumps and calls of agents, thick ones lead on after max_visits. With --run the steps are
coloured by how they ended in that run, and the arrows that it took are bold.`,
		Example: `  conclave pipeline validate pipeline.yaml
  conclave pipeline validate --graph pipeline.yaml > pipeline.mmd
  conclave pipeline validate --graph --run 20261121-153012-k3f9 pipeline.yaml > run.mmd`,
		Args: hall.Arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return validate(cmd.Context(), c, args[0], flags) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&flags.graph, "graph", false, "print the graph for Mermaid")
	f.StringVar(&flags.run, "run", "", "colour the graph by the run with this `ID`")
	return cmd
}

type validateFlags struct {
	graph bool
	run   string // empty for none
}

// checked is the result of checking a pipeline's file.
type checked struct {
	team.Checked
	Warnings []team.Problem `json:"warnings"`
	Graph    string         `json:"graph,omitempty"`
}

func validate(ctx context.Context, c *hall.CLI, name string, flags validateFlags) error {
	if flags.run != "" && !flags.graph {
		return hall.Exitf(hall.ExitUsage, "--run colours the graph of a run: add --graph")
	}
	programs := worker.NewTools(settings.Default())
	f, err := readFile(name, config.Local, func(name string, data []byte, reach config.Reach) (config.Pipeline, config.Problems, error) {
		return config.ValidatePipeline(name, data, reach, programs.FindProgram)
	})
	graph := ""
	if flags.graph && err == nil {
		if graph, err = draw(ctx, c, f, flags.run); err != nil {
			return err
		}
	}
	if c.Scripted() {
		v := checked{Checked: team.Checked{File: name, Valid: err == nil, Problems: team.Problems(err), Programs: trust.Programs(f.Teams()...)}, Warnings: []team.Problem{}, Graph: graph}
		if len(f.warnings) > 0 {
			v.Warnings = team.Problems(f.warnings)
		}
		if printErr := c.PrintJSON(v); printErr != nil || err == nil {
			return printErr
		}
		return hall.Exit(hall.ExitUsage)
	}
	if err != nil {
		return err
	}
	for _, w := range f.warnings {
		c.Infof("warning: %v", w)
	}
	for _, p := range trust.Programs(f.Teams()...) {
		c.Infof("note: %s would %s", name, p)
	}
	if flags.graph {
		return c.Print(graph)
	}
	return c.Print(fmt.Sprintf("%s: ok, %s: %s\n", name, progress.Plural(len(f.Steps), "step"), describe(f.Pipeline)))
}

// draw returns the graph of a file as Mermaid source. Unless id is empty, the graph is coloured by
// that run.
func draw(ctx context.Context, c *hall.CLI, f file, id string) (graph string, err error) {
	if id == "" {
		return f.Mermaid(), nil
	}
	err = runs.Observe(ctx, c, Kind(), id, func(conn *hall.Connection, r runs.Run) error {
		state, err := stateOf(ctx, conn, r)
		if err != nil {
			return err
		}
		if lacking := unknown(f.Pipeline, state.Trace); len(lacking) > 0 {
			c.Infof("warning: %s has no step %s: the run was started from another version of the file", f.name, strings.Join(lacking, ", "))
		}
		graph = f.MermaidRun(state.Trace, state.Step, state.Stack)
		return nil
	})
	return graph, err
}

// unknown lists the steps of a trace that the pipeline does not have.
func unknown(p config.Pipeline, trace []pipeline.TraceEntry) []string {
	var lacking []string
	for _, g := range trace {
		if _, ok := p.Step(g.Step); !ok && !slices.Contains(lacking, g.Step) {
			lacking = append(lacking, g.Step)
		}
	}
	return lacking
}
