package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	runs "conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/outputs"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
)

// pipelineFlags are the flags of pipeline run besides the common ones.
type pipelineFlags struct {
	request *cli.Query
	id      string
	offline bool

	material inputs.Flags
	inputs   inputFlags
}

// pipelineOrder is the validated input of a run.
type pipelineOrder struct {
	id      string
	file    pipelineFile // the pipeline's file as it will run
	input   pipelineflow.Input
	offline bool
}

func newPipelineOrder(c *cli.CLI, t cli.Target, w *teams.Worker, f pipelineFlags, name, request string) (pipelineOrder, error) {
	o := pipelineOrder{offline: f.offline, input: pipelineflow.Input{Request: request}}
	teams.PreferShell(c, f.material.HasBase())
	var err error
	if o.id, err = cli.ChooseRunID("--session-id", f.id); err != nil {
		return o, err
	}
	reach := config.Local
	if t.Cluster {
		reach = config.Cluster
	}
	var named config.Team
	if err = teams.CheckFlags(c, ""); err == nil && len(c.Models) > 0 {
		named, _, err = w.Load(c, reach, f.offline)
	}
	if err == nil {
		o.file, err = readFile(name, reach, func(name string, data []byte, reach config.Reach) (config.Pipeline, config.Problems, error) {
			return config.ParsePipelineRun(name, data, reach, c.Interactive(), named.Agents)
		})
	}
	if err == nil {
		o.input.Inputs, err = f.inputs.readInputs(o.file.Pipeline)
	}
	if err != nil {
		return o, err
	}
	if request == "" {
		o.input.Request = string(o.input.Inputs)
	}
	if !t.Cluster {
		o.file.Pipeline, err = prepareLocal(c, t, w, o.file.Pipeline, f.offline)
		return o, err
	}
	if o.file.Pipeline, err = prepareCluster(o.file.Pipeline, named, f.offline); err != nil {
		return o, err
	}
	if o.input.Config, err = o.file.Canonical(); err == nil && len(o.input.Config) > workflows.MaxInput {
		err = fmt.Errorf("the pipeline in %s has %d bytes as JSON, at most %d are accepted", name, len(o.input.Config), workflows.MaxInput)
	}
	return o, err
}

// runPipeline checks the input, connects, starts a run and follows it. With invalid input
// it starts nothing, not even the stack.
func runPipeline(ctx context.Context, c *cli.CLI, f pipelineFlags, name, request string) error {
	p, id, err := preparePipelineRun(ctx, c, f, name, request)
	if err != nil {
		return err
	}
	return runs.Begin(ctx, c, p.target, web.Offer, func(conn *cli.Connection) (runs.Order, error) { return p.order(ctx, conn) }, func(conn *cli.Connection, started runs.Order) error {
		inputs.Remember(conn, id, f.material.Directory())
		err := runs.Watch(ctx, conn, started, p.worker)
		if err == nil && f.material.HasBase() {
			outputs.PrintChanged(ctx, conn, id)
		}
		return err
	})
}

// preparePipelineRun checks the input of a run, and returns its order and its ID.
func preparePipelineRun(ctx context.Context, c *cli.CLI, f pipelineFlags, name, request string) (p prepared, id string, err error) {
	t, w, err := teams.Open(c)
	if err != nil {
		return p, "", err
	}
	o, err := newPipelineOrder(c, t, w, f, name, request)
	if err != nil {
		return p, "", err
	}
	if err := f.material.Check(); err != nil {
		return p, "", err
	}
	for _, w := range o.file.warnings {
		c.Infof("warning: %v", w)
	}
	if err := w.Serves(ctx, o.file.Teams()...); err != nil {
		return p, "", err
	}
	w.NoteShell(ctx, c, o.file.Teams()...)
	return prepared{t, w, func(ctx context.Context, conn *cli.Connection) (started runs.Order, err error) {
		if o.input.Material, err = f.material.Upload(ctx, conn); err == nil {
			o.input, err = o.newInput(conn)
		}
		return runs.Order{
			Kind: PipelineKind(), ID: o.id, Query: o.input.Request, Source: "steps from " + o.file.name + ": " + describeSteps(o.file.Pipeline),
			Offline: o.offline, Input: o.input, IDFlag: "--session-id",
		}, err
	}}, o.id, nil
}

