package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/session"
	"conclave/engine/step"
	"conclave/workflows"
)

// verification is the result of a verification.
type verification struct {
	Manifests int `json:"manifests"` // compared with the files that they list
	Steps     int `json:"steps"`     // number of steps with a commit

	// Uncounted are the directories of committed steps that no entry of the ledger counts: a decision, a
	// cancellation or a reset came first, or the action was refused. Their documents may be missing.
	Uncounted []string  `json:"uncounted,omitempty"`
	Problems  []problem `json:"problems"` // by path, one for each
}

// verifier compares the files of a copy with each other.
type verifier struct {
	*copier
	found   verification
	hashes  map[string]string              // hashes of the manifests in the copy, by their names
	commits map[string]artifact.Commit     // by the directory of the step
	counted map[string]coordination.Action // the entries of the ledger, by the directory of the step
	newest  string                         // run of the last entry of the ledger; empty without a whole ledger
}

func (c *copier) verifyCopy(ctx context.Context) (*verification, error) {
	v := &verifier{
		copier: c, found: verification{Problems: []problem{}}, hashes: map[string]string{},
		commits: map[string]artifact.Commit{}, counted: map[string]coordination.Action{},
	}
	v.readLedger(ctx)
	for _, name := range slices.Backward(c.names) { // a manifest before the commit of its step
		switch {
		case c.isManifest(name):
			v.verifyManifest(ctx, name)
		case c.isCommit(name):
			v.verifyStep(ctx, path.Dir(name)+"/")
		}
	}
	if c.run.Kind == record.Sessions {
		v.verifySession(ctx)
	}
	slices.Sort(v.found.Uncounted)
	slices.SortFunc(v.found.Problems, func(a, b problem) int { return cmp.Compare(a.Path, b.Path) })
	return &v.found, context.Cause(ctx)
}

func (v *verifier) addProblem(name, format string, args ...any) {
	if !slices.ContainsFunc(slices.Concat(v.found.Problems, v.result.LeftOut), func(p problem) bool { return p.Path == name }) {
		v.found.Problems = append(v.found.Problems, problem{Path: name, Problem: fmt.Sprintf(format, args...)})
	}
}

// verifyManifest notes the hash of a manifest and looks for files that it does not list. Those that it lists
// have been compared with it when the workspace was restored.
func (v *verifier) verifyManifest(ctx context.Context, name string) {
	change, err := artifact.ReadJSON[artifact.Change](ctx, v.target, name)
	listed := map[string]bool{}
	for _, f := range change.Files {
		listed[workspaceOf(name)+f.Path] = true
	}
	if change.Base == "" && v.base != nil { // the copy has it whole
		change = artifact.Manifest{Files: change.Files}.Since(v.base)
	}
	hash, unhashed := change.Hash()
	if err = errors.Join(err, unhashed); err != nil {
		v.addProblem(name, "cannot be read: %v", err)
		return
	}
	v.hashes[name] = hash
	v.found.Manifests++
	_ = fs.WalkDir(v.root.FS(), path.Clean(workspaceOf(name)), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !listed[name] {
			v.addProblem(name, "is extra: no manifest lists it")
		}
		return ctx.Err()
	})
}

// readLedger reads all entries, those that a reset run replaced as well.
func (v *verifier) readLedger(ctx context.Context) {
	files, _ := fs.ReadDir(v.root.FS(), "ledger") // there is none before the first entry
	var followed []session.Entry
	for n := range files {
		name := artifact.Layout{}.Ledger(n + 1)
		e, err := artifact.ReadJSON[session.Entry](ctx, v.target, name)
		if err == nil {
			followed, err = session.Follow(followed, e)
		}
		if err != nil {
			v.addProblem(name, "does not follow the entries before it: %v", err)
			v.newest = ""
			return
		}
		v.newest = e.Run
		if e.Step > 0 && e.Action != coordination.Say {
			v.counted[artifact.Layout{}.Step(e.Agent, e.Step, "")] = e.Action
		}
	}
}

// verifyStep allows a late step to lack documents, because nobody mends a step that does not count.
func (v *verifier) verifyStep(ctx context.Context, dir string) {
	v.found.Steps++
	c, err := artifact.ReadJSON[artifact.Commit](ctx, v.target, dir+"action.json")
	if err != nil {
		v.addProblem(dir+"action.json", "cannot be read: %v", causeWithoutPath(err))
		return
	}
	v.commits[dir] = c
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, v.target, dir+"step.json")
	if err != nil || claim.Token != c.Token {
		v.addProblem(dir+"step.json", "is missing or not the claim of the execution that wrote action.json")
	}
	if sum, err := fileSum(v.root, dir+"transcript.jsonl"); c.Transcript != "" && (err != nil || sum != c.Transcript) {
		v.addProblem(dir+"transcript.jsonl", "is missing or not the transcript that action.json commits")
	}
	late := v.isLate(dir)
	if hash := v.hashes[dir+"workspace.json"]; hash != c.Manifest && (hash != "" || !late) {
		v.addProblem(dir+"workspace.json", "has the hash %q, and action.json commits %q", hash, c.Manifest)
	}
	if late && v.result.Status != workflows.Running {
		v.found.Uncounted = append(v.found.Uncounted, path.Clean(dir))
	}
	derived, err := v.deriveDocuments(ctx, dir, c, claim)
	if err != nil {
		v.addProblem(dir+"action.json", "cannot be verified: %v", err)
	}
	for _, name := range []string{"answer.json", "output.json", "vote.json", "stop.json"} {
		data, err := v.target.Get(ctx, dir+name)
		absent := errors.Is(err, artifact.ErrNotFound)
		at := slices.IndexFunc(derived, func(d step.Document) bool { return path.Base(d.Key) == name })
		if at < 0 && !absent {
			v.addProblem(dir+name, "is there, and action.json commits a %s", c.Kind)
		}
		if at < 0 || absent && late {
			continue
		}
		if want, err := artifact.EncodeJSON(derived[at].Body); err != nil || !bytes.Equal(data, want) {
			v.addProblem(dir+name, "is missing or not what action.json commits")
		}
	}
}

