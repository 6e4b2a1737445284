package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/excerpt"
	"conclave/engine/member"
)

// MaxAnswer is how much of the answer a session's result carries, in bytes.
// The whole text is at its answer path.
const MaxAnswer = 8 << 10

// PresentInput names the answer that the session decided for.
type PresentInput struct {
	Session  string                `json:"session"`
	Decision coordination.Decision `json:"decision"`
}

// Presented is the final answer.
type Presented struct {
	Answer    string `json:"answer"` // cut at MaxAnswer
	Truncated bool   `json:"truncated,omitempty"`
	Path      string `json:"path"`
}

// Present makes final/<agent>/ from the winning answer as it stands.
func (a *Activities) Present(ctx context.Context, in PresentInput) (Presented, error) {
	defer pulse(ctx)()
	layout := artifact.InBucket(in.Session)
	d := in.Decision
	source := layout.Step(d.Winner, d.WinnerStep, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, a.Store, source)
	if err != nil {
		return Presented{}, fmt.Errorf("reading the winning answer: %w", err)
	}
	var answer member.Answer
	if err := json.Unmarshal(commit.Payload, &answer); err != nil {
		return Presented{}, invalid(fmt.Errorf("reading the winning answer in %s: %w", source, err))
	}
	if err := a.placeFinal(ctx, layout, d, commit); err != nil {
		return Presented{}, err
	}
	key := layout.Final(d.Winner, "answer.json")
	err = artifact.PutJSON(ctx, a.Store, key, artifact.Answer{
		AgentID: d.Winner, Answer: answer.Answer, Timestamp: commit.Timestamp, Label: finalLabel(d.WinnerLabel),
	})
	if err != nil {
		return Presented{}, fmt.Errorf("writing %s: %w", key, err)
	}
	text, cut := excerpt.Of(answer.Answer, MaxAnswer)
	return Presented{Answer: text, Truncated: cut, Path: a.Store.URL(key)}, nil
}

// placeFinal makes final/ hold the winning answer's files and no others. What an
// earlier end of the session left goes first: a path of it may be a directory now.
func (a *Activities) placeFinal(ctx context.Context, layout artifact.Layout, d coordination.Decision, c artifact.Commit) error {
	m, err := artifact.LoadManifest(ctx, a.Store, layout, c.Manifest)
	if err == nil {
		err = a.clearFinal(ctx, layout, d.Winner, m)
	}
	if err == nil && c.Manifest != "" {
		err = artifact.Project(ctx, a.Store, layout, m, layout.Final(d.Winner, "workspace/"))
		if err == nil {
			err = artifact.PutJSON(ctx, a.Store, layout.Final(d.Winner, "workspace.json"), m)
		}
	}
	if err != nil {
		return fmt.Errorf("placing the files of the winning answer: %w", err)
	}
	return nil
}

// clearFinal deletes what is under final/ and not of this answer. What is
// replaced anyway stays until then.
func (a *Activities) clearFinal(ctx context.Context, layout artifact.Layout, winner string, m artifact.Manifest) error {
	kept := map[string]bool{layout.Final(winner, "answer.json"): true}
	if len(m.Files) > 0 {
		kept[layout.Final(winner, "workspace.json")] = true
	}
	for _, f := range m.Files {
		name, err := artifact.EscapePath(f.Path)
		if err != nil {
			return err
		}
		kept[layout.Final(winner, "workspace/"+name)] = f.Link == ""
	}
	var stale []string
	for key, err := range a.Store.List(ctx, layout.File("final/")) {
		if err != nil {
			return err
		}
		if !kept[key] {
			stale = append(stale, key)
		}
	}
	for _, key := range stale {
		if err := a.Store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// finalLabel is agent<N>.final for a winner labelled agent<N>.<M>.
func finalLabel(label string) string {
	agent, _, _ := strings.Cut(label, ".")
	return agent + ".final"
}