// PreparePipeline checks the pipeline in a file as pipeline run does, and returns a function that makes the
// input of its runs, without a request.
func PreparePipeline(ctx context.Context, c *cli.CLI, t cli.Target, name string, offline bool) (func(*cli.Connection) (pipelineflow.Input, error), error) {
	w := &teams.Worker{}
	var err error
	if !t.Cluster {
		if w, err = teams.OpenWorker(c, t); err != nil {
			return nil, err
		}
	}
	o, err := newPipelineOrder(c, t, w, pipelineFlags{offline: offline}, name, "")
	if err == nil {
		err = w.Serves(ctx, o.file.Teams()...)
	}
	return o.newInput, err
}

// newInput returns the input of a run of the order's pipeline, which the workers of a local stack find in
// the data directory.
func (o pipelineOrder) newInput(conn *cli.Connection) (in pipelineflow.Input, err error) {
	in = o.input
	if !conn.Cluster {
		in.Pipeline, err = teams.Registry(conn.Target).Register(o.file.Pipeline)
	}
	return in, err
}

// offlineNote is printed wherever agents use the built-in model.
const offlineNote = "offline: the built-in deterministic model plays the agents; no language model is asked"

func describeSteps(p config.Pipeline) string {
	var steps []string
	for _, s := range p.Steps {
		words := s.Name + " (" + string(s.Kind) + ")"
		if s.Name == p.Start {
			words = s.Name + " (" + string(s.Kind) + ", start)"
		}
		steps = append(steps, words)
	}
	return strings.Join(steps, ", ")
}

// pipelineFile is the content of a pipeline's file.
type pipelineFile struct {
	config.Pipeline
	name     string
	warnings config.Problems
}

func readFile(name string, reach config.Reach, parse func(string, []byte, config.Reach) (config.Pipeline, config.Problems, error)) (pipelineFile, error) {
	f := pipelineFile{name: name}
	data, err := teams.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("read the pipeline: %w; name a file with start and steps", err)
	case err != nil:
		return f, fmt.Errorf("read the pipeline: %w", err)
	}
	f.Pipeline, f.warnings, err = parse(name, data, reach.Beside(name))
	return f, err
}

// prepareLocal sets the team of every session step, resolves the models' addresses, and checks
// their keys.
func prepareLocal(c *cli.CLI, t cli.Target, w *teams.Worker, p config.Pipeline, offline bool) (config.Pipeline, error) {
	p.Steps = append([]config.PipelineStep{}, p.Steps...)
	for i, s := range p.Steps {
		if s.Kind != pipeline.Session || s.Config != nil {
			continue
		}
		agents, err := sessionTeam(c, t, w, s.Team, offline)
		if err != nil {
			return p, fmt.Errorf("step %s: %w", s.Name, err)
		}
		p.Steps[i].Config, p.Steps[i].Team = &agents, ""
	}
	if offline {
		return p.Offline(), nil
	}
	if err := w.FindKeys(c, p.Teams()...); err != nil {
		return p, err
	}
	p.Agents = w.Resolve(config.Team{Agents: p.Agents}).Agents
	for i, s := range p.Steps {
		if s.Config != nil {
			resolved := w.Resolve(*s.Config)
			p.Steps[i].Config = &resolved
		}
	}
	for _, agents := range p.Teams() {
		if err := w.Startable(agents); err != nil {
			return p, err
		}
	}
	return p, nil
}

// sessionTeam returns the team for a session step without a config. An empty name
// selects the default team.
func sessionTeam(c *cli.CLI, t cli.Target, w *teams.Worker, name string, offline bool) (config.Team, error) {
	if name != "" || !c.NamesTeam() {
		if agents, _, found := w.Team(cmp.Or(name, activities.DefaultTeam)); found {
			return agents, nil
		}
	}
	if name != "" && name != activities.DefaultTeam {
		return config.Team{}, fmt.Errorf("there is no team %q here, only %s; give the step a config of its own, or define the team in the file of --worker-config", name, w.Known())
	}
	if !c.NamesTeam() {
		if agents, found, err := teams.Default(t); found || err != nil {
			return agents, err
		}
	}
	agents, _, err := w.Load(c, config.Local, offline)
	return agents, err
}

