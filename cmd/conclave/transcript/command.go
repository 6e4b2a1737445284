package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/step"
)

// lastStep is the STEP that stands for an agent's newest.
const lastStep = "last"

// maxListed bounds a list of what there is in a message, in bytes.
const maxListed = 400

// request names the step whose transcript is asked for.
type request struct {
	session, agent string
	step           int // 0 for the last
	full           bool
}

// Command is `conclave transcript`.
func Command(c *hall.CLI) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "transcript ID AGENT STEP",
		Short: "What happened in a step",
		Long: `Show what happened in one step of an agent: what it was told, what its model
replied, which tools it called with which results, what was rejected and why, and
what it cost. STEP is a number, or "last". Of a run of a pipeline,
AGENT is the name of a step of the graph, and STEP is its number in the run.

Of a step that is not over it shows what is kept so far. Long texts are cut,
with --full they are not. With --json it prints the lines of the transcript as
they are, one JSON object per line. It never runs a step.

Without an address the session is looked for in the local stack; of a cluster,
name its bucket with --bucket.`,
		Example: `  conclave transcript 20261121-153012-k3f9 agent_a 3
  conclave transcript 20261121-153012-k3f9 agent_a last --full | less
  conclave transcript --json 20261121-153012-k3f9 agent_a 3 | jq -r 'select(.kind == "rejection").reason'
  conclave transcript --bucket sessions --prefix team-a 20261121-153012-k3f9 agent_b last`,
		Args: hall.Arguments("ID", "AGENT", "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := parseStep(args[2])
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, request{session: args[0], agent: args[1], step: number, full: full})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "do not cut long texts")
	return cmd
}

