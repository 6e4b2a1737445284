package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/session/quality"
	"conclave/engine/step"
	"conclave/engine/text"
)

// lastStep is the STEP argument for an agent's newest step.
const lastStep = "last"

// maxListed is the maximum length, in bytes, of a list of agents or steps in a message.
const maxListed = 400

// stepRequest names the requested step.
type stepRequest struct {
	run, agent string
	step       int // 0 for the last
	full       bool
	evaluation bool // whether the evaluation of the step's answer is shown
}

// TranscriptCommand returns `conclave transcript`.
func TranscriptCommand(c *cli.CLI) *cobra.Command {
	var want stepRequest
	cmd := &cobra.Command{
		Use: "transcript ID AGENT STEP", SuggestFor: []string{"log", "logs"},
		Short: "Print the conversation of a step",
		Long: `Show what happened in one step of an agent: its prompt, the model's replies, tool
calls and their results, rejections with their reasons, and the cost. STEP is a
number, or "last". For a run of a pipeline AGENT is the name of a step of the
graph, and STEP is its number in the run. For a run of a scenario, SLUG/RUN_ID,
AGENT is the ID of a step, and STEP counts its starts: a pause and a retry start
it again.

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
  conclave transcript buy/20261121-153012-k3f9 02 last
  conclave transcript --bucket sessions --prefix team-a 20261121-153012-k3f9 agent_b last`,
		Args: cli.Arguments("ID", "AGENT", "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := parseStep(args[2])
			if err != nil {
				return err
			}
			want.run, want.agent, want.step = args[0], args[1], number
			return printTranscript(cmd.Context(), c, want)
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
		return 0, fmt.Errorf("the STEP %q is not a number from 1; give it as 3, as 003, or as %s", text.Truncate(arg, cli.MaxEcho), lastStep)
	}
	return int(n), nil
}

func printTranscript(ctx context.Context, c *cli.CLI, want stepRequest) error {
	if err := record.CheckID(want.run); err != nil {
		return err
	}
	conn, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = showStep(ctx, conn, want)
	if err != nil && ctx.Err() != nil {
		return cli.Exitf(cli.ExitInterrupted, "interrupted before the transcript was read")
	}
	return err
}

func showStep(ctx context.Context, conn *cli.Connection, want stepRequest) error {
	s, err := readStep(ctx, conn, want)
	if err != nil {
		return err
	}
	if !conn.Scripted() {
		return conn.Print(formatStep(s, formatOptions{Full: want.full, Zone: time.Local}))
	}
	var lines strings.Builder
	for _, l := range s.Lines {
		lines.Write(append(cli.EscapeControls(l.Raw), '\n'))
	}
	return conn.Print(lines.String())
}

// readStep reads a step of a run. If it does not exist, the error lists the existing steps.
func readStep(ctx context.Context, conn *cli.Connection, want stepRequest) (shownStep, error) {
	run, err := record.Find(ctx, conn.Store, want.run)
	if errors.Is(err, record.ErrNone) {
		return shownStep{}, conn.NoRun(ctx, want.run)
	}
	if err != nil {
		return shownStep{}, err
	}
	if want.evaluation && run.Kind != record.Sessions {
		return shownStep{}, cli.Exitf(cli.ExitUsage, "--evaluation: only answers of sessions are evaluated, and %s is a %s", want.run, run.Kind.Noun)
	}
	d, err := findStep(ctx, conn, run, want)
	if err != nil {
		return shownStep{}, err
	}
	s := shownStep{Agent: d.Agent, Number: d.Number}
	if run.Kind == record.Scenarios {
		s.Agent = "step " + d.Agent
	}
	dir, what := run.Layout.File(d.Dir), "step "+nameOf(d)
	if s.Evaluation = want.evaluation; s.Evaluation {
		dir, what = dir+record.Evaluations, "the evaluation of step "+nameOf(d)
	}
	s.Transcript, err = step.ReadTranscript(ctx, run.Store, run.Layout, dir)
	missing := errors.Is(err, artifact.ErrNotFound) && s.Claim.Token == ""
	switch {
	case missing && s.Evaluation:
		return s, cli.Exitf(cli.ExitUsage, "step %s of %s has no evaluation; `%s` shows the step",
			nameOf(d), run, conn.CommandLine("transcript", run.ID, d.Agent, strconv.Itoa(d.Number)))
	case missing:
		return s, cli.Exitf(cli.ExitUsage, "step %s of %s has no transcript: another program ran it; `%s` copies its files",
			nameOf(d), run, conn.CommandLine("pull", run.ID, "DIR"))
	case err != nil:
		return s, fmt.Errorf("show %s of %s: %w", what, run, err)
	case s.Evaluation:
		return s, nil
	}
	s.Failure = failureOf(ctx, run, d)
	if rating, err := artifact.ReadJSON[quality.Rating](ctx, run.Store, dir+record.Evaluations+"verdict.json"); err == nil {
		s.Rating, s.Hint = &rating, conn.CommandLine("transcript", run.ID, d.Agent, strconv.Itoa(d.Number), "--evaluation")
	}
	return s, nil
}

// findStep returns the directory of a step. If it does not exist, the error lists the existing steps.
func findStep(ctx context.Context, conn *cli.Connection, run record.Run, want stepRequest) (record.StepDir, error) {
	agent := want.agent
	if run.Kind == record.Scenarios && len(agent) == 1 {
		agent = "0" + agent
	}
	steps, err := run.Steps(ctx, agent)
	if err != nil {
		return record.StepDir{}, err
	}
	for _, d := range slices.Backward(steps) {
		if want.step == 0 || want.step == d.Number {
			return d, nil
		}
	}
	if steps, err = run.Steps(ctx, ""); err != nil {
		return record.StepDir{}, err
	}
	if len(steps) == 0 {
		return record.StepDir{}, cli.Exitf(cli.ExitUsage, "%s has no steps yet; `%s` shows its state", run, conn.CommandLine("status", run.ID))
	}
	all := text.Each(steps, nameOf)
	asked := text.Truncate(want.agent, cli.MaxEcho)
	if want.step > 0 {
		asked += fmt.Sprintf(" %03d", want.step)
	}
	return record.StepDir{}, cli.Exitf(cli.ExitUsage, "%s has no step %q; it has %s", run, asked, text.Truncate(strings.Join(all, ", "), maxListed))
}

func nameOf(d record.StepDir) string { return fmt.Sprintf("%s %03d", d.Place(), d.Number) }

// failureOf returns the failure of a step. In a session it is known of an agent's last step only.
func failureOf(ctx context.Context, run record.Run, d record.StepDir) *artifact.Error {
	key := run.Layout.File(d.Dir + "last_action.json")
	if run.Kind == record.Sessions {
		key = run.Layout.File(path.Join(d.Dir, "../last_action.json"))
	}
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, run.Store, key)
	if err != nil || run.Kind == record.Sessions && last.StepNumber != d.Number {
		return nil
	}
	if last.Error != nil && run.Kind == record.Sessions {
		state, _ := artifact.ReadJSON[acts.State](ctx, run.Store, run.Layout.File("status.json"))
		return record.ExplainCut(state, d.Agent, last.Error)
	}
	return last.Error
}
