package transcript

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/step"
	"conclave/engine/team/evaluator"
	"conclave/engine/text"
)

// lastStep is the STEP argument for an agent's newest step.
const lastStep = "last"

// maxListed is the maximum length, in bytes, of a list of agents or steps in a message.
const maxListed = 400

// request names the requested step.
type request struct {
	session, agent string
	step           int // 0 for the last
	full           bool
	evaluation     bool // whether the evaluation of the step's answer is shown
}

// Command returns `conclave transcript`.
func Command(c *hall.CLI) *cobra.Command {
	var want request
	cmd := &cobra.Command{
		Use: "transcript ID AGENT STEP", SuggestFor: []string{"log", "logs"},
		Short: "Print the conversation of a step",
		Long: `Show what happened in one step of an agent: its prompt, the model's replies, tool
calls and their results, rejections with their reasons, and the cost. STEP is a
number, or "last". For a run of a pipeline AGENT is the name of a step of the
graph, and STEP is its number in the run. For a run of a scenario AGENT is the ID
of a step, and STEP counts its starts: a pause and a retry start it again.

A step whose answer was evaluated says so at its end; --evaluation shows the
evaluator's conversation instead.

For an unfinished step it shows the transcript so far. Long texts are truncated
unless --full is given. With --json it prints the lines of the transcript
unchanged, one JSON object per line. It never runs a step.

Without an address the session is looked for in the local stack; of a cluster,
name its bucket with --bucket.`,
		Example: `  conclave transcript 20261121-153012-k3f9 agent_a 3
  conclave transcript 20261121-153012-k3f9 agent_a last --full | less
  conclave transcript --evaluation 20261121-153012-k3f9 agent_a 3
  conclave transcript --json 20261121-153012-k3f9 agent_a 3 | jq -r 'select(.kind == "rejection").reason'
  conclave transcript 20261121-153012-k3f9 02 last
  conclave transcript --bucket sessions --prefix team-a 20261121-153012-k3f9 agent_b last`,
		Args: hall.Arguments("ID", "AGENT", "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := parseStep(args[2])
			if err != nil {
				return err
			}
			want.session, want.agent, want.step = args[0], args[1], number
			return run(cmd.Context(), c, want)
		},
	}
	cmd.Flags().BoolVar(&want.full, "full", false, "do not truncate long texts")
	cmd.Flags().BoolVar(&want.evaluation, "evaluation", false, "show the evaluation of the answer of the step")
	return cmd
}

// parseStep parses a STEP: a number with or without leading zeros, or 0 for the last.
func parseStep(arg string) (int, error) {
	if arg == lastStep {
		return 0, nil
	}
	n, err := strconv.ParseUint(arg, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("the STEP %q is not a number from 1; give it as 3, as 003, or as %s", text.Truncate(arg, hall.MaxEcho), lastStep)
	}
	return int(n), nil
}

func run(ctx context.Context, c *hall.CLI, want request) error {
	if err := hall.CheckRunID(want.session); err != nil {
		return err
	}
	conn, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = show(ctx, conn, want)
	if err != nil && ctx.Err() != nil {
		return hall.Exitf(hall.ExitInterrupted, "interrupted before the transcript was read")
	}
	return err
}

// show prints a step from the store of a connection.
func show(ctx context.Context, conn *hall.Connection, want request) error {
	s, err := readStep(ctx, conn, want)
	if err != nil {
		return err
	}
	if !conn.Scripted() {
		return conn.Print(formatStep(s, options{Full: want.full, Zone: time.Local}))
	}
	var lines strings.Builder
	for _, l := range s.Lines {
		lines.Write(append(hall.EscapeControls(l.Raw), '\n'))
	}
	return conn.Print(lines.String())
}

