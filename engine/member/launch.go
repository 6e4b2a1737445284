package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team"
)

// Step is one launch of a team member's step.
type Step struct {
	Layout artifact.Layout
	Launch coordination.Launch
	Token  string
	Spent  llm.Usage

	Query         string
	SystemMessage string
	Criteria      []team.Criterion
	Files         bool
	Sensitivity   string
}

// Spec reads the answers that the launch shows and builds the step from them.
// What is shown is fixed by the launch, never by what else the store holds.
func (m Step) Spec(ctx context.Context, store artifact.Store) (step.Spec, error) {
	s := step.Spec{
		Layout: m.Layout,
		Token:  m.Token,
		Dir:    m.dir,
		After:  m.Launch.After,
		Seen:   make(map[string]int, len(m.Launch.Shown)),
		Spent:  m.Spent,
		Seal:   m.seal,
	}
	var answers []team.Answer
	for _, shown := range m.Launch.Shown {
		commit, answer, err := m.read(ctx, store, shown)
		if err != nil {
			return step.Spec{}, err
		}
		files, err := m.files(ctx, store, commit)
		if err != nil {
			return step.Spec{}, err
		}
		if files > 0 {
			s.Peers = append(s.Peers, step.Peer{Number: shown.Number, Manifest: commit.Manifest})
		}
		s.Seen[shown.Agent] = shown.Step
		s.Labels = append(s.Labels, shown.Label)
		answers = append(answers, team.Answer{Number: shown.Number, Label: shown.Label, Text: answer.Answer, Files: files})
	}
	s.Open = func(ordinary []llm.Tool) (loop.Rules, []llm.Message, error) {
		rules := team.New(m.task(answers, ordinary))
		opening, err := rules.Opening()
		return rules, opening, err
	}
	s.Project = func(number int, c artifact.Commit) ([]step.Document, error) {
		return m.project(store, number, c)
	}
	s.Abandoned = m.abandoned
	return s, nil
}

func (m Step) dir(number int) string { return m.Layout.Step(m.Launch.Agent, number, "") }

// read loads a shown answer from its commit.
func (m Step) read(ctx context.Context, store artifact.Store, shown coordination.Shown) (artifact.Commit, Answer, error) {
	key := m.Layout.Step(shown.Agent, shown.Step, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, store, key)
	if err != nil {
		return artifact.Commit{}, Answer{}, fmt.Errorf("reading the answer %s: %w", shown.Label, err)
	}
	var answer Answer
	if err := json.Unmarshal(commit.Payload, &answer); err != nil {
		return artifact.Commit{}, Answer{}, fmt.Errorf("reading the answer %s in %s: %w", shown.Label, key, err)
	}
	return commit, answer, nil
}

func (m Step) files(ctx context.Context, store artifact.Store, c artifact.Commit) (int, error) {
	if c.Manifest == "" {
		return 0, nil
	}
	manifest, err := artifact.LoadManifest(ctx, store, m.Layout, c.Manifest)
	return len(manifest.Files), err
}

func (m Step) task(answers []team.Answer, ordinary []llm.Tool) team.Task {
	t := team.Task{
		Query:         m.Query,
		SystemMessage: m.SystemMessage,
		Criteria:      m.Criteria,
		Answers:       answers,
		Revote:        m.Launch.Revote,
		Files:         m.Files,
		Frame:         frame(m.Token),
		Sensitivity:   m.Sensitivity,
	}
	for _, action := range m.Launch.Offered {
		t.Offered = append(t.Offered, string(action))
	}
	for _, tool := range ordinary {
		t.Tools = append(t.Tools, tool.Name)
	}
	return t
}

// frame derives the delimiter of the peers' text from the execution token,
// which no agent ever sees: a peer cannot close a frame it cannot guess, and a
// retry builds the same prompt.
func frame(token string) string {
	sum := sha256.Sum256([]byte("frame\x00" + token))
	return hex.EncodeToString(sum[:8])
}
