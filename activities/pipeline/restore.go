package pipeline

import (
	"context"
	"errors"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
)

// restore completes the outline of a state from the record. Without an outline it returns the state
// of a new run.
func (a *Activities) restore(ctx context.Context, layout artifact.Layout, last savedState, g pipeline.Graph) (*pipeline.State, error) {
	if last.Core == nil {
		return pipeline.New(g), nil
	}
	status, err := artifact.ReadJSON[State](ctx, a.Store, layout.File("status.json"))
	if err != nil {
		return nil, err
	}
	return last.Core.Complete(g, status.Trace[:min(last.Traced, len(status.Trace))]), nil
}

// catchUp applies the ends of steps that the last record lacks. It sets Run of the event to the
// workflow run that launched the interrupted step; this is a later run than that of the record if
// the later one recorded nothing. If the interrupted step claimed no number, it sets Unclaimed.
func (a *Activities) catchUp(ctx context.Context, layout artifact.Layout, core *pipeline.State, e *pipeline.Reopened, earlier map[string]bool) error {
	claims, err := a.claims(ctx, layout, core.Newest, earlier)
	if err != nil {
		return err
	}
	newest := ""
	for i, c := range claims {
		name, running := core.Reach(c.Launch)
		if !running {
			continue
		}
		newest, e.Run = c.Launch, strings.TrimSuffix(c.Token, "-"+c.Launch)
		if err := a.readEnd(ctx, layout, name, &c); err != nil {
			return err
		}
		core.CatchUp(c, i == len(claims)-1)
	}
	e.Unclaimed = core.Running != nil && core.Running.Launch.ID != newest
	return nil
}

// claims returns the claimed numbers above after, in order. It omits claims by earlier runs of the
// workflow.
func (a *Activities) claims(ctx context.Context, layout artifact.Layout, after int, earlier map[string]bool) ([]pipeline.Claimed, error) {
	var claims []pipeline.Claimed
	for n := after + 1; ; n++ {
		token, err := pipelineagent.Claimant(ctx, a.Store, layout, n)
		if errors.Is(err, artifact.ErrNotFound) {
			return claims, nil
		}
		if err != nil {
			return nil, err
		}
		if at := strings.LastIndex(token, "-"); at > 0 && !earlier[token[:at]] {
			claims = append(claims, pipeline.Claimed{Launch: token[at+1:], Token: token, Number: n})
		}
	}
}

// readEnd reads the commit of a claimed step, or only its usage if it has no commit.
func (a *Activities) readEnd(ctx context.Context, layout artifact.Layout, name string, c *pipeline.Claimed) error {
	t, err := step.ReadTranscript(ctx, a.Store, layout, layout.PipelineStep(c.Number, name, ""))
	if errors.Is(err, artifact.ErrNotFound) { // the step has only reserved its number
		return nil
	}
	if err != nil || t.Commit == nil {
		c.Usage = t.Usage()
		return err
	}
	ended, err := endedBy(*t.Commit)
	ended.Number = c.Number
	c.Ended = &ended
	return err
}