// readStep reads a step. If it does not exist, the error lists the existing steps.
func readStep(ctx context.Context, conn *hall.Connection, want request) (shownStep, error) {
	layout := artifact.InBucket(want.session)
	exists, err := conn.Store.Exists(ctx, layout.File("session.json"))
	if err != nil {
		return shownStep{}, fmt.Errorf("look for session %s: %w", want.session, err)
	}
	if !exists && want.evaluation {
		return shownStep{}, hall.Exitf(hall.ExitUsage, "--evaluation: %s is not a session with files %s; only answers of sessions are evaluated", want.session, conn.Target)
	}
	if !exists {
		return readPipelineStep(ctx, conn, want)
	}
	if artifact.CheckAgentID(want.agent) != nil {
		return shownStep{}, noAgent(ctx, conn, want)
	}
	s := shownStep{Agent: want.agent, Number: want.step}
	if s.Number == 0 {
		steps, err := stepNumbers(ctx, conn.Store, layout, want.agent)
		if err != nil {
			return s, err
		}
		if len(steps) == 0 {
			return s, noAgent(ctx, conn, want)
		}
		s.Number = steps[len(steps)-1]
	}
	dir := layout.Step(want.agent, s.Number, "")
	if want.evaluation {
		return readEvaluation(ctx, conn, want, s, layout)
	}
	s.Transcript, err = step.ReadTranscript(ctx, conn.Store, layout, dir)
	switch {
	case errors.Is(err, artifact.ErrNotFound) && s.Claim.Token == "":
		return s, noStep(ctx, conn, want, s.Number)
	case err != nil:
		return s, fmt.Errorf("show step %03d of %s in session %s: %w", s.Number, want.agent, want.session, err)
	}
	s.Failure = failureOf(ctx, conn, s, layout)
	if rating, err := artifact.ReadJSON[evaluator.Rating](ctx, conn.Store, dir+evaluations+"verdict.json"); err == nil {
		s.Rating, s.Hint = &rating, conn.CommandLine("transcript", want.session, want.agent, strconv.Itoa(s.Number), "--evaluation")
	}
	return s, nil
}

// evaluations is the directory of an answer's evaluation, within the directory of its step.
const evaluations = "evaluator/"

// readEvaluation reads the evaluation of a step's answer.
func readEvaluation(ctx context.Context, conn *hall.Connection, want request, s shownStep, layout artifact.Layout) (shownStep, error) {
	t, err := step.ReadTranscript(ctx, conn.Store, layout, layout.Step(want.agent, s.Number, evaluations))
	if errors.Is(err, artifact.ErrNotFound) && t.Claim.Token == "" {
		return s, hall.Exitf(hall.ExitUsage, "step %03d of %s in session %s has no evaluation; `%s` shows the step",
			s.Number, want.agent, want.session, conn.CommandLine("transcript", want.session, want.agent, strconv.Itoa(s.Number)))
	}
	if err != nil {
		return s, fmt.Errorf("show the evaluation of step %03d of %s in session %s: %w", s.Number, want.agent, want.session, err)
	}
	s.Transcript, s.Evaluation = t, true
	return s, nil
}

// failureOf returns the failure of a step if it is the last action of its agent.
func failureOf(ctx context.Context, conn *hall.Connection, s shownStep, layout artifact.Layout) *artifact.Error {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, conn.Store, layout.Agent(s.Agent, "last_action.json"))
	if err != nil || last.StepNumber != s.Number {
		return nil
	}
	return last.Error
}

// noAgent returns the error for an unknown agent.
func noAgent(ctx context.Context, conn *hall.Connection, want request) error {
	agents, err := agentIDs(ctx, conn.Store, artifact.InBucket(want.session))
	switch {
	case err != nil:
		return err
	case len(agents) == 0:
		return hall.Exitf(hall.ExitUsage, "session %s has no steps yet; `%s` shows its state", want.session, conn.CommandLine("status", want.session))
	}
	return hall.Exitf(hall.ExitUsage, "session %s has no steps of %q; it has steps of %s",
		want.session, text.Truncate(want.agent, hall.MaxEcho), text.Truncate(strings.Join(agents, ", "), maxListed))
}

// noStep returns the error for an unknown step.
func noStep(ctx context.Context, conn *hall.Connection, want request, number int) error {
	steps, err := stepNumbers(ctx, conn.Store, artifact.InBucket(want.session), want.agent)
	switch {
	case err != nil:
		return err
	case len(steps) == 0:
		return noAgent(ctx, conn, want)
	case slices.Contains(steps, number):
		return hall.Exitf(hall.ExitUsage, "step %03d of %s in session %s has no transcript: another program ran it; `%s` copies its files",
			number, want.agent, want.session, conn.CommandLine("pull", want.session, "DIR"))
	}
	numbers := make([]string, len(steps))
	for i, n := range steps {
		numbers[i] = fmt.Sprintf("%03d", n)
	}
	return hall.Exitf(hall.ExitUsage, "%s has no step %03d in session %s; it has %s",
		want.agent, number, want.session, text.Truncate(strings.Join(numbers, ", "), maxListed))
}