// isLate reports whether no entry of the ledger counts a committed action. Nobody mends such a step.
func (v *verifier) isLate(dir string) bool {
	counts := []coordination.Action{coordination.NewAnswer, coordination.Vote, coordination.Stop}
	return v.newest != "" && v.counted[dir] == "" && slices.Contains(counts, coordination.Action(v.commits[dir].Kind))
}

func (v *verifier) deriveDocuments(ctx context.Context, dir string, c artifact.Commit, claim artifact.Claim) ([]step.Document, error) {
	store := struct{ artifact.Store }{v.run.Store} // with the paths of a bucket
	parts := strings.Split(dir, "/")
	switch {
	case parts[0] == "steps" || parts[0] == "branches":
		d, _ := record.Pipelines.StepOf(dir)
		return pipelineagent.Step{Launch: pipeline.Launch{Step: d.Agent}, Agent: claim.Agent}.Documents(store, 0, c)
	case parts[0] == "agents" && len(parts) == 4: // agents/<agent>/<number>/, and no evaluation below it
		m := session.Step{Layout: v.run.Layout, Launch: coordination.Launch{Agent: parts[1]}, Agents: claim.Agents}
		return m.Documents(ctx, store, 0, c)
	}
	return nil, nil
}

// verifySession compares the ledger with the other records of a session, and the final answer with its source.
func (v *verifier) verifySession(ctx context.Context) {
	s, err := record.InDirectory(v.target, v.root).Reader().Read(ctx)
	if err != nil {
		v.addProblem(v.claimName(), "cannot be used: %v", err)
		return
	}
	for _, text := range s.Problems {
		if name, what, _ := strings.Cut(text, " "); slices.Contains(v.names, name) {
			v.addProblem(name, "%s", what)
		}
	}
	v.requireFile("status.json", len(v.counted) > 0)
	v.requireFile("events.jsonl", s.State.Events > 0)
	v.requireFile("config.json", v.claim != nil && v.claim.ConfigHash != "")
	for dir, action := range v.counted {
		if kind := v.commits[dir].Kind; kind != string(action) {
			v.addProblem(dir+"action.json", "commits %q, and the ledger counts %q", kind, action)
		}
	}
	for _, e := range s.Events {
		switch e.Kind {
		case coordination.EntryAnswer, coordination.EntryVote, coordination.EntryStopped, coordination.EntryPresented:
			v.requireFile("ledger", e.Step > 0)
			if dir := (artifact.Layout{}).Step(e.Agent, e.Step, ""); e.Step > 0 && v.newest != "" && v.counted[dir] == "" {
				v.addProblem(dir+"action.json", "has no entry in the ledger, and counts according to events.jsonl")
			}
		}
	}
	for _, a := range s.State.Agents {
		for n := range a.Step {
			v.requireFile(path.Clean(artifact.Layout{}.Step(a.ID, n+1, "")), true)
		}
	}
	v.verifyFinal(ctx, s.State.Final != nil)
}

func (v *verifier) requireFile(name string, told bool) {
	if _, err := v.root.Lstat(name); told && err != nil {
		v.addProblem(name, "is missing, and other files tell of it")
	}
}

func (v *verifier) verifyFinal(ctx context.Context, told bool) {
	agents, _ := fs.ReadDir(v.root.FS(), "final") // there is none before the decision
	if v.requireFile("final", told); len(agents) > 1 {
		v.addProblem("final", "has the answers of several agents: remove the directory and pull again")
	}
	for _, agent := range agents {
		dir := "final/" + agent.Name() + "/"
		final, err := artifact.ReadJSON[artifact.Answer](ctx, v.target, dir+"answer.json")
		source := artifact.Layout{}.Step(agent.Name(), final.Step, "")
		said, missing := artifact.ReadJSON[artifact.Answer](ctx, v.target, source+"answer.json")
		said.Label, said.Step = coordination.FinalLabelOf(said.Label), final.Step
		switch {
		case err != nil || missing != nil || !reflect.DeepEqual(said, final):
			v.addProblem(dir+"answer.json", "is missing or not the answer of %s", path.Clean(source))
		case v.hashes[dir+"workspace.json"] != v.commits[source].Manifest:
			v.addProblem(dir+"workspace.json", "is not the manifest of %s", path.Clean(source))
		}
	}
}
