package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	team "conclave/engine/session"
	"conclave/engine/session/quality"
)

// findEqual determines the class of an answer if the team has a judge of equality, and adds it to
// the answer's digest. The judge compares the answer with the first answer of each class, unless
// they are equal without a judge or their files differ. If a call fails, the two answers count as different. Classes are stored for
// retries and for the prompts of other agents.
func (a *Activities) findEqual(ctx context.Context, in StepInput, commit artifact.Commit, r *StepResult) error {
	layout := artifact.InBucket(in.Session)
	t, err := a.Teams.ByHash(ctx, a.Store, layout, in.ConfigHash)
	if err != nil {
		return err
	}
	judge, found := t.JudgeOf()
	if !found {
		return nil
	}
	key := team.ClassKey(layout, r.Digest)
	class, err := artifact.ReadJSON[team.Class](ctx, a.Store, key)
	if errors.Is(err, artifact.ErrNotFound) {
		class, err = a.classifyAnswer(ctx, judge, in.Session, commit, r)
		if err == nil {
			err = artifact.CreateJSON(ctx, a.Store, key, class)
		}
		if errors.Is(err, artifact.ErrExists) { // an equal answer has been classified in the meantime
			used := class.Usage
			if class, err = artifact.ReadJSON[team.Class](ctx, a.Store, key); err == nil && class.Token != commit.Token {
				r.Usage = r.Usage.Add(used)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("find equal answers: %w", err)
	}
	if class.Token == commit.Token {
		r.Usage = r.Usage.Add(class.Usage)
	}
	r.Digest = class.Apply(r.Digest)
	return nil
}

func (a *Activities) classifyAnswer(ctx context.Context, judge config.Agent, id string, commit artifact.Commit, r *StepResult) (team.Class, error) {
	layout := artifact.InBucket(id)
	session, err := artifact.ReadJSON[artifact.Session](ctx, a.Store, layout.File("session.json"))
	if err != nil {
		return team.Class{}, err
	}
	var said team.Answer
	if err := json.Unmarshal(commit.Payload, &said); err != nil {
		return team.Class{}, activities.Invalid(fmt.Errorf("read an answer: %w", err))
	}
	class := team.Class{Token: commit.Token}
	own := team.Representative{Text: said.Answer, Manifest: commit.Manifest, Digest: r.Digest}
	for n := 1; ; {
		key := team.RepresentativeKey(layout, n)
		first, err := artifact.ReadJSON[team.Representative](ctx, a.Store, key)
		if errors.Is(err, artifact.ErrNotFound) {
			if err = artifact.CreateJSON(ctx, a.Store, key, own); errors.Is(err, artifact.ErrExists) {
				continue // another agent's answer was first; compare with it
			}
			first = own
		}
		if err != nil {
			return class, err
		}
		same := first.Digest.Equal(own.Digest, config.NormalizedEqual, true)
		if !same && first.Manifest == own.Manifest {
			made, err := a.compareAnswers(ctx, judge, quality.EqualAnswers(session.Query, first.Text, own.Text))
			if err != nil {
				return class, err
			}
			same, class.Usage = made.Value, class.Usage.Add(made.Usage)
		}
		if same {
			class.Class = fmt.Sprintf("class %d", n)
			return class, nil
		}
		n++
	}
}

func (a *Activities) compareAnswers(ctx context.Context, judge config.Agent, form quality.Form[bool]) (quality.Draft[bool], error) {
	model, err := a.Model(judge)
	if err != nil {
		return form.Fall(err), nil
	}
	made, err := quality.MakeDraft(ctx, model, form)
	if made.Usage.ModelCalls == 0 {
		made.Usage = llm.Usage{}
	}
	return made, err
}