// readPipelineStep reads a step of a pipeline's run. If it does not exist, the error lists the
// existing steps.
func readPipelineStep(ctx context.Context, conn *hall.Connection, want request) (shownStep, error) {
	layout := artifact.InPipeline(want.session)
	exists, err := conn.Store.Exists(ctx, layout.File("pipeline.json"))
	if err != nil {
		return shownStep{}, fmt.Errorf("look for pipeline run %s: %w", want.session, err)
	}
	if !exists {
		return readScenarioStep(ctx, conn, want)
	}
	steps, err := pipelineSteps(ctx, conn.Store, layout)
	if err != nil {
		return shownStep{}, err
	}
	s := shownStep{Agent: want.agent}
	for _, g := range steps { // the last match counts
		if g.Step == want.agent && (want.step == 0 || want.step == g.Number) {
			s.Number = g.Number
		}
	}
	if s.Number == 0 {
		return s, noPipelineStep(conn, want, steps)
	}
	dir := layout.PipelineStep(s.Number, s.Agent, "")
	s.Transcript, err = step.ReadTranscript(ctx, conn.Store, layout, dir)
	if err != nil {
		return s, fmt.Errorf("show step %03d, %s, of pipeline run %s: %w", s.Number, s.Agent, want.session, err)
	}
	if last, err := artifact.ReadJSON[artifact.LastAction](ctx, conn.Store, dir+"last_action.json"); err == nil {
		s.Failure = last.Error
	}
	return s, nil
}

// noPipelineStep returns the error for an unknown step of a run.
func noPipelineStep(conn *hall.Connection, want request, steps []numberedStep) error {
	if len(steps) == 0 {
		return hall.Exitf(hall.ExitUsage, "pipeline run %s has no steps yet; `%s` shows its state", want.session, conn.CommandLine("status", want.session))
	}
	var all []string
	for _, g := range steps {
		all = append(all, fmt.Sprintf("%s %03d", g.Step, g.Number))
	}
	asked := text.Truncate(want.agent, hall.MaxEcho)
	if want.step > 0 {
		asked += fmt.Sprintf(" %03d", want.step)
	}
	return hall.Exitf(hall.ExitUsage, "pipeline run %s has no step %q; it has %s", want.session, asked, text.Truncate(strings.Join(all, ", "), maxListed))
}

// agentIDs returns the agents of a session that have a step, in byte order.
func agentIDs(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]string, error) {
	return subdirectories(ctx, store, layout.File("agents/"))
}

// stepNumbers returns the numbers of an agent's steps, in order.
func stepNumbers(ctx context.Context, store artifact.Store, layout artifact.Layout, agent string) ([]int, error) {
	dirs, err := subdirectories(ctx, store, layout.Agent(agent, ""))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, dir := range dirs {
		if n, err := strconv.Atoi(dir); err == nil && n > 0 && fmt.Sprintf("%03d", n) == dir {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers) // 1000 comes before 999 among names
	return numbers, nil
}

// numberedStep is a directory in steps/ of a pipeline's run.
type numberedStep struct {
	Number int
	Step   string
}

// pipelineSteps returns the steps of a pipeline's run, in order.
func pipelineSteps(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]numberedStep, error) {
	dirs, err := subdirectories(ctx, store, layout.File("steps/"))
	if err != nil {
		return nil, err
	}
	var steps []numberedStep
	for _, dir := range dirs {
		number, name, _ := strings.Cut(dir, "-")
		if n, err := strconv.Atoi(number); err == nil && n > 0 && layout.PipelineStep(n, name, "") == layout.File("steps/"+dir+"/") {
			steps = append(steps, numberedStep{Number: n, Step: name})
		}
	}
	slices.SortFunc(steps, func(a, b numberedStep) int { return a.Number - b.Number })
	return steps, nil
}

// subdirectories returns the directories directly below a prefix.
func subdirectories(ctx context.Context, store artifact.Store, prefix string) ([]string, error) {
	var found []string
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", store.URL(prefix), err)
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if ok && (len(found) == 0 || found[len(found)-1] != name) {
			found = append(found, name)
		}
	}
	// Names may repeat, because the keys are in byte order, with "a-b/x" before "a/x".
	slices.Sort(found)
	return slices.Compact(found), nil
}
