package pull

import (
	"context"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// final finds the step of the final answer by agent, text and timestamp, because no document
// records it, and compares the two.
func (v *verifier) final(ctx context.Context) {
	agents := v.dirs("final")
	if len(agents) > 1 {
		v.report("final", "has the answers of %s, and a session has one final answer: remove the directory and pull again", strings.Join(agents, ", "))
	}
	for _, agent := range agents {
		v.finalOf(ctx, agent)
	}
	if len(agents) == 0 {
		v.noFinal(ctx)
	}
}

// noFinal reports a missing final answer if status.json says that the session ended with one.
func (v *verifier) noFinal(ctx context.Context) {
	var s struct {
		Status coordination.Status `json:"status"`
		Winner string              `json:"winner"`
	}
	data := v.read(ctx, "status.json")
	if data == nil || !v.decode("status.json", data, &s) || s.Winner == "" {
		return
	}
	if decisions[s.Status] {
		v.report("final", "is missing: by status.json the session ended as %s, for %s", s.Status, s.Winner)
	}
}

func (v *verifier) finalOf(ctx context.Context, agent string) {
	dir := "final/" + agent + "/"
	manifest := v.manifest(ctx, dir)
	name := dir + "answer.json"
	data := v.read(ctx, name)
	if data == nil {
		v.report(name, "is missing")
		return
	}
	var a artifact.Answer
	if !v.decode(name, data, &a) {
		return
	}
	if a.AgentID != agent {
		v.report(name, "is an answer of %s", a.AgentID)
		return
	}
	i := slices.IndexFunc(v.answers, func(of answer) bool {
		return of.AgentID == agent && of.Answer.Answer == a.Answer && of.Timestamp.Equal(a.Timestamp)
	})
	if i < 0 {
		v.report(name, "is none of the answers of %s: text or timestamp agree with no step", agent)
		return
	}
	v.finalSource(ctx, dir, a.Label, manifest, v.answers[i])
}

// finalSource compares the final label and files with those of the source answer.
// A presenter without files presents those of the winning answer.
func (v *verifier) finalSource(ctx context.Context, dir, label, manifest string, source answer) {
	if label != coordination.FinalLabelOf(source.Label) {
		v.report(dir+"answer.json", "has the label %s, and its source has %s", label, source.Label)
	}
	name := dir + "workspace.json"
	isManifest := func(a answer) bool { return a.manifest == manifest }
	switch {
	case source.manifest == "" && manifest == "":
		v.files(ctx, dir+"workspace", artifact.Manifest{})
	case source.manifest == manifest:
	case source.manifest == "" && slices.ContainsFunc(v.answers, isManifest):
	case source.manifest == "":
		v.report(name, "is the manifest of none of the answers")
	case manifest == "":
		v.report(name, "is missing: %s, which this is made from, has files", source.Label)
	default:
		v.report(name, "is not the manifest of %s, which this is made from", source.Label)
	}
}