// prepareCluster completes a pipeline for a cluster, whose workers define the named teams. The team
// of --model, if there is one, is that of steps that name none.
func prepareCluster(p config.Pipeline, flagged config.Team, offline bool) (config.Pipeline, error) {
	for i, s := range p.Steps {
		if s.Kind == pipeline.Session && s.Config == nil && s.Team == "" && len(flagged.Agents) > 0 {
			p.Steps[i].Config = &flagged
		}
	}
	if !offline {
		return p, nil
	}
	for _, s := range p.Steps {
		if s.Kind == pipeline.Session && s.Config == nil {
			return p, fmt.Errorf("step %s: --offline replaces the models of a configuration, not those of a worker's team; give the step a config", s.Name)
		}
	}
	return p.Offline(), nil
}

// PipelineCommand returns `conclave pipeline`.
func PipelineCommand(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Run step graphs with jump and call: run, validate, list",
		Long: `Run a pipeline: a graph of named steps, each an agent, a list of tool calls, or a
whole team. Rules of the file choose the next step, or the agent does: it jumps to
another step, or calls one and continues when that returns.

A run has an ID, with which watch, status, result, say, pause, resume, retry, cancel,
pull and transcript work as they do for a session.`,
		Example: `  conclave pipeline validate pipeline.yaml --graph
  conclave pipeline run --offline pipeline.yaml "A script that greets the world"
  conclave pipeline validate pipeline.yaml --graph --run 20261121-153012-k3f9
  conclave pipeline list`,
		RunE: cli.Group,
	}
	cmd.AddCommand(runPipelineCommand(c), validatePipelineCommand(c), listPipelinesCommand(c))
	return cmd
}

func runPipelineCommand(c *cli.CLI) *cobra.Command {
	var flags pipelineFlags
	cmd := &cobra.Command{
		Use:   "run [flags] FILE [REQUEST]",
		Short: "Run a pipeline and print its final text",
		Long: `Run the pipeline in FILE and print the text of its last step. REQUEST opens the prompt
of every step; it can be left out where the inputs of the pipeline say everything.

Without an address it runs on this machine, as ` + "`conclave run`" + ` does: Ctrl-C stops
watching, and the run continues with the next run, watch, dev or worker on the same
data directory. With an address it is started on that cluster and followed.

At a terminal a step that fails finally parks the run, which waits for retry or cancel,
unless the file has on_step_failure. A run that a failed step has ended
can be continued with ` + "`conclave retry ID`" + ` as well.

A session step without a team gets the one of --config or --model, else the one that
` + "`conclave run`" + ` would use. Agents of the file that name neither a model nor a server
get the models of --model, in turn.

Exit codes: 0 the last step completed, or used up its model calls (max_iterations);
1 wrong usage or configuration and nothing started, 2 a step failed finally, or the
run was cancelled; 4 interrupted.`,
		Example: `  conclave pipeline run --offline pipeline.yaml "A script that greets the world"
  conclave pipeline run --model anthropic:claude-sonnet-4-5 pipeline.yaml "A script that greets the world"
  conclave pipeline run --input branch=main --input limit=20 review.yaml
  conclave pipeline run --session-id release-42 pipeline.yaml "Write the release notes"
  conclave pipeline run --automation pipeline.yaml "…" | tail -n 1 | jq -r .final`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := flags.request.Read(cmd.Context(), args)
			if err != nil {
				return err
			}
			return runPipeline(cmd.Context(), c, flags, args[0], request)
		},
	}
	flags.addTo(c, cmd)
	teams.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

func (f *pipelineFlags) addTo(c *cli.CLI, cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.request = cli.NewQuery(c, "REQUEST", set)
	f.request.Instead = f.inputs.areGiven
	cmd.Args = f.request.Arguments("FILE")
	f.inputs.addFlags(cmd)
	teams.ModelFlags(c, set)
	f.material.Add(set)
	teams.ShellFlags(c, set, "the agents of a team that the file does not name")
	set.StringVar(&f.id, "session-id", "", "`ID` of the run (default a new one)")
	set.StringVar(&f.id, "id", "", "the former name of --session-id")
	_ = set.MarkHidden("id") // fails for unknown flags only
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
}

func listPipelinesCommand(c *cli.CLI) *cobra.Command {
	list := &runs.List{Kind: PipelineKind(), Titles: [2]string{"RUN", "REQUEST"}}
	return list.Add(c, &cobra.Command{
		Use:   "list",
		Short: "List runs of pipelines, newest first",
		Long: `List the newest runs of pipelines of the local data directory, or of a cluster's
namespace, with their duration and cost. Runs that wait for a person are shown as
paused or parked; with --json they are running. It never runs a step.`,
		Example: `  conclave pipeline list
  conclave pipeline list --status error --since 7d`,
	})
}
