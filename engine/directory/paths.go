package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// paths turn where workspaces lie in a session directory into where a step reads
// them: peers/agent<N>. The rest of the path goes, and the agent's ID with it.
type paths struct {
	numbers map[string]int
	pattern *regexp.Regexp
}

// anywhere is the beginning of a path to a session directory that may have been
// somewhere else when the answer was given: as far as it looks like one.
const anywhere = "[^\\s\"'`<>()\\[\\]{}|,;:=]*/"

// pathsAt knows the workspaces of the agents of the directory at dir, in the order
// of their numbers.
func pathsAt(dir string, agents []string) paths {
	p := paths{numbers: map[string]int{}}
	for i, id := range agents {
		p.numbers[id] = i + 1
	}
	var roots []string
	for _, root := range []string{dir, resolved(dir)} {
		if root = strings.TrimSuffix(root, "/"); root != "" {
			roots = append(roots, regexp.QuoteMeta(root)+"/")
		}
	}
	p.pattern = regexp.MustCompile(fmt.Sprintf(`(?:%s)?\bagents/([a-z][a-z0-9_-]{0,31})/[0-9]{3,6}/workspace\b`, strings.Join(append(roots, anywhere), "|")))
	return p
}

// resolved is dir without links; dir itself where that cannot be told.
func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// shown is an answer's text as a step is shown it.
func (p paths) shown(text string) string {
	return p.pattern.ReplaceAllStringFunc(text, func(found string) string {
		number := p.numbers[p.pattern.FindStringSubmatch(found)[1]]
		if number == 0 {
			return found
		}
		return fmt.Sprintf("peers/agent%d", number)
	})
}

// numberedPeer matches what a text says of agents by their numbers: the directory of a
// peer, or an answer's label.
var numberedPeer = regexp.MustCompile(`\b(peers/agent)([0-9]{1,4})\b|\bagent([0-9]{1,4})\.([0-9]+)\b`)

// renumbered is a text of a step whose claim says whom its numbers stood for, with
// the numbers that those agents have now. Labels are labels only if the step was
// shown them.
func (p paths) renumbered(text string, c *artifact.Claim) string {
	if c == nil {
		return text
	}
	now := func(then string) (int, bool) {
		n, _ := strconv.Atoi(then)
		if n < 1 || n > len(c.Agents) {
			return 0, false
		}
		number, ok := p.numbers[c.Agents[n-1]]
		return number, ok
	}
	return numberedPeer.ReplaceAllStringFunc(text, func(found string) string {
		m := numberedPeer.FindStringSubmatch(found)
		if number, ok := now(m[2]); ok {
			return m[1] + strconv.Itoa(number)
		}
		if number, ok := now(m[3]); ok && slices.Contains(c.Labels, found) {
			return fmt.Sprintf("agent%d.%s", number, m[4])
		}
		return found
	})
}

// insideShell is where an agent's commands find its workspace when they are
// confined as fully as can be.
const insideShell = "/workspace"

// ownWorkspace matches where a step's workspace lies while it runs, of this
// attempt or an earlier one, in whichever temporary directory: up to the first
// name in it, or to peers/agent<N>.
const ownWorkspace = `(?:%s)conclave-step-[0-9]+/files\b(/peers/agent([0-9]+)\b(\.md\b)?)?|(^|[\s"'` + "`" + `(<\[=:,])` + insideShell + `/([^\s"'` + "`" + `<>()\[\]{}|,;:=/]+)`

// absolute is the beginning of a path, as far as it looks like one.
const absolute = "/(?:[^\\s\"'`<>()\\[\\]{}|,;:=/]+/)*"

// workspaces tell where the workspaces are that the text of an answer may name by
// where they lay while it was written.
type workspaces struct {
	own   string                          // of the step
	peers func(number int) (string, bool) // of an answer that it was shown
	names map[string]bool                 // at the top of its files
	at    *regexp.Regexp
}

