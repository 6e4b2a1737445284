package pipeline

import (
	"context"
	"errors"
	"strings"

	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
)

// lag is the part of a run that its last record lacks, as the claims of its steps tell.
type lag struct {
	*Activities
	layout  artifact.Layout
	core    *pipeline.State
	known   int                           // launches on record
	earlier map[string]bool               // runs of the workflow whose claims do not count
	claims  map[string][]pipeline.Claimed // of each lane, those not applied, in order
	all     map[string]pipeline.Claimed   // by launch
}

// catchUp applies the ends of steps that the last record lacks, lane by lane. It sets Run of the event to the workflow
// run that launched the interrupted steps; this is a later run than that of the record if the later one recorded
// nothing. Unclaimed gets the interrupted steps that claimed no number.
func (a *Activities) catchUp(ctx context.Context, layout artifact.Layout, core *pipeline.State, e *pipeline.Reopened, earlier map[string]bool) error {
	l := &lag{a, layout, core, core.Launches, earlier, map[string][]pipeline.Claimed{}, map[string]pipeline.Claimed{}}
	for again := true; again; {
		var err error
		if again, err = l.applyNext(ctx); err != nil {
			return err
		}
	}
	for _, left := range core.LeftSteps() {
		if _, claimed := l.all[left.ID]; !claimed { // its branch was closed before the record
			if err := l.readClaims(ctx, pipeline.OpenBranch{Branch: left.Branch, Newest: left.After, Running: left.ID}); err != nil {
				return err
			}
		}
		c, claimed := l.all[left.ID]
		if !claimed {
			continue
		}
		if err := l.readEnd(ctx, left.Step, &c); err != nil {
			return err
		}
		if c.Ended != nil {
			c.Usage = c.Ended.Usage
		}
		core.Step(pipeline.Suspended{Launch: left.ID, Number: c.Number, Token: c.Token, Usage: c.Usage})
	}
	newest := 0
	for launch, c := range l.all {
		if n := pipeline.LaunchNumber(launch); n > newest {
			newest, e.Run = n, strings.TrimSuffix(c.Token, "-"+launch)
		}
	}
	for _, launch := range core.RunningLaunches() {
		if _, claimed := l.all[launch]; !claimed {
			e.Unclaimed = append(e.Unclaimed, launch)
		}
	}
	return nil
}

// applyNext applies one claim. The last claim of a lane may end it, and with it the others of its fork; so it is applied
// once the claims before it are, and once the last ones of the other lanes are known to run.
func (l *lag) applyNext(ctx context.Context) (applied bool, err error) {
	open := l.core.OpenBranches()
	for _, at := range open {
		if _, read := l.claims[at.Branch]; !read {
			if err := l.readClaims(ctx, at); err != nil {
				return false, err
			}
		}
	}
	steps := map[string]string{} // names of the steps that the next claims launched, by lane
	for _, at := range open {
		if claims := l.claims[at.Branch]; len(claims) > 0 {
			if name, follows := l.core.Reach(at.Branch, claims[0].Launch, l.known); follows {
				steps[at.Branch] = name
			}
		}
	}
	for _, least := range []int{2, 1} {
		for _, at := range open {
			claims := l.claims[at.Branch]
			name, follows := steps[at.Branch]
			if !follows || len(claims) < least {
				continue
			}
			c := claims[0]
			if err := l.readEnd(ctx, name, &c); err != nil {
				return false, err
			}
			l.core.CatchUp(c, len(claims) == 1)
			l.claims[at.Branch] = claims[1:]
			return true, nil
		}
	}
	return false, nil
}

// readClaims reads the claims of a lane above its newest number. It omits those of earlier runs of the workflow, and
// those on record.
func (l *lag) readClaims(ctx context.Context, at pipeline.OpenBranch) error {
	claims := []pipeline.Claimed{}
	number := at.Newest
	for c, err := range pipelineagent.Claims(l.Store, l.layout.InBranch(at.Branch)).From(ctx, at.Newest+1) {
		if err != nil {
			return err
		}
		number++
		dash := strings.LastIndex(c.Token, "-")
		if dash <= 0 || l.earlier[c.Token[:dash]] {
			continue
		}
		claim := pipeline.Claimed{Branch: at.Branch, Launch: c.Token[dash+1:], Token: c.Token, Number: number}
		if pipeline.LaunchNumber(claim.Launch) > l.known || at.Running == claim.Launch {
			claims, l.all[claim.Launch] = append(claims, claim), claim
		}
	}
	l.claims[at.Branch] = claims
	return nil
}

// readEnd reads the commit of a claimed step, or only its usage if it has no commit.
func (l *lag) readEnd(ctx context.Context, name string, c *pipeline.Claimed) error {
	t, err := step.ReadTranscript(ctx, l.Store, l.layout, l.layout.InBranch(c.Branch).PipelineStep(c.Number, name, ""))
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
