package main

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

	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/transcript"
	"conclave/engine/artifact"
	"conclave/engine/step"
)

// lastStep is the STEP that stands for an agent's newest.
const lastStep = "last"

// maxListed bounds a list of what there is in a message, in bytes.
const maxListed = 400

// wanted is the step that a transcript is asked for of.
type wanted struct {
	session, agent string
	step           int // 0 for the last
	full           bool
}

func (c *cli) transcriptCommand() *cobra.Command {
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
		Args: arguments("ID", "AGENT", "STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := parseStep(args[2])
			if err != nil {
				return err
			}
			return c.transcript(cmd.Context(), wanted{session: args[0], agent: args[1], step: number, full: full})
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
		return 0, fmt.Errorf("the STEP %q is no number from 1; give it as 3, as 003, or as %s", progress.Cut(text, maxEcho), lastStep)
	}
	return int(n), nil
}

func (c *cli) transcript(ctx context.Context, want wanted) error {
	if err := checkSessionID(want.session); err != nil {
		return err
	}
	p, err := c.connectStore(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	err = c.showTranscript(ctx, p, want)
	if err != nil && ctx.Err() != nil {
		return end(exitInterrupted, "interrupted before the transcript was read")
	}
	return err
}

// showTranscript prints a step of a session in the place's store.
func (c *cli) showTranscript(ctx context.Context, p *place, want wanted) error {
	s, err := c.readStep(ctx, p, want)
	if err != nil {
		return err
	}
	if c.people() {
		return unprinted(transcript.Print(c.stdout, s, transcript.Options{Full: want.full, Zone: time.Local}))
	}
	var lines strings.Builder
	for _, l := range s.Lines {
		lines.Write(append(escapeControls(l.Raw), '\n'))
	}
	_, err = io.WriteString(c.stdout, lines.String())
	return unprinted(err)
}

// readStep finds the step, or says what there is instead.
func (c *cli) readStep(ctx context.Context, p *place, want wanted) (transcript.Step, error) {
	layout := artifact.InBucket(want.session)
	there, err := p.store.Exists(ctx, layout.File("session.json"))
	if err != nil {
		return transcript.Step{}, fmt.Errorf("look for session %s: %w", want.session, err)
	}
	if !there {
		return c.readSegment(ctx, p, want)
	}
	if artifact.CheckAgentID(want.agent) != nil {
		return transcript.Step{}, c.noAgent(ctx, p, want)
	}
	s := transcript.Step{Agent: want.agent, Number: want.step}
	if s.Number == 0 {
		steps, err := transcript.Steps(ctx, p.store, layout, want.agent)
		if err != nil {
			return s, err
		}
		if len(steps) == 0 {
			return s, c.noAgent(ctx, p, want)
		}
		s.Number = steps[len(steps)-1]
	}
	s.Transcript, err = step.ReadTranscript(ctx, p.store, layout, layout.Step(want.agent, s.Number, ""))
	switch {
	case errors.Is(err, artifact.ErrNotFound) && s.Claim.Token == "":
		return s, c.noStep(ctx, p, want, s.Number)
	case err != nil:
		return s, fmt.Errorf("show step %03d of %s in session %s: %w", s.Number, want.agent, want.session, err)
	}
	s.Failure = failureOf(ctx, p, s, layout)
	return s, nil
}

// failureOf is why a step was given up, if its agent's last action tells of it.
func failureOf(ctx context.Context, p *place, s transcript.Step, layout artifact.Layout) *artifact.Error {
	last, err := artifact.ReadJSON[artifact.LastAction](ctx, p.store, layout.Agent(s.Agent, "last_action.json"))
	if err != nil || last.StepNumber != s.Number {
		return nil
	}
	return last.Error
}

// noAgent says which agents have steps.
func (c *cli) noAgent(ctx context.Context, p *place, want wanted) error {
	agents, err := transcript.Agents(ctx, p.store, artifact.InBucket(want.session))
	switch {
	case err != nil:
		return err
	case len(agents) == 0:
		return end(exitUsage, "session %s has no steps yet; `%s` shows how it stands", want.session, c.again("status", want.session))
	}
	return end(exitUsage, "session %s has no steps of %q; it has steps of %s",
		want.session, progress.Cut(want.agent, maxEcho), progress.Cut(strings.Join(agents, ", "), maxListed))
}

// noStep says which steps the agent has.
func (c *cli) noStep(ctx context.Context, p *place, want wanted, number int) error {
	steps, err := transcript.Steps(ctx, p.store, artifact.InBucket(want.session), want.agent)
	switch {
	case err != nil:
		return err
	case len(steps) == 0:
		return c.noAgent(ctx, p, want)
	case slices.Contains(steps, number):
		return end(exitUsage, "step %03d of %s in session %s has no transcript: it was not taken by this program; `%s` copies what there is",
			number, want.agent, want.session, c.again("pull", want.session+" DIR"))
	}
	numbers := make([]string, len(steps))
	for i, n := range steps {
		numbers[i] = fmt.Sprintf("%03d", n)
	}
	return end(exitUsage, "%s has no step %03d in session %s; it has %s",
		want.agent, number, want.session, progress.Cut(strings.Join(numbers, ", "), maxListed))
}
