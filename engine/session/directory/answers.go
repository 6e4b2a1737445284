package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/engine/step"
)

// foreign lists directories of other programs that are not part of the answer. Their names
// and contents would reveal which model worked there.
var foreign = []string{".massgen/", ".codex/", ".gemini/", ".claude/"}

// answers prepares the answers of a directory to be shown to a step; the step uses it as its
// Commits. It builds the commits of other programs' answers and stores their files.
type answers struct {
	root     *os.Root
	store    artifact.Store
	layout   artifact.Layout
	peers    peerPaths
	scratch  string
	warnings warnings
}

// Answers returns the answers for a step that numbers the given agents. The store is the
// directory at root, and dir is its absolute path. The layout has the base of the session, if
// any. Large files are copied to scratch.
func (d Directory) Answers(root *os.Root, store artifact.Store, layout artifact.Layout, dir string, agents []string, scratch string) *answers {
	return &answers{root: root, store: store, layout: layout, peers: newPeerPaths(dir, agents), scratch: scratch}
}

// Commit returns the commit of an answer. It stores the answer's files and rewrites the paths
// in its text to paths below peers/.
func (a *answers) Commit(ctx context.Context, shown coordination.Shown) (artifact.Commit, error) {
	dir := artifact.Layout{}.Step(shown.Agent, shown.Step, "")
	var w warnings
	act, _ := readAction(a.root, dir, &w)
	if act == nil || act.kind != coordination.NewAnswer {
		return artifact.Commit{}, fmt.Errorf("%s has no answer any more: another program changed it; launch the step again", dir)
	}
	manifest, err := a.answerManifest(ctx, dir, act)
	if err != nil {
		return artifact.Commit{}, err
	}
	text := act.text
	if act.committed {
		if text, err = a.commitText(ctx, text, shown, manifest); err != nil {
			return artifact.Commit{}, err
		}
	}
	payload, err := json.Marshal(session.Answer{Answer: a.peers.rewritePaths(text), Label: shown.Label, Data: act.data})
	if err != nil {
		return artifact.Commit{}, err
	}
	return artifact.Commit{Kind: string(coordination.NewAnswer), Payload: payload, Manifest: manifest}, nil
}

// commitText rewrites the text of a commit: the path of its own workspace becomes the one
// below peers/, and its numbers of other agents become the current ones.
func (a *answers) commitText(ctx context.Context, text string, shown coordination.Shown, manifest string) (string, error) {
	m, err := artifact.LoadManifest(ctx, a.store, a.layout, manifest)
	if err != nil {
		return "", err
	}
	claim := readClaim(a.root, artifact.Layout{}.Step(shown.Agent, shown.Step, ""), new(warnings))
	number := shown.Number // the agent's number in the text
	if claim != nil && slices.Contains(claim.Agents, shown.Agent) {
		number = 1 + slices.Index(claim.Agents, shown.Agent)
	} else {
		claim = nil
	}
	text = step.Paths{Own: fmt.Sprintf("peers/agent%d", number), Files: m}.Rewrite(text)
	return a.peers.renumberPeers(text, claim), nil
}

// Warnings reports files that are not shown to the step.
func (a *answers) Warnings() []warning { return a.warnings }

// answerManifest returns the manifest of the commit if the store has all its content, or else the
// manifest of the files in the step's workspace.
func (a *answers) answerManifest(ctx context.Context, dir string, act *action) (string, error) {
	if act.manifest != "" && a.isComplete(ctx, act.manifest) {
		return act.manifest, nil
	}
	var w warnings
	if !hasFiles(a.root, dir+"workspace", &w) {
		return "", ctx.Err()
	}
	root, err := a.root.OpenRoot(dir + "workspace")
	if err != nil {
		return "", fmt.Errorf("open the files in %s: %w", dir, err)
	}
	defer root.Close()
	hash, left, err := artifact.Adopt(ctx, a.store, a.layout, root, a.scratch, foreign...)
	if err != nil {
		return "", fmt.Errorf("read the files in %s: %w", dir, err)
	}
	for _, one := range left {
		a.warnings.addWarning(dir+"workspace/"+one.Path, "was left out: %s", one.Problem)
	}
	return hash, nil
}