// workspacesAt knows the temporary directories, too, that no pattern would find.
func workspacesAt(own string, peers func(int) (string, bool), m artifact.Manifest, temporary ...string) workspaces {
	w := workspaces{own: own, peers: peers, names: map[string]bool{}}
	for _, f := range m.Files {
		name, _, _ := strings.Cut(f.Path, "/")
		w.names[name] = true
	}
	var roots []string
	for _, dir := range temporary {
		for _, root := range []string{resolved(dir), dir} {
			if root != "" {
				roots = append(roots, regexp.QuoteMeta(strings.TrimSuffix(root, "/"))+"/")
			}
		}
	}
	w.at = regexp.MustCompile(fmt.Sprintf(ownWorkspace, strings.Join(append(roots, absolute), "|")))
	return w
}

// settled is a text that names the workspaces by where they stay. The longest
// path counts: what is below peers/agent<N> is that peer's. References to
// peers/agent<N> that are relative are what everybody reads, and stay.
func (w workspaces) settled(text string) string {
	var b strings.Builder
	last := 0
	for _, m := range w.at.FindAllStringSubmatchIndex(text, -1) {
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return text[m[2*n]:m[2*n+1]]
		}
		b.WriteString(text[last:m[0]])
		last = m[1]
		switch number, _ := strconv.Atoi(group(2)); {
		case w.has(group(5)):
			b.WriteString(group(4) + w.own + "/" + group(5))
		case group(5) != "": // some other directory of this name
			b.WriteString(text[m[0]:m[1]])
		case group(1) == "":
			b.WriteString(w.own)
		default:
			b.WriteString(w.peer(number, group(3)))
		}
	}
	return b.String() + text[last:]
}

// has reports whether there is a file or directory of this name, which may end a
// sentence.
func (w workspaces) has(name string) bool {
	return name != "" && (w.names[name] || w.names[strings.TrimRight(name, ".!?")])
}

// peer is where a peer's workspace stays; of its long text there is only the name.
func (w workspaces) peer(number int, suffix string) string {
	if place, ok := w.peers(number); ok && suffix == "" {
		return place
	}
	return fmt.Sprintf("peers/agent%d%s", number, suffix)
}

// relative names peers as every step reads them.
func relative(int) (string, bool) { return "", false }

// Saving has the number of a step taken as every program takes it, by making its
// directory, and the documents made as a directory has them: in an answer's text the
// paths of workspaces are where those stay. The temporary directories
// are those in which the step's workspace may lie.
func Saving(store *artifact.Dir, s step.Spec, l coordination.Launch, temporary ...string) step.Spec {
	derived := s.Documents
	peers := func(number int) (string, bool) {
		for _, shown := range l.Shown {
			if shown.Number == number {
				return store.URL(artifact.InDir().Step(shown.Agent, shown.Step, "workspace")), true
			}
		}
		return "", false
	}
	s.Reserve = func(ctx context.Context, number int) (bool, error) {
		err := store.MakeDir(ctx, s.Dir(number)+"step.json")
		if errors.Is(err, artifact.ErrExists) {
			return false, nil
		}
		return err == nil, err
	}
	s.Documents = func(number int, c artifact.Commit) ([]step.Document, error) {
		if c.Kind != string(coordination.NewAnswer) {
			return derived(number, c)
		}
		var payload team.Answer
		if err := json.Unmarshal(c.Payload, &payload); err != nil {
			return nil, fmt.Errorf("reading the answer of step %d: %w", number, err)
		}
		m, err := artifact.LoadManifest(context.Background(), store, artifact.InDir(), c.Manifest)
		if err != nil {
			return nil, err
		}
		own := filepath.ToSlash(store.URL(s.Dir(number) + "workspace"))
		payload.Answer = workspacesAt(own, peers, m, temporary...).settled(payload.Answer)
		if c.Payload, err = json.Marshal(payload); err != nil {
			return nil, err
		}
		return derived(number, c)
	}
	return s
}
