package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// foreign are directories in which other programs keep what is theirs, not the
// answer's: their names and what they hold tell which model worked there.
var foreign = []string{".massgen/", ".codex/", ".gemini/", ".claude/"}

// Answers brings the answers of a directory before a step: it is the Commits of
// its team.Step. An answer of another program has no commit and no content in
// the store; it gets both here.
type Answers struct {
	root    *os.Root
	store   artifact.Store
	paths   paths
	scratch string
	found   warnings
}

// Answers is for a step whose numbers stand for these agents. The store is the
// directory below the same root, dir its absolute path; large files are copied by
// way of scratch.
func (d Directory) Answers(root *os.Root, store artifact.Store, dir string, agents []string, scratch string) *Answers {
	return &Answers{root: root, store: store, paths: pathsAt(dir, agents), scratch: scratch}
}

// Commit makes the commit of an answer that is shown: with its files in the
// store, and its text as it is read beside peers/.
func (a *Answers) Commit(ctx context.Context, shown coordination.Shown) (artifact.Commit, error) {
	dir := artifact.InDir().Step(shown.Agent, shown.Step, "")
	var w warnings
	act, _ := readAction(a.root, dir, &w)
	if act == nil || act.kind != coordination.NewAnswer {
		return artifact.Commit{}, fmt.Errorf("%s has no answer any more: somebody changed it", dir)
	}
	manifest, err := a.manifest(ctx, dir, act)
	if err != nil {
		return artifact.Commit{}, err
	}
	text := act.text
	if act.committed {
		if text, err = a.settled(ctx, text, shown, manifest); err != nil {
			return artifact.Commit{}, err
		}
	}
	payload, err := json.Marshal(team.Answer{Answer: a.paths.shown(text), Label: shown.Label})
	if err != nil {
		return artifact.Commit{}, err
	}
	return artifact.Commit{Kind: string(coordination.NewAnswer), Payload: payload, Manifest: manifest}, nil
}

// settled is the text of a commit, which is as its agent wrote it: the workspace
// that it names is the one beside the others, under peers/, and what it says of
// others by the numbers that held then it says by those of now.
func (a *Answers) settled(ctx context.Context, text string, shown coordination.Shown, manifest string) (string, error) {
	m, err := artifact.LoadManifest(ctx, a.store, artifact.InDir(), manifest)
	if err != nil {
		return "", err
	}
	claim := readClaim(a.root, artifact.InDir().Step(shown.Agent, shown.Step, ""), new(warnings))
	then := shown.Number
	if claim != nil && slices.Contains(claim.Agents, shown.Agent) {
		then = 1 + slices.Index(claim.Agents, shown.Agent)
	} else {
		claim = nil
	}
	text = workspacesAt(fmt.Sprintf("peers/agent%d", then), relative, m).settled(text)
	return a.paths.renumbered(text, claim), nil
}

// Warnings tell of files that are not brought before the step.
func (a *Answers) Warnings() []Warning { return a.found }

// manifest is that of the commit, if the store has what it lists; else one of
// the files that lie in the step's workspace.
func (a *Answers) manifest(ctx context.Context, dir string, act *action) (string, error) {
	if act.manifest != "" && a.whole(ctx, act.manifest) {
		return act.manifest, nil
	}
	var w warnings
	if !hasFiles(a.root, dir+"workspace", &w) {
		return "", ctx.Err()
	}
	root, err := a.root.OpenRoot(dir + "workspace")
	if err != nil {
		return "", fmt.Errorf("opening the files in %s: %w", dir, err)
	}
	defer root.Close()
	hash, left, err := artifact.Adopt(ctx, a.store, artifact.InDir(), root, a.scratch, foreign...)
	if err != nil {
		return "", fmt.Errorf("reading the files in %s: %w", dir, err)
	}
	for _, one := range left {
		a.found.add(dir+"workspace/"+one.Path, "was left out: %s", one.Problem)
	}
	return hash, nil
}

// whole reports whether the store has a manifest and all that it lists.
func (a *Answers) whole(ctx context.Context, hash string) bool {
	m, err := artifact.LoadManifest(ctx, a.store, artifact.InDir(), hash)
	if err != nil {
		return false
	}
	for _, f := range m.Files {
		if f.Link != "" {
			continue
		}
		if there, err := a.store.Exists(ctx, artifact.InDir().Blob(f.SHA256)); err != nil || !there {
			return false
		}
	}
	return true
}

// maxLooked bounds the search for a file among empty directories.
const maxLooked = 1000

// hasFiles reports whether there is anything in the workspace of an answer. A
// workspace that is no directory is none.
func hasFiles(root *os.Root, dir string, w *warnings) bool {
	found, looked := false, 0
	var look func(dir string, depth int)
	look = func(dir string, depth int) {
		looked++
		entries, err := list(root, dir)
		if err != nil && depth == 0 {
			w.add(dir, "%v; the answer has no files", err)
		}
		for _, entry := range entries {
			switch {
			case found || looked == maxLooked:
				return
			case entry.IsDir():
				look(dir+"/"+entry.Name(), depth+1)
			case entry.Type().IsRegular(), entry.Type() == fs.ModeSymlink:
				found = true
			}
		}
	}
	look(dir, 0)
	return found
}