func (a *answers) isComplete(ctx context.Context, hash string) bool {
	c, err := artifact.LoadChange(ctx, a.store, a.layout, hash)
	if err != nil {
		return false
	}
	for _, f := range c.Files {
		if f.SHA256 == "" || a.layout.Base().HasContent(f.SHA256) {
			continue
		}
		if there, err := a.store.Exists(ctx, a.layout.Blob(f.SHA256)); err != nil || !there {
			return false
		}
	}
	return true
}

// maxVisited limits the search for a file among empty directories.
const maxVisited = 1000

// hasFiles reports whether the workspace of an answer holds a file or link. It warns
// about a workspace that is not a directory.
func hasFiles(root *os.Root, dir string, w *warnings) bool {
	found, visited := false, 0
	var visit func(dir string, depth int)
	visit = func(dir string, depth int) {
		visited++
		entries, err := listEntries(root, dir)
		if err != nil && depth == 0 {
			w.addWarning(dir, "%v; the answer has no files", err)
		}
		for _, entry := range entries {
			switch {
			case found || visited == maxVisited:
				return
			case entry.IsDir():
				visit(dir+"/"+entry.Name(), depth+1)
			case entry.Type().IsRegular(), entry.Type() == fs.ModeSymlink:
				found = true
			}
		}
	}
	visit(dir, 0)
	return found
}

// workspaceAnywhere matches the beginning of a path to a session directory, which may have
// been moved since the answer was written.
const workspaceAnywhere = "[^\\s\"'`<>()\\[\\]{}|,;:=]*/"

// peerPaths rewrites texts for a step that numbers these agents.
type peerPaths struct {
	numbers map[string]int // numbers by agent ID
	pattern *regexp.Regexp // path of a workspace in the session directory
}

func newPeerPaths(dir string, agents []string) peerPaths {
	p := peerPaths{numbers: map[string]int{}}
	ids := make([]string, 0, len(agents))
	for i, id := range agents {
		p.numbers[id] = i + 1
		ids = append(ids, regexp.QuoteMeta(id))
	}
	p.pattern = regexp.MustCompile(fmt.Sprintf(
		`(?:%s)?\bagents/(%s)/[0-9]{3,6}/workspace\b`, step.RootPattern(workspaceAnywhere, dir), strings.Join(ids, "|")))
	return p
}

// rewritePaths replaces the paths of workspaces in the session directory with peers/agent<N>,
// which hides the agents' IDs.
func (p peerPaths) rewritePaths(text string) string {
	return p.pattern.ReplaceAllStringFunc(text, func(found string) string {
		number := p.numbers[p.pattern.FindStringSubmatch(found)[1]]
		if number == 0 {
			return found
		}
		return fmt.Sprintf("peers/agent%d", number)
	})
}

// numberedPeer matches the directory of a peer or the label of an answer.
var numberedPeer = regexp.MustCompile(`\b(peers/agent)([0-9]{1,4})\b|\bagent([0-9]{1,4})\.([0-9]+)\b`)

// renumberPeers replaces the numbers in a text with the current numbers of the same agents. The
// claim of the step that wrote the text records those agents. Only labels that the step was
// shown are replaced.
func (p peerPaths) renumberPeers(text string, c *artifact.Claim) string {
	if c == nil {
		return text
	}
	current := func(old string) (int, bool) {
		n, _ := strconv.Atoi(old)
		if n < 1 || n > len(c.Agents) {
			return 0, false
		}
		number, ok := p.numbers[c.Agents[n-1]]
		return number, ok
	}
	return numberedPeer.ReplaceAllStringFunc(text, func(found string) string {
		m := numberedPeer.FindStringSubmatch(found)
		if number, ok := current(m[2]); ok {
			return m[1] + strconv.Itoa(number)
		}
		if number, ok := current(m[3]); ok && slices.Contains(c.Labels, found) {
			return fmt.Sprintf("agent%d.%s", number, m[4])
		}
		return found
	})
}

// AdaptSpec adapts the spec of a step to a directory that other programs use too: the step
// claims a number by creating its directory.
func AdaptSpec(store *artifact.Dir, s step.Spec) step.Spec {
	s.Reserve = func(ctx context.Context, number int) (bool, error) {
		err := store.MakeDir(ctx, s.Dir(number)+"step.json")
		if errors.Is(err, artifact.ErrExists) {
			return false, nil
		}
		return err == nil, err
	}
	return s
}