// parseStep reads a STEP: a number with or without leading zeros, or 0 for the last.
func parseStep(text string) (int, error) {
	if text == lastStep {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("the STEP %q is no number from 1; give it as 3, as 003, or as %s", progress.Cut(text, hall.MaxEcho), lastStep)
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

// showTranscript prints a step of a session in the place's store.
func show(ctx context.Context, conn *hall.Connection, want request) error {
	s, err := readStep(ctx, conn, want)
	if err != nil {
		return err
	}
	if !conn.Scripted() {
		return hall.PrintError(Print(conn.Stdout, s, Options{Full: want.full, Zone: time.Local}))
	}
	var lines strings.Builder
	for _, l := range s.Lines {
		lines.Write(append(hall.EscapeControls(l.Raw), '\n'))
	}
	_, err = io.WriteString(conn.Stdout, lines.String())
	return hall.PrintError(err)
}

// readStep finds the step, or says what there is instead.
func readStep(ctx context.Context, conn *hall.Connection, want request) (Step, error) {
	layout := artifact.InBucket(want.session)
	there, err := conn.Store.Exists(ctx, layout.File("session.json"))
	if err != nil {
		return Step{}, fmt.Errorf("look for session %s: %w", want.session, err)
	}
	if !there {
		return readSegment(ctx, conn, want)
	}
	if artifact.CheckAgentID(want.agent) != nil {
		return Step{}, noAgent(ctx, conn, want)
	}
	s := Step{Agent: want.agent, Number: want.step}
	if s.Number == 0 {
		steps, err := Steps(ctx, conn.Store, layout, want.agent)
		if err != nil {
			return s, err
		}
		if len(steps) == 0 {
			return s, noAgent(ctx, conn, want)
		}
		s.Number = steps[len(steps)-1]
	}
	s.Transcript, err = step.ReadTranscript(ctx, conn.Store, layout, layout.Step(want.agent, s.Number, ""))
	switch {
	case errors.Is(err, artifact.ErrNotFound) && s.Claim.Token == "":
		return s, noStep(ctx, conn, want, s.Number)
	case err != nil:
		return s, fmt.Errorf("show step %03d of %s in session %s: %w", s.Number, want.agent, want.session, err)
	}
	s.Failure = failureOf(ctx, conn, s, layout)
	return s, nil
}

// failureOf is why a step was given up, if its agent's last action tells of it.
func failureOf(ctx context.Context, conn *hall.Connection, s Step, layout artifact.Layout) *artifact.Error {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, conn.Store, layout.Agent(s.Agent, "last_action.json"))
	if err != nil || last.StepNumber != s.Number {
		return nil
	}
	return last.Error
}

// noAgent says which agents have steps.
func noAgent(ctx context.Context, conn *hall.Connection, want request) error {
	agents, err := Agents(ctx, conn.Store, artifact.InBucket(want.session))
	switch {
	case err != nil:
		return err
	case len(agents) == 0:
		return hall.Exitf(hall.ExitUsage, "session %s has no steps yet; `%s` shows how it stands", want.session, conn.CommandLine("status", want.session))
	}
	return hall.Exitf(hall.ExitUsage, "session %s has no steps of %q; it has steps of %s",
		want.session, progress.Cut(want.agent, hall.MaxEcho), progress.Cut(strings.Join(agents, ", "), maxListed))
}

// noStep says which steps the agent has.
func noStep(ctx context.Context, conn *hall.Connection, want request, number int) error {
	steps, err := Steps(ctx, conn.Store, artifact.InBucket(want.session), want.agent)
	switch {
	case err != nil:
		return err
	case len(steps) == 0:
		return noAgent(ctx, conn, want)
	case slices.Contains(steps, number):
		return hall.Exitf(hall.ExitUsage, "step %03d of %s in session %s has no transcript: it was not taken by this program; `%s` copies what there is",
			number, want.agent, want.session, conn.CommandLine("pull", want.session, "DIR"))
	}
	numbers := make([]string, len(steps))
	for i, n := range steps {
		numbers[i] = fmt.Sprintf("%03d", n)
	}
	return hall.Exitf(hall.ExitUsage, "%s has no step %03d in session %s; it has %s",
		want.agent, number, want.session, progress.Cut(strings.Join(numbers, ", "), maxListed))
}

// readSegment finds a step of a pipeline's run, or says what there is instead. There
// is no session with this ID.
func readSegment(ctx context.Context, conn *hall.Connection, want request) (Step, error) {
	layout := artifact.InPipeline(want.session)
	there, err := conn.Store.Exists(ctx, layout.File("pipeline.json"))
	if err != nil {
		return Step{}, fmt.Errorf("look for pipeline run %s: %w", want.session, err)
	}
	if !there {
		return Step{}, conn.NoFiles(want.session)
	}
	segments, err := Segments(ctx, conn.Store, layout)
	if err != nil {
		return Step{}, err
	}
	s := Step{Agent: want.agent}
	for _, g := range segments { // the last one that fits
		if g.Step == want.agent && (want.step == 0 || want.step == g.Number) {
			s.Number = g.Number
		}
	}
	if s.Number == 0 {
		return s, noSegment(conn, want, segments)
	}
	dir := layout.Segment(s.Number, s.Agent, "")
	s.Transcript, err = step.ReadTranscript(ctx, conn.Store, layout, dir)
	if err != nil {
		return s, fmt.Errorf("show step %03d, %s, of pipeline run %s: %w", s.Number, s.Agent, want.session, err)
	}
	if last, err := artifact.ReadJSON[artifact.LastAction](ctx, conn.Store, dir+"last_action.json"); err == nil {
		s.Failure = last.Error
	}
	return s, nil
}

// noSegment says which steps a run has.
func noSegment(conn *hall.Connection, want request, segments []Segment) error {
	if len(segments) == 0 {
		return hall.Exitf(hall.ExitUsage, "pipeline run %s has no steps yet; `%s` shows how it stands", want.session, conn.CommandLine("status", want.session))
	}
	var all []string
	for _, g := range segments {
		all = append(all, fmt.Sprintf("%s %03d", g.Step, g.Number))
	}
	asked := progress.Cut(want.agent, hall.MaxEcho)
	if want.step > 0 {
		asked += fmt.Sprintf(" %03d", want.step)
	}
	return hall.Exitf(hall.ExitUsage, "pipeline run %s has no step %q; it has %s", want.session, asked, progress.Cut(strings.Join(all, ", "), maxListed))
}
