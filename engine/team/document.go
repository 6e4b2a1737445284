package team

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// stopDocument is stop.json.
type stopDocument struct {
	AgentID   string                  `json:"agent_id"`
	Summary   string                  `json:"summary"`
	Status    coordination.StopStatus `json:"status"`
	SeenSteps map[string]int          `json:"seen_steps"`
	Timestamp time.Time               `json:"timestamp"`
}

// documents lists the documents of a commit: answer.json, vote.json or stop.json, and
// last_action.json. The commit of an evaluation has no documents.
func (m Step) documents(ctx context.Context, store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	last := c.LastAction(m.Launch.Agent, number)
	var document step.Document
	switch coordination.Action(c.Kind) {
	case coordination.NewAnswer:
		a, err := decode[Answer](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		if a.Answer, err = m.textFor(ctx, store, number, c, a.Answer); err != nil {
			return nil, err
		}
		last.AnswerText = &a.Answer
		if c.Manifest != "" {
			path := step.FilesPath(store, m.dir(number)+"workspace")
			last.WorkspacePath = &path
		}
		document = step.Document{Key: m.dir(number) + "answer.json", Body: artifact.Answer{
			AgentID: m.Launch.Agent, Answer: a.Answer, Timestamp: c.Timestamp, Label: a.Label,
		}}
	case coordination.Vote:
		v, err := decode[sealedVote](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		last.VoteTarget, last.VoteReason = &v.Target, &v.Reason
		document = step.Document{Key: m.dir(number) + "vote.json", Body: artifact.Vote{
			Voter: m.Launch.Agent, Target: v.Target, Reason: v.Reason, SeenSteps: c.SeenSteps,
			Timestamp: c.Timestamp, TargetLabel: v.TargetLabel, Confidence: v.Confidence,
		}}
	case coordination.Stop:
		s, err := decode[stop](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		document = step.Document{Key: m.dir(number) + "stop.json", Body: stopDocument{
			AgentID: m.Launch.Agent, Summary: s.Summary, Status: s.Status, SeenSteps: c.SeenSteps, Timestamp: c.Timestamp,
		}}
	case coordination.SubmitEvaluation:
		return m.evaluation(c)
	default:
		return nil, nil
	}
	return []step.Document{document, m.lastAction(last)}, nil
}

// textFor returns an answer's text for people and other programs. It replaces the path of the
// workspace with the path of the step's files, and the paths of peers/agent<N> with those of
// the answers shown. In a directory the new paths are absolute; in a bucket they are relative
// to the workspace and to the session.
func (m Step) textFor(ctx context.Context, store artifact.Store, number int, c artifact.Commit, text string) (string, error) {
	if !step.HasPaths(text) {
		return text, nil
	}
	files, err := artifact.LoadManifest(ctx, store, m.Layout, c.Manifest)
	if err != nil {
		return "", fmt.Errorf("reading the files of step %d: %w", number, err)
	}
	paths := step.Paths{Files: files, Scratch: m.Scratch, Peers: map[int]string{}}
	_, local := store.(*artifact.Dir)
	if local {
		paths.Own = filepath.ToSlash(store.URL(m.dir(number) + "workspace"))
	}
	for i, id := range slices.Sorted(slices.Values(m.Agents)) {
		shown := c.SeenSteps[id]
		switch {
		case shown == 0:
		case local:
			dir := filepath.Join(store.URL(m.Layout.File("agents")), id, fmt.Sprintf("%03d", shown), "workspace")
			paths.Peers[i+1] = filepath.ToSlash(dir) // the directory has the agent's ID, which another program may have chosen
		default:
			paths.Peers[i+1] = artifact.Layout{}.Step(id, shown, "workspace")
		}
	}
	return paths.Rewrite(text), nil
}

// abandoned returns the last_action.json of a step without an action, so that readers do not
// mistake an older action for that of this step.
func (m Step) abandoned(last artifact.LastAction) []step.Document {
	if m.Launch.Purpose == coordination.Evaluate || m.Launch.Purpose == coordination.Evaluation {
		return nil
	}
	return []step.Document{m.lastAction(last)}
}

// lastAction returns last_action.json. It never replaces that of a later step, and if the
// step failed, it does not replace the document of another attempt's commit.
func (m Step) lastAction(last artifact.LastAction) step.Document {
	return step.Document{
		Key: m.Layout.Agent(m.Launch.Agent, "last_action.json"), Body: last, Replace: true,
		Newer: func(existing []byte) bool {
			var stored artifact.LastAction
			if json.Unmarshal(existing, &stored) != nil {
				return false
			}
			if stored.StepNumber == last.StepNumber {
				return last.Error != nil && stored.Error == nil
			}
			// A step without a number comes after the steps before its launch.
			return stored.StepNumber > max(last.StepNumber, m.Launch.After)
		},
	}
}
