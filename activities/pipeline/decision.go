package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/session"
	"conclave/engine/step"
)

// equipDecision makes a team's decision the text of the step, and its files the files of the run.
func (a *Activities) equipDecision(ctx context.Context, run *attempt.Attempt, s config.PipelineStep, in StepInput, ps *pipelineagent.Step) error {
	if in.Decision == nil {
		return activities.Invalid(fmt.Errorf("step %s: its team's decision is missing", s.Name))
	}
	d, err := a.readDecision(ctx, run.Ports.Store, in.Decision)
	if err != nil {
		return fmt.Errorf("read the decision of step %s's team: %w", s.Name, err)
	}
	text, files, err := d.textAndFiles(ctx, s.Name)
	if err != nil {
		return fmt.Errorf("read the files of step %s's team: %w", s.Name, err)
	}
	ps.Team, ps.Data = in.Decision.Status, d.answer.Data
	equipStatement(run, text)
	run.Ports.Model = statement{text: text, usage: in.Decision.Cost.Since(run.Result.Usage)} // earlier attempts may have counted it
	ps.Launch.Workspace = in.Launch.Workspace
	if len(files.Files) == 0 && d.session.Base() == nil {
		return nil
	}
	ps.Launch.Workspace, err = artifact.Manifest{}.Graft(ctx, d.store, ps.Layout, ".", d.session, files)
	return err
}

// decision is the final answer of a session.
type decision struct {
	store   artifact.Store
	session artifact.Layout // layout of the team's session, with its base
	answer  artifact.Answer
	files   artifact.Manifest
}

func (a *Activities) readDecision(ctx context.Context, store artifact.Store, ended *TeamDecision) (decision, error) {
	d := decision{store: store, session: artifact.InBucket(ended.Session)}
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, d.session.File("session.json"))
	if err != nil {
		return d, err
	}
	if d.session, err = activities.Start(ctx, a.Bases(), d.session, session.Material); err != nil {
		return d, err
	}
	agent := path.Base(path.Dir(ended.Path))
	if d.answer, err = artifact.ReadJSON[artifact.Answer](ctx, store, d.session.Final(agent, "answer.json")); err != nil {
		return d, err
	}
	change, err := artifact.ReadJSON[artifact.Change](ctx, store, d.session.Final(agent, "workspace.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		change, err = artifact.Change{Base: d.session.Base().Hash()}, nil
	}
	if err == nil {
		err = change.Check(d.session.Base())
	}
	d.files = change.Tree(d.session.Base())
	return d, err
}

// textAndFiles returns the text of the decision, with paths rewritten for its readers, and its files. If the session had no base, the files of other answers that the text mentions
// are added, in a directory named after the step.
func (d decision) textAndFiles(ctx context.Context, name string) (string, artifact.Manifest, error) {
	agent, number := d.answer.AgentID, d.answer.Step
	if number == 0 { // an answer that no step of the session has given
		return d.answer.Answer, d.files, nil
	}
	commit, text, err := d.readCommit(ctx, agent, number)
	if err != nil || !step.HasPaths(text) {
		return text, d.files, err
	}
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, d.store, d.session.Step(agent, number, "step.json"))
	if err != nil {
		return "", d.files, err
	}
	paths := step.Paths{Files: d.files, Peers: map[int]string{}}
	files := artifact.Manifest{Files: slices.Clone(d.files.Files)}
	for i, id := range claim.Agents {
		place := fmt.Sprintf("peers/agent%d", i+1)
		if d.session.Base() != nil || commit.SeenSteps[id] == 0 || !strings.Contains(text, place) {
			continue
		}
		shown, _, err := d.readCommit(ctx, id, commit.SeenSteps[id])
		if err != nil {
			return "", d.files, err
		}
		peer, err := artifact.LoadManifest(ctx, d.store, d.session, shown.Manifest)
		if err != nil {
			return "", d.files, err
		}
		paths.Peers[i+1] = path.Join(name, place)
		for _, f := range peer.Files {
			f.Path = path.Join(name, place, f.Path)
			files.Files = append(files.Files, f)
		}
	}
	return paths.Rewrite(text), files, nil
}

func (d decision) readCommit(ctx context.Context, agent string, number int) (artifact.Commit, string, error) {
	commit, err := artifact.ReadJSON[artifact.Commit](ctx, d.store, d.session.Step(agent, number, "action.json"))
	if err != nil {
		return commit, "", err
	}
	var a session.Answer
	if err := json.Unmarshal(commit.Payload, &a); err != nil {
		return commit, "", activities.Invalid(fmt.Errorf("read step %d of %s: %w", number, agent, err))
	}
	return commit, a.Answer, nil
}

// statement is a model that replies with a fixed text and a fixed usage.
type statement struct {
	text  string
	usage llm.Usage
}

func (s statement) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: s.text}, Usage: s.usage}, nil
}

type noTools struct{}

func (noTools) Tools() []llm.Tool { return nil }
func (noTools) Close() error      { return nil }
func (noTools) Run(_ context.Context, call llm.ToolCall) (loop.Output, error) {
	return loop.Output{Text: "error: there is no tool " + call.Name, Failed: true}, nil
}
