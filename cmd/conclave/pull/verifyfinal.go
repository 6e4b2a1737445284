package pull

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// final compares the final answer with the answers of the steps. Of whose it is
// made no document tells, so that it is looked for among them.
func (v *verifier) final(ctx context.Context) error {
	agents := v.dirs("final")
	if len(agents) > 1 {
		v.wrong("final", "has the answers of %s, and a session has one final answer: remove the directory and pull again", strings.Join(agents, ", "))
	}
	for _, agent := range agents {
		if err := v.finalOf(ctx, agent); err != nil {
			return err
		}
	}
	if len(agents) > 0 {
		return nil
	}
	winner, status, err := v.decided(ctx)
	if winner != "" {
		v.wrong("final", "is missing: by status.json the session ended as %s, for %s", status, winner)
	}
	return err
}

// decided says for whom the session has ended, by status.json; nobody if it has
// not ended, or without an answer.
func (v *verifier) decided(ctx context.Context) (winner, status string, err error) {
	data, err := v.read(ctx, "status.json")
	if err != nil || data == nil {
		return "", "", err
	}
	var s struct {
		Status string `json:"status"`
		Winner string `json:"winner"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		v.wrong("status.json", "is malformed: %v", err)
		return "", "", nil
	}
	switch coordination.Status(s.Status) {
	case coordination.Consensus, coordination.Plurality, coordination.Finished, coordination.Limit,
		coordination.Presented, coordination.OverSpent, coordination.Timeout:
		return s.Winner, s.Status, nil
	}
	return "", "", nil
}

func (v *verifier) finalOf(ctx context.Context, agent string) error {
	dir := "final/" + agent + "/"
	manifest, err := v.manifest(ctx, dir)
	if err != nil {
		return err
	}
	name := dir + "answer.json"
	data, err := v.read(ctx, name)
	if err != nil {
		return err
	}
	var a artifact.Answer
	switch {
	case data == nil:
		v.wrong(name, "is missing")
		return nil
	case json.Unmarshal(data, &a) != nil:
		v.wrong(name, "is malformed")
		return nil
	}
	if a.AgentID != agent {
		v.wrong(name, "is an answer of %s", a.AgentID)
		return nil
	}
	i := slices.IndexFunc(v.answers, func(of answer) bool {
		return of.AgentID == agent && of.Answer.Answer == a.Answer && of.Timestamp.Equal(a.Timestamp)
	})
	if i < 0 {
		v.wrong(name, "is none of the answers of %s: text or timestamp agree with no step", agent)
		return nil
	}
	return v.finalMade(ctx, dir, a.Label, manifest, v.answers[i])
}

// finalMade compares label and files with the answer that final/ is made from.
// The files of a presenter that left none are those of the winning answer.
func (v *verifier) finalMade(ctx context.Context, dir, label, manifest string, from answer) error {
	number, _, _ := strings.Cut(from.Label, ".")
	if label != number+".final" {
		v.wrong(dir+"answer.json", "has the label %s, and is made from %s", label, from.Label)
	}
	name := dir + "workspace.json"
	of := func(a answer) bool { return a.manifest == manifest }
	switch {
	case from.manifest == "" && manifest == "":
		return v.files(ctx, dir+"workspace", artifact.Manifest{})
	case from.manifest == manifest:
	case from.manifest == "" && slices.ContainsFunc(v.answers, of):
	case from.manifest == "":
		v.wrong(name, "is the manifest of none of the answers")
	case manifest == "":
		v.wrong(name, "is missing: %s, which this is made from, has files", from.Label)
	default:
		v.wrong(name, "is not the manifest of %s, which this is made from", from.Label)
	}
	return nil
}

// ledger compares what counts with the commits of the steps that it counts.
func (v *verifier) ledger(ctx context.Context) error {
	layout := artifact.InDir()
	entries, err := team.Ledger(ctx, v.store, layout)
	if err != nil {
		v.wrong("ledger", "cannot be followed: %v", cause(err))
		return ctx.Err()
	}
	for _, e := range entries {
		if e.Step == 0 || e.Action == coordination.Say {
			continue
		}
		name := layout.Step(e.Agent, e.Step, "action.json")
		data, err := v.read(ctx, name)
		if err != nil {
			return err
		}
		var c artifact.Commit
		switch {
		case data == nil:
			v.wrong(name, "is missing, and entry %d of the ledger counts it", e.Seq)
		case json.Unmarshal(data, &c) != nil: // said where the step is verified
		case c.Kind != string(e.Action):
			v.wrong(name, "is a %s; entry %d of the ledger says %s", c.Kind, e.Seq, e.Action)
		}
	}
	return nil
}
