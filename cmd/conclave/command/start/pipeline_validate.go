package start

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	"conclave/worker"
)

func validatePipelineCommand(c *cli.CLI) *cobra.Command {
	var flags validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a pipeline, or draw it with --graph",
		Long: `Check the file of a pipeline, without starting anything: its keys, the steps that it
names, the arguments of built-in tools, the conditions of rules, and the programs of
its MCP servers on this machine. All problems are printed with their positions;
unreachable steps are warnings. Only ` + "`pipeline run`" + ` checks that keys are set and
that named teams and servers exist.

With --whole the definition is printed as one JSON document, with the files of its steps
put in, as other clients of Temporal send it.

With --graph the graph is printed for Mermaid: solid arrows are rules, dotted ones are
jumps and calls of agents, thick ones lead on after max_visits. With --run the steps are
coloured by how they ended in that run, and the arrows that it took are bold.`,
		Example: `  conclave pipeline validate pipeline.yaml
  conclave pipeline validate --graph pipeline.yaml > pipeline.mmd
  conclave pipeline validate --graph --run 20261121-153012-k3f9 pipeline.yaml > run.mmd`,
		Args: cli.Arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validatePipeline(cmd.Context(), c, args[0], flags)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&flags.graph, "graph", false, "print the graph for Mermaid")
	f.BoolVar(&flags.whole, "whole", false, "print the whole definition as JSON")
	f.StringVar(&flags.run, "run", "", "colour the graph by the run with this `ID`")
	return cmd
}

type validateFlags struct {
	graph bool
	whole bool
	run   string // empty for none
}

// checkedPipeline is the result of checking a pipeline's file.
type checkedPipeline struct {
	teams.Checked
	Warnings []teams.Problem `json:"warnings"`
	Graph    string          `json:"graph,omitempty"`
}

// validatePipeline looks for the programs of this machine, because the steps of a local run start them.
func validatePipeline(ctx context.Context, c *cli.CLI, name string, flags validateFlags) error {
	if flags.run != "" && !flags.graph {
		return cli.Exitf(cli.ExitUsage, "--run colours the graph of a run: add --graph")
	}
	programs := worker.NewTools(worker.DefaultSettings())
	f, err := readFile(name, config.Local, func(name string, data []byte, reach config.Reach) (config.Pipeline, config.Problems, error) {
		return config.ValidatePipeline(name, data, reach, programs.FindProgram)
	})
	if flags.whole && err == nil {
		whole, err := f.Canonical()
		if err != nil {
			return err
		}
		return c.Print(string(whole) + "\n")
	}
	graph := ""
	if flags.graph && err == nil {
		if graph, err = drawGraph(ctx, c, f, flags.run); err != nil {
			return err
		}
	}
	if c.Scripted() {
		v := checkedPipeline{Checked: teams.Checked{File: name, Valid: err == nil, Problems: teams.Problems(err), Programs: teams.StartedPrograms(f.Teams()...)}, Warnings: []teams.Problem{}, Graph: graph}
		if len(f.warnings) > 0 {
			v.Warnings = teams.Problems(f.warnings)
		}
		if printErr := c.PrintJSON(v); printErr != nil || err == nil {
			return printErr
		}
		return cli.Exit(cli.ExitUsage)
	}
	if err != nil {
		return err
	}
	for _, w := range f.warnings {
		c.Infof("warning: %v", w)
	}
	for _, p := range teams.StartedPrograms(f.Teams()...) {
		c.Infof("note: %s would %s", name, p)
	}
	if flags.graph {
		return c.Print(graph)
	}
	return c.Print(fmt.Sprintf("%s: ok, %s: %s\n", name, cli.Plural(len(f.Steps), "step"), describeSteps(f.Pipeline)))
}

// drawGraph returns the graph of a file as Mermaid source. Unless id is empty, the graph is coloured by
// that run.
func drawGraph(ctx context.Context, c *cli.CLI, f pipelineFile, id string) (graph string, err error) {
	if id == "" {
		return f.Mermaid(), nil
	}
	err = runs.Observe(ctx, c, PipelineKind(), id, func(conn *cli.Connection, r runs.Run) error {
		state, err := readPipelineState(ctx, conn, r)
		if err != nil {
			return err
		}
		if lacking := unknownSteps(f.Pipeline, state.Trace); len(lacking) > 0 {
			c.Infof("warning: %s has no step %s: the run was started from another version of the file", f.name, strings.Join(lacking, ", "))
		}
		graph = f.MermaidRun(state.Trace, state.Step, state.Stack)
		return nil
	})
	return graph, err
}

func unknownSteps(p config.Pipeline, trace []pipeline.TraceEntry) []string {
	var lacking []string
	for _, g := range trace {
		if _, ok := p.Step(g.Step); !ok && !slices.Contains(lacking, g.Step) {
			lacking = append(lacking, g.Step)
		}
	}
	return lacking
}
